/* Reserves GPU addresses and commits memory to parts of them, with the driver's virtual memory management. Each page of granularity
 * (2 MiB) has its own handle, so any page can be returned. libcuda is not linked; its functions are looked up by name. */
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
    X(cuMemGetAllocationGranularity)

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
        const cudaError_t error = driver_call(call.name, &at);
        if (error != cudaSuccess) return cuda_failed(err, call.name, error);
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
    return prop;
}

int range_granularity(struct device *device, struct error *err)
{
    struct driver driver;
    const CUmemAllocationProp prop = page_of(device);
    size_t granularity = 0;
    int status = driver_find(&driver, err);
    if (status) return status;
    const cudaError_t begun = cudaFree(NULL); /* makes the context, which the driver's calls need */
    if (begun != cudaSuccess) return cuda_failed(err, "starting the GPU", begun);
    const CUresult result = driver.cuMemGetAllocationGranularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    if (result != CUDA_SUCCESS)
        return error_set(err, STATUS_RUN, "the GPU has no virtual memory management (driver error %d)", (int)result);
    device->info.granularity = granularity;
    return STATUS_OK;
}

/* A bit for each page. */
static bool page_test(const struct device_range *range, uint64_t page)
{
    return ((const unsigned char *)range->pages)[page / 8] >> page % 8 & 1;
}

/* Changes the state of a page, which must differ from the new one, and the counters of committed bytes. */
static void page_put(struct device_range *range, uint64_t page, bool committed)
{
    unsigned char *bits = (unsigned char *)range->pages + page / 8;
    const unsigned char bit = (unsigned char)(1u << page % 8);
    const uint64_t unit = range->device->info.granularity, change = committed ? unit : -unit;
    *bits = (unsigned char)(committed ? *bits | bit : *bits & ~bit);
    range->committed_bytes += change;
    __atomic_fetch_add(&range->device->committed_bytes, change, __ATOMIC_RELAXED);
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
    range->pages = calloc(1, whole / unit / 8 + 1);
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
    device_range_return(range, 0, range->bytes, NULL);
    if (!driver_find(&driver, NULL)) driver.cuMemAddressFree((CUdeviceptr)range->base, range->bytes);
    free(range->pages);
    *range = device_range();
}

static CUresult page_commit(const struct driver *driver, struct device_range *range, uint64_t page)
{
    const uint64_t unit = range->device->info.granularity;
    const CUdeviceptr at = (CUdeviceptr)range->base + page * unit;
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
    CUresult result = driver->cuMemCreate(&handle, unit, &prop, 0);
    if (result != CUDA_SUCCESS) return result;
    result = driver->cuMemMap(at, unit, 0, handle, 0);
    if (result == CUDA_SUCCESS) {
        result = driver->cuMemSetAccess(at, unit, access, (size_t)others + 1);
        if (result != CUDA_SUCCESS) driver->cuMemUnmap(at, unit);
    }
    driver->cuMemRelease(handle); /* the memory lives as long as it is mapped */
    return result;
}

static CUresult page_return(const struct driver *driver, struct device_range *range, uint64_t page)
{
    const uint64_t unit = range->device->info.granularity;
    const CUresult result = driver->cuMemUnmap((CUdeviceptr)range->base + page * unit, unit);
    if (result == CUDA_SUCCESS) page_put(range, page, false);
    return result;
}

int device_range_commit(struct device_range *range, uint64_t first, uint64_t end, struct error *err)
{
    struct driver driver;
    struct device *device = range->device;
    const uint64_t unit = device->info.granularity;
    int status = device_use(device, err);
    if (!status) status = driver_find(&driver, err);
    if (status) return status;
    unsigned char *fresh =
        (unsigned char *)calloc(1, (end - first) / unit + 1); /* which pages to give back on failure */
    if (!fresh) return error_set(err, STATUS_RUN, "no memory for a range of the GPU");
    for (uint64_t page = first / unit; page < end / unit && !status; page++) {
        if (page_test(range, page)) continue;
        const CUresult result = page_commit(&driver, range, page);
        if (result != CUDA_SUCCESS) {
            status = error_set(err, STATUS_RUN, "GPU %d has no %.1f MiB left (driver error %d)", device->ordinal,
                               (double)(end - first) / (1 << 20), (int)result);
            break;
        }
        page_put(range, page, true);
        fresh[page - first / unit] = 1;
    }
    for (uint64_t page = first / unit; page < end / unit && status; page++)
        if (fresh[page - first / unit]) page_return(&driver, range, page);
    free(fresh);
    return status;
}

int device_range_return(struct device_range *range, uint64_t first, uint64_t end, struct error *err)
{
    struct driver driver;
    const uint64_t unit = range->device->info.granularity;
    int status = device_use(range->device, err);
    if (!status) status = driver_find(&driver, err);
    for (uint64_t page = first / unit; page < end / unit && !status; page++) {
        if (!page_test(range, page)) continue;
        const CUresult result = page_return(&driver, range, page);
        if (result != CUDA_SUCCESS)
            status = error_set(err, STATUS_RUN, "GPU %d does not take a page of memory back (driver error %d)",
                               range->device->ordinal, (int)result);
    }
    return status;
}
