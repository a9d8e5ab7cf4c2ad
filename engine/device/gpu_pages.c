#include "engine/device/gpu_parts.h"

#include <stdlib.h>
#include <string.h>

/* ---- pages of the device tier ---- */

struct device_range *gpu_pages_range(struct gpu_pages *own, const void *base)
{
    for (int r = 0; r < CATEGORIES; r++)
        if (own->range[r].base == base) return &own->range[r];
    return NULL;
}

/* The range that holds an address. Symmetric categories lie one after another in one range; *from is the address's offset in it. */
static struct device_range *range_around(struct gpu_pages *own, const unsigned char *at, uint64_t *from)
{
    struct device_range *range = own->range;
    while (!range->base || at < range->base || at >= range->base + range->bytes) range++;
    *from = (uint64_t)(at - range->base);
    return range;
}

static void *reserve(void *user, uint64_t bytes, struct error *err)
{
    struct gpu_pages *own = user;
    struct device_range *range = gpu_pages_range(own, NULL);
    int status = range ? device_range_reserve(range, own->device, bytes, err)
                       : error_set(err, STATUS_RUN, "a rank has %d ranges of device memory at most", CATEGORIES);
    return status ? NULL : range->base;
}

static void unreserve(void *user, void *base, uint64_t bytes)
{
    struct gpu_pages *own = user;
    (void)bytes;
    struct device_range *range = gpu_pages_range(own, base);
    pthread_mutex_lock(&own->share->lock);
    if (own->share->range == range) own->share->range = NULL;
    device_range_release(range);
    *range = (struct device_range){0};
    pthread_mutex_unlock(&own->share->lock);
}

static int commit(void *user, unsigned char *base, uint64_t first, uint64_t end, struct error *err)
{
    struct gpu_pages *own = user;
    uint64_t from;
    struct device_range *range = range_around(own, base, &from);
    pthread_mutex_lock(&own->share->lock);
    const int status = device_range_commit(range, from + first, from + end, err);
    if (!status) gpu_share_note(own->share, range, from + first, from + end);
    pthread_mutex_unlock(&own->share->lock);
    return status;
}

/* The GPU no longer uses these pages: an operation ends, and gives its buffers back, only after its GPU work has ended. */
static struct run give_back(void *user, unsigned char *base, struct run idle, uint64_t wanted)
{
    struct error why;
    struct gpu_pages *own = user;
    uint64_t from;
    struct device_range *range = range_around(own, base, &from);
    struct run back = {from + idle.first, from + idle.end};
    pthread_mutex_lock(&own->share->lock);
    device_range_return(range, &back.first, &back.end, wanted, &why);
    if (back.end) gpu_share_note(own->share, range, back.first, back.end);
    pthread_mutex_unlock(&own->share->lock);
    return back.end ? (struct run){back.first - from, back.end - from} : back;
}

/* ---- pinned pieces of the host tier ---- */

/* The index of the first piece that ends after that address. */
static int piece_from(const struct gpu_pages *own, const unsigned char *at)
{
    int low = 0, high = own->pinned_count;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (own->pinned[middle].at + own->pinned[middle].bytes > at) high = middle;
        else low = middle + 1;
    }
    return low;
}

static bool insert(struct gpu_pages *own, struct gpu_piece piece)
{
    struct gpu_piece *more = realloc(own->pinned, (size_t)(own->pinned_count + 1) * sizeof *more);
    if (!more) return false;
    own->pinned = more;
    const int p = piece_from(own, piece.at);
    memmove(more + p + 1, more + p, (size_t)(own->pinned_count++ - p) * sizeof *more);
    more[p] = piece;
    return true;
}

static void erase(struct gpu_pages *own, int p)
{
    memmove(own->pinned + p, own->pinned + p + 1, (size_t)(--own->pinned_count - p) * sizeof *own->pinned);
}

/* Grows the list first: if there is no memory for that, nothing needs to be undone. */
static int pin(void *user, void *host, uint64_t bytes, struct error *err)
{
    struct gpu_pages *own = user;
    int status = STATUS_OK;
    pthread_mutex_lock(&own->lock);
    if (!insert(own, (struct gpu_piece){host, bytes}))
        status = error_set(err, STATUS_RUN, "no memory for a list of pinned pieces");
    else if ((status = device_pin(own->device, host, bytes, err))) erase(own, piece_from(own, host));
    pthread_mutex_unlock(&own->lock);
    return status;
}

static bool unpin(void *user, void *host, uint64_t bytes)
{
    struct gpu_pages *own = user;
    struct error why;
    (void)bytes;
    pthread_mutex_lock(&own->lock);
    const bool unpinned = device_unpin(own->device, host, &why) == STATUS_OK;
    if (unpinned) erase(own, piece_from(own, host));
    pthread_mutex_unlock(&own->lock);
    return unpinned;
}

uint64_t gpu_pages_stretch(struct gpu_pages *own, const void *address, uint64_t bytes)
{
    const unsigned char *at = address, *border = at + bytes;
    pthread_mutex_lock(&own->lock);
    const int p = piece_from(own, at);
    if (p < own->pinned_count) {
        const struct gpu_piece *piece = &own->pinned[p];
        border = piece->at > at ? piece->at : piece->at + piece->bytes;
    }
    pthread_mutex_unlock(&own->lock);
    return border < at + bytes ? (uint64_t)(border - at) : bytes;
}

/* ---- a rank ---- */

void gpu_pages_open(struct gpu_pages *own, struct device *device, struct gpu_share *share)
{
    *own = (struct gpu_pages){.device = device, .share = share};
    pthread_mutex_init(&own->lock, NULL);
    own->pages =
        (struct pages){device_info(device)->granularity, own, reserve, unreserve, commit, give_back, pin, unpin};
}

void gpu_pages_close(struct gpu_pages *own)
{
    if (!own->device) return;
    free(own->pinned);
    pthread_mutex_destroy(&own->lock);
    *own = (struct gpu_pages){0};
}
