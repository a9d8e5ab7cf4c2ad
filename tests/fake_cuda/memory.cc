/* Memory of the fake device: addresses of this process which only threads that run the device's work may touch. Allocations and
 * ranges are surrounded by pages that nobody may touch. What is committed counts against the size of the device. */
#include "tests/fake_cuda/cuda.h"
#include "tests/fake_cuda/inside.h"

#include <sys/mman.h>

#include <map>
#include <mutex>

namespace
{

enum { PAGE = 4096 };
const size_t GRANULARITY = 64 << 10, TOTAL_BYTES = (size_t)512 << 20;

struct part {
    size_t bytes, inside;
}; /* what is mapped, and how much of it at its end was asked for */

std::mutex lock;
std::map<char *, part> allocations; /* of cudaMalloc, by what it returned */
std::map<CUdeviceptr, size_t> reserved, mapped;
std::map<CUmemGenericAllocationHandle, size_t> handles;
std::map<const char *, size_t> pinned;
CUmemGenericAllocationHandle last_handle;
size_t taken_bytes;

int protection_key()
{
    static const int key = pkey_alloc(0, PKEY_DISABLE_ACCESS);
    return key;
}

bool open_pages(void *at, size_t bytes)
{
    const int access = PROT_READ | PROT_WRITE, key = protection_key();
    return (key < 0 ? mprotect(at, bytes, access) : pkey_mprotect(at, bytes, access, key)) == 0;
}

char *reserve(size_t bytes)
{
    void *base = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return base == MAP_FAILED ? nullptr : (char *)base;
}

size_t whole_pages(size_t bytes)
{
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

} // namespace

void fake_memory_open()
{
    if (protection_key() >= 0) pkey_set(protection_key(), 0);
}

bool fake_guards_host(void)
{
    return protection_key() >= 0;
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total)
{
    std::lock_guard<std::mutex> guard(lock);
    *total = TOTAL_BYTES;
    *free_bytes = TOTAL_BYTES - taken_bytes;
    return cudaSuccess;
}

/* An allocation ends, to within the 256 bytes it is aligned to, where a closed page begins. */
cudaError_t cudaMalloc(void **out, size_t bytes)
{
    std::lock_guard<std::mutex> guard(lock);
    const size_t inside = (bytes + 255) / 256 * 256, whole = whole_pages(inside);
    if (bytes > TOTAL_BYTES || taken_bytes + whole > TOTAL_BYTES) return fake_fail(cudaErrorMemoryAllocation);
    char *base = reserve(whole + 2 * PAGE);
    if (!base || !open_pages(base + PAGE, whole)) return fake_fail(cudaErrorMemoryAllocation);
    taken_bytes += whole;
    *out = base + PAGE + whole - inside;
    allocations[(char *)*out] = {whole, inside};
    return cudaSuccess;
}

cudaError_t cudaFree(void *memory)
{
    std::lock_guard<std::mutex> guard(lock);
    if (!memory) return cudaSuccess;
    const auto found = allocations.find((char *)memory);
    if (found == allocations.end()) return fake_fail(cudaErrorInvalidValue);
    const part p = found->second;
    munmap((char *)memory + p.inside - p.bytes - PAGE, p.bytes + 2 * PAGE);
    taken_bytes -= p.bytes;
    allocations.erase(found);
    return cudaSuccess;
}

/* ---- host memory ------------------------------------------------------------------------------------------------------ */

bool fake_pinned(const void *host, size_t bytes)
{
    std::lock_guard<std::mutex> guard(lock);
    const char *at = (const char *)host;
    auto next = pinned.upper_bound(at);
    if (next == pinned.begin()) return false;
    --next;
    return at + bytes <= next->first + next->second;
}

cudaError_t cudaHostRegister(void *host, size_t bytes, unsigned)
{
    std::lock_guard<std::mutex> guard(lock);
    if (!host || !bytes) return fake_fail(cudaErrorInvalidValue);
    const auto next = pinned.upper_bound((const char *)host + bytes - 1);
    if (next != pinned.begin() && std::prev(next)->first + std::prev(next)->second > host)
        return fake_fail(cudaErrorHostMemoryAlreadyRegistered);
    pinned[(const char *)host] = bytes;
    return cudaSuccess;
}

cudaError_t cudaHostUnregister(void *host)
{
    std::lock_guard<std::mutex> guard(lock);
    return pinned.erase((const char *)host) ? cudaSuccess : fake_fail(cudaErrorHostMemoryNotRegistered);
}

cudaError_t cudaMallocHost(void **out, size_t bytes)
{
    *out = malloc(bytes);
    return *out ? cudaHostRegister(*out, bytes, 0) : fake_fail(cudaErrorMemoryAllocation);
}

cudaError_t cudaFreeHost(void *memory)
{
    const cudaError_t error = cudaHostUnregister(memory);
    free(memory);
    return error;
}

/* ---- the driver's calls ------------------------------------------------------------------------------------------------ */

CUresult cuMemGetAllocationGranularity(size_t *out, const CUmemAllocationProp *, CUmemAllocationGranularity_flags)
{
    *out = GRANULARITY;
    return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr *out, size_t bytes, size_t, CUdeviceptr, unsigned long long)
{
    std::lock_guard<std::mutex> guard(lock);
    if (bytes == 0 || bytes % GRANULARITY) return CUDA_ERROR_INVALID_VALUE;
    char *base = reserve(bytes + 2 * GRANULARITY);
    if (!base) return CUDA_ERROR_OUT_OF_MEMORY;
    *out = (CUdeviceptr)(base + GRANULARITY);
    reserved[*out] = bytes;
    return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr base, size_t bytes)
{
    std::lock_guard<std::mutex> guard(lock);
    const auto found = reserved.find(base);
    const auto inside = mapped.lower_bound(base);
    if (found == reserved.end() || found->second != bytes) return CUDA_ERROR_INVALID_VALUE;
    if (inside != mapped.end() && inside->first < base + bytes) return CUDA_ERROR_INVALID_VALUE;
    munmap((char *)base - GRANULARITY, bytes + 2 * GRANULARITY);
    reserved.erase(found);
    return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *out, size_t bytes, const CUmemAllocationProp *prop,
                     unsigned long long)
{
    std::lock_guard<std::mutex> guard(lock);
    if (bytes == 0 || bytes % GRANULARITY || prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    if (taken_bytes + bytes > TOTAL_BYTES) return CUDA_ERROR_OUT_OF_MEMORY;
    taken_bytes += bytes;
    *out = ++last_handle;
    handles[*out] = bytes;
    return CUDA_SUCCESS;
}

/* Memory itself goes back when it is unmapped; here a handle is only its size. */
CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    std::lock_guard<std::mutex> guard(lock);
    return handles.erase(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemMap(CUdeviceptr at, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long)
{
    std::lock_guard<std::mutex> guard(lock);
    if (offset || !handles.count(handle) || handles[handle] != bytes || mapped.count(at))
        return CUDA_ERROR_INVALID_VALUE;
    mapped[at] = bytes;
    return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr at, size_t bytes, const CUmemAccessDesc *desc, size_t count)
{
    std::lock_guard<std::mutex> guard(lock);
    if (count != 1 || desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE || !mapped.count(at))
        return CUDA_ERROR_INVALID_VALUE;
    return open_pages((void *)at, bytes) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemUnmap(CUdeviceptr at, size_t bytes)
{
    std::lock_guard<std::mutex> guard(lock);
    if (!mapped.count(at) || mapped[at] != bytes) return CUDA_ERROR_INVALID_VALUE;
    mapped.erase(at);
    taken_bytes -= bytes;
    return mmap((void *)at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) ==
                   MAP_FAILED
               ? CUDA_ERROR_INVALID_VALUE
               : CUDA_SUCCESS;
}

cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **function, unsigned long long)
{
    static const struct {
        const char *name;
        void *at;
    } table[] = {
        {"cuMemAddressReserve", (void *)cuMemAddressReserve},
        {"cuMemAddressFree", (void *)cuMemAddressFree},
        {"cuMemCreate", (void *)cuMemCreate},
        {"cuMemRelease", (void *)cuMemRelease},
        {"cuMemMap", (void *)cuMemMap},
        {"cuMemUnmap", (void *)cuMemUnmap},
        {"cuMemSetAccess", (void *)cuMemSetAccess},
        {"cuMemGetAllocationGranularity", (void *)cuMemGetAllocationGranularity},
    };
    for (const auto &row : table)
        if (strcmp(row.name, symbol) == 0) return *function = row.at, cudaSuccess;
    return fake_fail(cudaErrorInvalidValue);
}
