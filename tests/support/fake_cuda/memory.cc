/* Memory of the fake devices: addresses of this process which only threads that run work of the device may touch, and those of
 * devices that it was put within reach of. Allocations and ranges are surrounded by pages that nobody may touch. What is committed
 * counts against the size of the device, and is full of NaN. FAKE_PAGE_KIB, FAKE_MEMORY_MIB: the size of a page, and of a device. */
#include "tests/support/fake_cuda/cuda.h"
#include "tests/support/fake_cuda/inside.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>

namespace
{

size_t from_environment(const char *name, size_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, nullptr, 10) : otherwise;
}

enum { PAGE = 4096, FILLED_BYTES = 256 << 20 }; /* FILLED_BYTES: the rest of a large device costs no memory until it is used */
const size_t GRANULARITY = from_environment("FAKE_PAGE_KIB", 64) << 10;
const size_t TOTAL_BYTES = from_environment("FAKE_MEMORY_MIB", 512) << 20;

struct part {
    size_t bytes, inside; /* what is mapped, and how much of it at its end was asked for */
    int device;
};
struct file { /* memory that other processes may map */
    int fd;
    ~file() { close(fd); }
};
struct memory { /* of a device, taken until nothing maps it and no handle is left */
    size_t bytes;
    int device;
    ~memory();
};
struct pages {
    size_t bytes;
    int device;
    std::shared_ptr<memory> own; /* null: of another process */
    std::shared_ptr<file> shared; /* null: of this process alone */
};

std::mutex lock;
std::map<char *, part> allocations; /* of cudaMalloc, by what it returned */
std::map<CUdeviceptr, size_t> reserved;
std::map<CUdeviceptr, pages> mapped;
std::map<CUmemGenericAllocationHandle, pages> handles;
std::map<const char *, size_t> pinned;
CUmemGenericAllocationHandle last_handle;
size_t taken_bytes[FAKE_DEVICES_MOST];
memory::~memory() { taken_bytes[device] -= bytes; }
std::atomic<bool> reaches[FAKE_DEVICES_MOST][FAKE_DEVICES_MOST]; /* [who][whose] */

struct keys {
    int of[FAKE_DEVICES_MOST];
    keys()
    {
        for (int &key : of) key = pkey_alloc(0, PKEY_DISABLE_ACCESS);
    }
};

int protection_key(int device)
{
    static const keys all;
    return all.of[device];
}

/* The caller has counted the bytes. */
bool open_pages(void *at, size_t bytes, int device, bool fresh = true)
{
    const int access = PROT_READ | PROT_WRITE, key = protection_key(device);
    if (mprotect(at, bytes, access)) return false;
    if (fresh && taken_bytes[device] <= FILLED_BYTES) memset(at, 0xff, bytes);
    return key < 0 || pkey_mprotect(at, bytes, access, key) == 0;
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

void fake_memory_open(int device)
{
    for (int whose = 0; whose < FAKE_DEVICES_MOST; whose++)
        if (protection_key(whose) >= 0)
            pkey_set(protection_key(whose), whose == device || reaches[device][whose] ? 0 : PKEY_DISABLE_ACCESS);
}

/* What cudaMalloc() gave NCCL opens for all; pages may be touched by those for whom they were mapped. */
bool fake_may_touch(int device, const void *at)
{
    std::lock_guard<std::mutex> guard(lock);
    const auto next = mapped.upper_bound((CUdeviceptr)at);
    if (next == mapped.begin()) return true;
    const auto [base, page] = *std::prev(next);
    return (CUdeviceptr)at >= base + page.bytes || page.device == device || reaches[device][page.device];
}

int fake_pieces(void)
{
    std::lock_guard<std::mutex> guard(lock);
    return (int)last_handle;
}

bool fake_guards_host(void)
{
    return protection_key(FAKE_DEVICES_MOST - 1) >= 0;
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total)
{
    std::lock_guard<std::mutex> guard(lock);
    *total = TOTAL_BYTES;
    *free_bytes = TOTAL_BYTES - taken_bytes[fake_device()];
    return cudaSuccess;
}

/* An allocation ends, to within the 256 bytes it is aligned to, where a closed page begins. */
cudaError_t cudaMalloc(void **out, size_t bytes)
{
    std::lock_guard<std::mutex> guard(lock);
    const int device = fake_device();
    const size_t inside = (bytes + 255) / 256 * 256, whole = whole_pages(inside);
    if (bytes > TOTAL_BYTES || taken_bytes[device] + whole > TOTAL_BYTES) return fake_fail(cudaErrorMemoryAllocation);
    char *base = reserve(whole + 2 * PAGE);
    taken_bytes[device] += whole;
    if (!base || !open_pages(base + PAGE, whole, device)) return fake_fail(cudaErrorMemoryAllocation);
    *out = base + PAGE + whole - inside;
    allocations[(char *)*out] = {whole, inside, device};
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
    taken_bytes[p.device] -= p.bytes;
    allocations.erase(found);
    return cudaSuccess;
}

/* ---- host memory ------------------------------------------------------------------------------------------------------ */

bool fake_is_pageable(const void *address, size_t bytes)
{
    std::lock_guard<std::mutex> guard(lock);
    const char *at = (const char *)address;
    const auto pin = pinned.upper_bound(at);
    if (pin != pinned.begin() && at + bytes <= std::prev(pin)->first + std::prev(pin)->second) return false;
    const auto range = reserved.upper_bound((CUdeviceptr)at);
    if (range != reserved.begin() && (CUdeviceptr)at < std::prev(range)->first + std::prev(range)->second) return false;
    const auto allocation = allocations.upper_bound((char *)at);
    return allocation == allocations.begin() ||
           at >= std::prev(allocation)->first + std::prev(allocation)->second.inside;
}

bool fake_is_border(const void *address, size_t bytes)
{
    std::lock_guard<std::mutex> guard(lock);
    const char *at = (const char *)address, *end = at + bytes;
    const auto next = pinned.lower_bound(end);
    if (next == pinned.begin()) return false;
    const auto [piece, piece_bytes] = *std::prev(next);
    return piece + piece_bytes > at && (piece > at || piece + piece_bytes < end);
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
    const int device = prop->location.id;
    if (bytes == 0 || bytes % GRANULARITY || prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        !fake_has_device(device))
        return CUDA_ERROR_INVALID_VALUE;
    if (taken_bytes[device] + bytes > TOTAL_BYTES) return CUDA_ERROR_OUT_OF_MEMORY;
    taken_bytes[device] += bytes;
    *out = ++last_handle;
    handles[*out] = {bytes, device, std::shared_ptr<memory>(new memory{bytes, device}), nullptr};
    if (prop->requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
        handles[*out].shared = std::shared_ptr<file>(new file{memfd_create("fake-gpu", MFD_CLOEXEC)});
        if (ftruncate(handles[*out].shared->fd, (off_t)bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    std::lock_guard<std::mutex> guard(lock);
    return handles.erase(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemMap(CUdeviceptr at, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long)
{
    std::lock_guard<std::mutex> guard(lock);
    if (offset || !handles.count(handle) || handles[handle].bytes != bytes || mapped.count(at))
        return CUDA_ERROR_INVALID_VALUE;
    mapped[at] = handles[handle];
    if (!mapped[at].shared) return CUDA_SUCCESS;
    return mmap((void *)at, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, mapped[at].shared->fd, 0) == MAP_FAILED
               ? CUDA_ERROR_INVALID_VALUE
               : CUDA_SUCCESS;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *out, void *at)
{
    std::lock_guard<std::mutex> guard(lock);
    if (!mapped.count((CUdeviceptr)at)) return CUDA_ERROR_INVALID_VALUE;
    *out = ++last_handle;
    handles[*out] = mapped[(CUdeviceptr)at];
    return CUDA_SUCCESS;
}

CUresult cuMemExportToShareableHandle(void *out, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType,
                                      unsigned long long)
{
    std::lock_guard<std::mutex> guard(lock);
    if (!handles.count(handle) || !handles[handle].shared) return CUDA_ERROR_INVALID_VALUE;
    *(int *)out = dup(handles[handle].shared->fd);
    return CUDA_SUCCESS;
}

/* Which device it is on is not known here: for the one that maps it, it is within reach. */
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *out, void *descriptor, CUmemAllocationHandleType)
{
    std::lock_guard<std::mutex> guard(lock);
    struct stat what;
    const int fd = dup((int)(intptr_t)descriptor);
    if (fd < 0 || fstat(fd, &what)) return CUDA_ERROR_INVALID_VALUE;
    *out = ++last_handle;
    handles[*out] = {(size_t)what.st_size, fake_device(), nullptr, std::shared_ptr<file>(new file{fd})};
    return CUDA_SUCCESS;
}

/* Reach is kept for a device and not for each page: who may touch one page of another may touch them all. */
CUresult cuMemSetAccess(CUdeviceptr at, size_t bytes, const CUmemAccessDesc *desc, size_t count)
{
    std::lock_guard<std::mutex> guard(lock);
    if (!mapped.count(at)) return CUDA_ERROR_INVALID_VALUE;
    const int whose = mapped[at].device;
    for (size_t d = 0; d < count; d++) {
        const int who = desc[d].location.id;
        if (desc[d].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE || !fake_can_reach(who, whose))
            return CUDA_ERROR_INVALID_VALUE;
        reaches[who][whose] = true;
    }
    return open_pages((void *)at, bytes, whose, mapped[at].own != nullptr) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemUnmap(CUdeviceptr at, size_t bytes)
{
    std::lock_guard<std::mutex> guard(lock);
    if (!mapped.count(at) || mapped[at].bytes != bytes) return CUDA_ERROR_INVALID_VALUE;
    mapped.erase(at);
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
        {"cuMemRetainAllocationHandle", (void *)cuMemRetainAllocationHandle},
        {"cuMemExportToShareableHandle", (void *)cuMemExportToShareableHandle},
        {"cuMemImportFromShareableHandle", (void *)cuMemImportFromShareableHandle},
    };
    for (const auto &row : table)
        if (strcmp(row.name, symbol) == 0) return *function = row.at, cudaSuccess;
    return fake_fail(cudaErrorInvalidValue);
}
