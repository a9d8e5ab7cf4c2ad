/* Uses OpenMP's threads, except under ThreadSanitizer, which cannot see how libgomp synchronises and would report every
 * loop. There each region makes its own threads and joins them, which is slow but which the sanitizer understands. */
#include "kernels/kernels.h"

#include <omp.h>
#include <pthread.h>
#include <stdlib.h>

struct region {
    kernels_body *body;
    const void *arguments;
    int64_t count, share;
};

static void region_part(const struct region *region, int thread)
{
    const int64_t first = thread * region->share, end = first + region->share;
    if (first < region->count)
        region->body(region->arguments, first, end < region->count ? end : region->count, thread);
}

#if defined __SANITIZE_THREAD__

struct part {
    const struct region *region;
    int thread;
    pthread_t id;
};

static void *part_main(void *user)
{
    const struct part *part = user;
    region_part(part->region, part->thread);
    return NULL;
}

static void region_run(const struct region *region, int parts)
{
    struct part *part = calloc((size_t)parts, sizeof *part);
    if (!part) abort();
    for (int i = 1; i < parts; i++) {
        part[i] = (struct part){.region = region, .thread = i};
        if (pthread_create(&part[i].id, NULL, part_main, &part[i])) abort();
    }
    region_part(region, 0);
    for (int i = 1; i < parts; i++) pthread_join(part[i].id, NULL);
    free(part);
}

#else

static void region_run(const struct region *region, int parts)
{
#pragma omp parallel for num_threads(parts) schedule(static, 1)
    for (int i = 0; i < parts; i++) region_part(region, i);
}

#endif

void kernels_share_out(int threads, kernels_body *body, const void *arguments, int64_t count, int64_t grain)
{
    const int64_t grains = (count + grain - 1) / grain, share = (grains + threads - 1) / threads;
    if (share == 0) return;
    const struct region region = {body, arguments, count, share * grain};
    const int parts = (int)((grains + share - 1) / share);
    if (parts == 1) region_part(&region, 0);
    else region_run(&region, parts);
}
