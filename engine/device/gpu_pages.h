/* A rank's memory as far as a GPU has to do with it: the pages of its device tier, which lie there, and the pieces of its host
 * tier that are pinned for it. `pages` is what the allocator asks for both (engine/memory/pages.h).
 *
 * What is open must not be moved: the allocator keeps a pointer to `pages`, and calls under its lock. Errors are STATUS_RUN. */
#ifndef ENGINE_DEVICE_GPU_PAGES_H
#define ENGINE_DEVICE_GPU_PAGES_H

#include <pthread.h>

#include "engine/base/tier.h"
#include "engine/memory/pages.h"
#include "kernels/cuda/device.h"

struct gpu_piece { unsigned char *at; uint64_t bytes; };

struct gpu_pages {
    struct device *device;
    struct device_stream *stream;          /* on which what is newly committed is cleared */
    struct device_range range[CATEGORIES]; /* every category has one, the symmetric ones share one; base NULL: free */
    pthread_mutex_t lock;                  /* lanes copy while the allocator pins */
    struct gpu_piece *pinned;              /* by address */
    int pinned_count;
    struct pages pages;
};

int gpu_pages_open(struct gpu_pages *pages, struct device *device, struct error *err);
void gpu_pages_close(struct gpu_pages *pages); /* after the allocator has given all back; also what was never opened, if zeroed */

/* How many of the bytes at that address can be copied at once: a copy must not cross the border of what is pinned (CUDA refuses
 * it), nor that between two pieces of it. */
uint64_t gpu_pages_stretch(struct gpu_pages *pages, const void *at, uint64_t bytes);

#endif
