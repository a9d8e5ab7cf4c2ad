/* Reads, writes and copies lasting arrays in any tier, outside a step. Arrays on NVMe pass through a window: staging in host memory
 * that is no larger than what a step takes there. So no array has to fit into memory, and the planned peak holds. */
#include <stdlib.h>
#include <string.h>

#include "engine/memory/storage.h"
#include "engine/zero/internal.h"

static const uint64_t PAGE = AIO_ALIGN_BYTES;

bool zero_is_on_nvme(const struct buffer *buffer)
{
    return buffer->tier == TIER_NVME;
}

bool zero_is_away(const struct zero *zero, const struct buffer *buffer)
{
    return zero_is_on_nvme(buffer) || (buffer->tier == TIER_DEVICE && zero->device);
}

int zero_move_bytes(const struct zero *zero, void *to, const void *from, uint64_t bytes, struct error *err)
{
    const struct mover *mover = zero->movers[LANE_COMPUTE];
    int status = mover_copy(mover, to, from, bytes, err);
    return status ? status : mover_finish(mover, err);
}

/* The size of the largest buffer into which a step reads NVMe, at most ZERO_WINDOW_BYTES; if there is none, ZERO_WINDOW_BYTES. */
uint64_t zero_window_bytes(const struct schedule *schedule)
{
    int64_t bytes = 0;
    for (int b = 0; b < schedule->buffer_count; b++) {
        const struct buffer *buffer = &schedule->buffers[b];
        if (buffer->tier == TIER_HOST && buffer->category == CATEGORY_STAGING && buffer->bytes > bytes &&
            (uint64_t)buffer->bytes % PAGE == 0)
            bytes = buffer->bytes;
    }
    return bytes && bytes < ZERO_WINDOW_BYTES ? (uint64_t)bytes : ZERO_WINDOW_BYTES;
}

/* A piece of an array on NVMe in the window: `pages` bytes of the array from `first` on; [from, from + bytes) of them are wanted. */
struct view {
    char *window;
    uint64_t first, pages, from, bytes;
};

static struct view view_at(const struct zero *zero, uint64_t at, uint64_t left)
{
    struct view view = {.window = memory_at(zero->memory, TIER_HOST, CATEGORY_STAGING, 0)};
    view.first = at / PAGE * PAGE;
    view.from = at - view.first;
    view.bytes = left < zero->window_bytes - view.from ? left : zero->window_bytes - view.from;
    view.pages = (view.from + view.bytes + PAGE - 1) / PAGE * PAGE;
    return view;
}

static int move_view(const struct zero *zero, const struct buffer *buffer, const struct view *view,
                     enum aio_direction direction, struct error *err)
{
    const struct aio_span span =
        storage_span(zero->storage, buffer->category, buffer->offset + view->first, view->window, view->pages);
    return storage_move(zero->storage, direction, &span, 1, err);
}

/* Moves bytes [at, at + bytes) of an array through the window: to `out`, from `in`, or to the same place of the array `to`, which is on
 * NVMe as well. Two of the three are NULL. */
static int through_window(const struct zero *zero, const struct buffer *buffer, uint64_t at, uint64_t bytes, void *out,
                          const void *in, const struct buffer *to, struct error *err)
{
    int status = memory_take(zero->memory, TIER_HOST, CATEGORY_STAGING, 0, zero->window_bytes, err);
    if (status) return status;
    for (uint64_t done = 0; done < bytes && !status;) {
        const struct view view = view_at(zero, at + done, bytes - done);
        if (!in || view.bytes < view.pages) /* a write leaves the other bytes of these pages as they are */
            status = move_view(zero, buffer, &view, AIO_READ, err);
        if (out && !status) memcpy((char *)out + done, view.window + view.from, view.bytes);
        if (in) memcpy(view.window + view.from, (const char *)in + done, view.bytes);
        if (!out && !status) status = move_view(zero, to ? to : buffer, &view, AIO_WRITE, err);
        done += view.bytes;
    }
    memory_give(zero->memory, TIER_HOST, CATEGORY_STAGING, 0, zero->window_bytes);
    return status;
}

int zero_array_read(const struct zero *zero, const struct buffer *buffer, uint64_t at, void *out, uint64_t bytes,
                    struct error *err)
{
    if (!zero_is_on_nvme(buffer)) return zero_move_bytes(zero, out, zero_place(zero, buffer) + at, bytes, err);
    return through_window(zero, buffer, at, bytes, out, NULL, NULL, err);
}

int zero_array_write(const struct zero *zero, const struct buffer *buffer, uint64_t at, const void *from,
                     uint64_t bytes, struct error *err)
{
    if (!zero_is_on_nvme(buffer)) return zero_move_bytes(zero, zero_place(zero, buffer) + at, from, bytes, err);
    return through_window(zero, buffer, at, bytes, NULL, from, NULL, err);
}

int zero_array_clear(const struct zero *zero, const struct buffer *buffer, uint64_t bytes, struct error *err)
{
    const struct mover *mover = buffer->tier == TIER_DEVICE ? zero->movers[LANE_COMPUTE] : NULL;
    int status = mover_clear(mover, zero_place(zero, buffer), bytes, err);
    return status ? status : mover_finish(mover, err);
}

/* Between NVMe and a device: through two buffers in host memory, piece by piece. */
static int copy_between(const struct zero *zero, const struct buffer *from, uint64_t at, const struct buffer *to,
                        uint64_t bytes, struct error *err)
{
    enum { PIECE_BYTES = 1 << 20 };
    char *piece = malloc(PIECE_BYTES);
    int status = piece ? STATUS_OK : error_set(err, STATUS_RUN, "no memory to move an array");
    for (uint64_t done = 0; done < bytes && !status; done += PIECE_BYTES) {
        const uint64_t part = bytes - done < PIECE_BYTES ? bytes - done : PIECE_BYTES;
        status = zero_array_read(zero, from, at + done, piece, part, err);
        if (!status) status = zero_array_write(zero, to, done, piece, part, err);
    }
    free(piece);
    return status;
}

int zero_array_copy(const struct zero *zero, const struct buffer *from, uint64_t at, const struct buffer *to,
                    uint64_t bytes, struct error *err)
{
    if (zero_is_on_nvme(from) && zero_is_on_nvme(to)) return through_window(zero, from, 0, bytes, NULL, NULL, to, err);
    if (zero_is_on_nvme(from) ? zero_is_away(zero, to) : zero_is_on_nvme(to) && zero_is_away(zero, from))
        return copy_between(zero, from, at, to, bytes, err);
    if (zero_is_on_nvme(from)) return zero_array_read(zero, from, at, zero_place(zero, to), bytes, err);
    return zero_array_write(zero, to, 0, zero_place(zero, from) + at, bytes, err);
}
