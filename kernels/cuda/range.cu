/* Reserves GPU addresses and commits memory to parts of them, with the driver's virtual memory management. Memory comes in pieces:
 * each has one handle of the driver and goes back as a whole, because the driver cannot unmap a part of a handle. A piece begins where
 * a commit or a border begins, and ends at the next border at the latest. Borders are a 64th of the range apart, 64 MiB at most. So
 * tens of GiB take hundreds of the driver's calls, not one for each page of 2 MiB, and a range that shrinks keeps little that it does
 * not need. libcuda is not linked; its functions are looked up by name. */
#include "kernels/cuda/runtime.cuh"

#include <cuda.h>
#include <stdlib.h>
#include <string.h>

#define DRIVER_CALLS(X)                                                                                                \
    X(cuMemAddressReserve)                                                                                             \
    X(cuMemAddressFree)                                                                                                \
    X(cuMemCreate)                                                                                                     \
    X(cuMemRelease)                                                                                                    \
    X(cuMemMap)                                                                                                        \
    X(cuMemUnmap)                                                                                                      \
    X(cuMemSetAccess)                                                                                                  \
    X(cuMemGetAllocationGranularity)                                                                                   \
    X(cuMemRetainAllocationHandle)                                                                                     \
    X(cuMemExportToShareableHandle)                                                                                    \
    X(cuMemImportFromShareableHandle)

struct driver {
#define X(name) decltype(&::name) name;
    DRIVER_CALLS(X)
#undef X
};

struct driver_names {
    const char *name;
    size_t offset;
};

/* Looks up a driver function; three generations of the runtime have three different calls for that. */
static cudaError_t driver_call(const char *name, void **call)
{
    bool found = true;
#if CUDART_VERSION >= 12000
    cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSuccess;
#endif
#if CUDART_VERSION >= 12050
    const cudaError_t error = cudaGetDriverEntryPointByVersion(name, call, 11000, cudaEnableDefault, &result);
#elif CUDART_VERSION >= 12000
    const cudaError_t error = cudaGetDriverEntryPoint(name, call, cudaEnableDefault, &result);
#else
    const cudaError_t error = cudaGetDriverEntryPoint(name, call, cudaEnableDefault);
#endif
#if CUDART_VERSION >= 12000
    found = result == cudaDriverEntryPointSuccess;
#endif
    return error == cudaSuccess && (!found || !*call) ? cudaErrorInsufficientDriver : error;
}

/* Looks the functions up for every use, which is rare. Keeping them would need a global, or a member with the driver's types. */
static int driver_find(struct driver *driver, struct error *err)
{
#define X(name) {#name, offsetof(struct driver, name)},
    static const struct driver_names names[] = {DRIVER_CALLS(X)};
#undef X
    for (const struct driver_names &call : names) {
        void *at = NULL;
        int status = cuda_result(err, call.name, driver_call(call.name, &at));
        if (status) return status;
        memcpy((char *)driver + call.offset, &at, sizeof at);
    }
    return STATUS_OK;
}

static CUmemAllocationProp page_of(const struct device *device)
{
    CUmemAllocationProp prop;
    memset(&prop, 0, sizeof prop);
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED; /* the one kind there is */
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = device->ordinal;
    if (device->exports) prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    return prop;
}

int range_granularity(struct device *device, struct error *err)
{
    struct driver driver;
    const CUmemAllocationProp prop = page_of(device);
    size_t granularity = 0;
    int status = driver_find(&driver, err);
    if (!status) status = cuda_result(err, "starting the GPU", cudaFree(NULL)); /* the driver's calls need a context */
    if (status) return status;
    const CUresult result = driver.cuMemGetAllocationGranularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    if (result != CUDA_SUCCESS)
        return error_set(err, STATUS_RUN, "the GPU has no virtual memory management (driver error %d)", (int)result);
    device->info.granularity = granularity;
    return STATUS_OK;
}

/* The state of a page: no memory, the first of a piece, or a later one. FRESH: the commit in progress made it. */
enum { PAGE_EMPTY, PAGE_FIRST, PAGE_LATER, PAGE_FRESH = 4 };

static uint64_t pages_between_borders(const struct device_range *range)
{
    enum { PIECES = 64, PIECE_BYTES_MAX = 64 << 20 };
    const uint64_t unit = range->device->info.granularity;
    uint64_t pages = 1;
    while (pages * unit * PIECES < range->bytes && pages * unit < PIECE_BYTES_MAX) pages *= 2;
    return pages;
}

/* The end of the piece that begins at that page. */
static uint64_t piece_end(const struct device_range *range, uint64_t page)
{
    const uint64_t all = range->bytes / range->device->info.granularity;
    do page++;
    while (page < all && (range->pages[page] & ~PAGE_FRESH) == PAGE_LATER);
    return page;
}

/* Sets the state of a piece's pages, and the counters of committed bytes. */
static void piece_put(struct device_range *range, uint64_t first, uint64_t end, bool committed)
{
    const uint64_t bytes = (end - first) * range->device->info.granularity, change = committed ? bytes : -bytes;
    memset(range->pages + first, committed ? PAGE_LATER | PAGE_FRESH : PAGE_EMPTY, end - first);
    if (committed) range->pages[first] = PAGE_FIRST | PAGE_FRESH;
    range->committed_bytes += change;
    if (!range->imported) __atomic_fetch_add(&range->device->committed_bytes, change, __ATOMIC_RELAXED);
}

int device_range_reserve(struct device_range *range, struct device *device, uint64_t bytes, struct error *err)
{
    struct driver driver;
    const uint64_t unit = device->info.granularity;
    CUdeviceptr base = 0;
    *range = device_range();
    int status = device_use(device, err);
    if (!status) status = driver_find(&driver, err);
    if (status) return status;
    const uint64_t whole = (bytes + unit - 1) / unit * unit;
    range->pages = (unsigned char *)calloc(1, whole / unit + 1);
    if (!range->pages) return error_set(err, STATUS_RUN, "no memory for a range of the GPU");
    const CUresult result = driver.cuMemAddressReserve(&base, whole, unit, 0, 0);
    if (result != CUDA_SUCCESS) {
        free(range->pages);
        *range = device_range();
        return error_set(err, STATUS_RUN, "no addresses for %.2f GiB on GPU %d (driver error %d)",
                         (double)whole / (1 << 30), device->ordinal, (int)result);
    }
    range->device = device;
    range->base = (unsigned char *)base;
    range->bytes = whole;
    return STATUS_OK;
}

void device_range_release(struct device_range *range)
{
    struct driver driver;
    if (!range->device) return;
    uint64_t first = 0, end = range->bytes;
    device_range_return(range, &first, &end, range->bytes, NULL);
    if (!driver_find(&driver, NULL)) driver.cuMemAddressFree((CUdeviceptr)range->base, range->bytes);
    free(range->pages);
    *range = device_range();
}

/* fd: of memory that another process has exported; -1: new memory. */
static CUresult piece_commit(const struct driver *driver, struct device_range *range, uint64_t first, uint64_t end, int fd)
{
    const uint64_t unit = range->device->info.granularity, bytes = (end - first) * unit;
    const CUdeviceptr at = (CUdeviceptr)range->base + first * unit;
    const CUmemAllocationProp prop = page_of(range->device);
    CUmemAccessDesc access[DEVICES_MOST];
    const int others = range->device->reached_by_count;
    memset(access, 0, sizeof access);
    for (int d = 0; d <= others; d++) {
        access[d].location = prop.location;
        access[d].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        if (d > 0) access[d].location.id = range->device->reached_by[d - 1];
    }
    CUmemGenericAllocationHandle handle;
    CUresult result = fd < 0 ? driver->cuMemCreate(&handle, bytes, &prop, 0)
                             : driver->cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd,
                                                                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    if (result != CUDA_SUCCESS) return result;
    result = driver->cuMemMap(at, bytes, 0, handle, 0);
    if (result == CUDA_SUCCESS) {
        result = driver->cuMemSetAccess(at, bytes, access, (size_t)others + 1);
        if (result != CUDA_SUCCESS) driver->cuMemUnmap(at, bytes);
    }
    driver->cuMemRelease(handle); /* the memory lives as long as it is mapped */
    if (result == CUDA_SUCCESS) piece_put(range, first, end, true);
    return result;
}

static CUresult piece_return(const struct driver *driver, struct device_range *range, uint64_t first, uint64_t end)
{
    const uint64_t unit = range->device->info.granularity;
    const CUresult result = driver->cuMemUnmap((CUdeviceptr)range->base + first * unit, (end - first) * unit);
    if (result == CUDA_SUCCESS) piece_put(range, first, end, false);
    return result;
}

/* Pieces of this commit are kept, or given back if it failed. */
static void pieces_settle(const struct driver *driver, struct device_range *range, uint64_t first, uint64_t end, bool kept)
{
    for (uint64_t page = first; page < end; page++) {
        if (!(range->pages[page] & PAGE_FRESH)) continue;
        range->pages[page] &= ~PAGE_FRESH;
        if (!kept && range->pages[page] == PAGE_FIRST) piece_return(driver, range, page, piece_end(range, page));
    }
}

int device_range_commit(struct device_range *range, uint64_t first, uint64_t end, struct error *err)
{
    struct driver driver;
    struct device *device = range->device;
    const uint64_t unit = device->info.granularity, pages = end / unit, border = pages_between_borders(range);
    int status = device_use(device, err);
    if (!status) status = driver_find(&driver, err);
    if (status) return status;
    for (uint64_t page = first / unit, next; page < pages && !status; page = next) {
        next = page + 1;
        if (range->pages[page] != PAGE_EMPTY) continue;
        while (next < pages && next % border && range->pages[next] == PAGE_EMPTY) next++;
        const CUresult result = piece_commit(&driver, range, page, next, -1);
        if (result != CUDA_SUCCESS)
            status = result == CUDA_ERROR_OUT_OF_MEMORY
                         ? error_set(err, STATUS_RUN, "GPU %d has no %.1f MiB left", device->ordinal,
                                     (double)(end - first) / (1 << 20))
                         : error_set(err, STATUS_RUN, "GPU %d does not commit memory%s (driver error %d)", device->ordinal,
                                     device->exports ? " for other processes" : "", (int)result);
    }
    pieces_settle(&driver, range, first / unit, pages, status == STATUS_OK);
    return status;
}

int device_range_return(struct device_range *range, uint64_t *first, uint64_t *end, uint64_t wanted, struct error *err)
{
    struct driver driver;
    const uint64_t unit = range->device->info.granularity, last = *end / unit, before_bytes = range->committed_bytes;
    uint64_t page = *first / unit, next;
    int status = device_use(range->device, err);
    if (!status) status = driver_find(&driver, err);
    *first = *end = 0;
    for (; page < last && before_bytes - range->committed_bytes < wanted && !status; page = next) {
        next = page + 1;
        if (range->pages[page] != PAGE_FIRST || piece_end(range, page) > last) continue;
        next = piece_end(range, page);
        const CUresult result = piece_return(&driver, range, page, next);
        if (result != CUDA_SUCCESS)
            status = error_set(err, STATUS_RUN, "GPU %d does not take memory back (driver error %d)",
                               range->device->ordinal, (int)result);
        else *first = *end ? *first : page * unit, *end = next * unit;
    }
    return status;
}

/* ---- between processes ------------------------------------------------------------------------------------------------ */

void device_export(struct device *device)
{
    device->exports = true;
}

bool device_range_piece(const struct device_range *range, uint64_t at, uint64_t *first, uint64_t *end)
{
    const uint64_t unit = range->device->info.granularity;
    uint64_t page = at / unit;
    if (range->pages[page] == PAGE_EMPTY) return false;
    while (range->pages[page] == PAGE_LATER) page--;
    *first = page * unit;
    *end = piece_end(range, page) * unit;
    return true;
}

int device_range_export(const struct device_range *range, uint64_t first, int *fd, struct error *err)
{
    struct driver driver;
    CUmemGenericAllocationHandle handle;
    int status = device_use(range->device, err);
    if (!status) status = driver_find(&driver, err);
    if (status) return status;
    CUresult result = driver.cuMemRetainAllocationHandle(&handle, range->base + first);
    if (result == CUDA_SUCCESS) {
        result = driver.cuMemExportToShareableHandle(fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
        driver.cuMemRelease(handle);
    }
    if (result == CUDA_SUCCESS) return STATUS_OK;
    return error_set(err, STATUS_RUN, "GPU %d does not give memory to other processes (driver error %d)",
                     range->device->ordinal, (int)result);
}

int device_range_import(struct device_range *range, uint64_t first, uint64_t end, int fd, struct error *err)
{
    struct driver driver;
    const uint64_t unit = range->device->info.granularity;
    int status = device_use(range->device, err);
    if (!status) status = driver_find(&driver, err);
    if (status) return status;
    range->imported = true;
    const CUresult result = piece_commit(&driver, range, first / unit, end / unit, fd);
    pieces_settle(&driver, range, first / unit, end / unit, true);
    if (result == CUDA_SUCCESS) return STATUS_OK;
    return error_set(err, STATUS_RUN, "GPU %d cannot map memory of another process (driver error %d)",
                     range->device->ordinal, (int)result);
}
