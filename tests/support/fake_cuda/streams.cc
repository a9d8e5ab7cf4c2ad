/* Streams of the fake device: a thread each, which does what was sent in the order in which it was sent, and sleeps otherwise. So
 * the host runs ahead, and streams run beside each other, as on a GPU. */
#include "tests/support/fake_cuda/inside.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

struct fake_stream {
    int device = fake_device();
    std::thread::id maker = std::this_thread::get_id(); /* a rank: its thread makes its streams and events */
    int delay_factor = 1;
    std::mutex lock;
    std::condition_variable changed;
    std::deque<std::function<void()>> work;
    bool busy = false, ending = false;
    std::thread thread;
};

/* Records are numbered: who waits, waits for the record that was the last when it began to. What has been looked at has happened,
 * unless its device had failed by then. */
struct fake_event {
    int device = fake_device();
    std::thread::id maker = std::this_thread::get_id();
    std::mutex lock;
    std::condition_variable changed;
    uint64_t recorded = 0, looked_at = 0, happened = 0, at_ns = 0;
};

namespace
{

std::atomic<int> delay_us{0};
std::atomic<int> waits{0}; /* of the host for a stream that had something to do */
std::atomic<int> failed_calls{0};
enum { FORGETS_NOTHING, FORGETS_LANES, FORGETS_RANKS };
std::atomic<int> forgets{FORGETS_NOTHING};
std::atomic<const char *> broken{nullptr};          /* the kernel that will fail */
std::atomic<int> broken_device{-1};                 /* ... on this device only; -1: on any */
std::atomic<bool> strands{false};                   /* ... and then nothing that is recorded there happens any more */
std::atomic<cudaError_t> sticky[FAKE_DEVICES_MOST]; /* once a device has failed, everything on it does */
thread_local int current_device = 0;
thread_local cudaError_t last_error = cudaSuccess;
std::mutex raised_lock;
std::map<const void *, int> raised; /* kernels that may have more shared memory than 48 KiB */

uint64_t now_ns()
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The device's clock has a crystal of its own, which is as far off the host's as a bad one is. */
uint64_t device_now_ns()
{
    static const uint64_t begin_ns = now_ns();
    const uint64_t passed_ns = now_ns() - begin_ns;
    return passed_ns + passed_ns / 1000000 * FAKE_DRIFT_PPM;
}

/* Ranks that forget each other are seen to only where one is well behind: every second one is. */
int rank_delay_factor(std::thread::id maker)
{
    static std::mutex lock;
    static std::map<std::thread::id, int> numbers;
    std::lock_guard<std::mutex> guard(lock);
    return numbers.emplace(maker, (int)numbers.size()).first->second % 2 ? 20 : 1;
}

void stream_main(fake_stream *stream)
{
    std::unique_lock<std::mutex> guard(stream->lock);
    for (;;) {
        stream->changed.wait(guard, [&] { return stream->ending || !stream->work.empty(); });
        if (stream->work.empty()) return;
        const auto work = std::move(stream->work.front());
        stream->work.pop_front();
        stream->busy = true;
        guard.unlock();
        if (const int most = delay_us) usleep((useconds_t)(fake_random() % (uint64_t)(most * stream->delay_factor)));
        fake_memory_open(stream->device);
        work();
        guard.lock();
        stream->busy = false;
        stream->changed.notify_all();
    }
}

cudaError_t device_result(int device)
{
    return sticky[device] ? fake_fail(sticky[device]) : cudaSuccess;
}

/* What a piece of work that is held waits for. */
std::mutex hold_lock;
std::condition_variable let_go;
bool hold_next = false, held = false;
std::atomic<bool> hold_choice;

std::function<void()> until_let_go(std::function<void()> work)
{
    std::lock_guard<std::mutex> guard(hold_lock);
    if (!hold_next) return work;
    hold_next = false;
    held = true;
    return [work = std::move(work)] {
        {
            std::unique_lock<std::mutex> wait(hold_lock);
            let_go.wait(wait, [] { return !held; });
        }
        work();
    };
}

cudaError_t send(fake_stream *stream, std::function<void()> work)
{
    if (!stream) fake_die("the default stream is not for this program");
    work = until_let_go(std::move(work));
    std::lock_guard<std::mutex> guard(stream->lock);
    stream->work.push_back(std::move(work));
    stream->changed.notify_all();
    return device_result(stream->device);
}

/* Nothing on a device waits any more once it has failed, nor for it on the host: `device` is the one whose failure ends it. */
void wait_for(fake_event *event, uint64_t number, int device)
{
    const auto look = std::chrono::milliseconds(5);
    std::unique_lock<std::mutex> guard(event->lock);
    while (event->happened < number && !sticky[device]) event->changed.wait_for(guard, look);
}

uint64_t last_record(fake_event *event)
{
    std::lock_guard<std::mutex> guard(event->lock);
    return event->recorded;
}

} // namespace

bool fake_send(cudaStream_t stream, std::function<void()> work)
{
    return send(stream, [=] {
               if (!sticky[stream->device]) work();
           }) == cudaSuccess;
}

cudaError_t fake_fail(cudaError_t error)
{
    failed_calls++;
    return last_error = error;
}

cudaError_t cudaGetLastError()
{
    const cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}

const char *cudaGetErrorString(cudaError_t error)
{
    switch (error) {
#define X(name, number, text)                                                                                          \
    case name: return text;
        FAKE_ERRORS(X)
#undef X
    }
    return "unrecognized error code";
}

/* ---- the device -------------------------------------------------------------------------------------------------------- */

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = 0;
    return cudaSuccess;
}

/* The driver's own threads, one from its first call and one from its first context: they live as long as the process, and take signals
 * if who made that call takes them. */
static void *driver_main(void *)
{
    for (;;) pause();
}

static bool driver_begin()
{
    pthread_t thread;
    return pthread_create(&thread, nullptr, driver_main, nullptr) == 0;
}

/* FAKE_GPUS says how many there are; FAKE_PEERS=0 that none can reach another's memory. */
cudaError_t cudaGetDeviceCount(int *count)
{
    static const bool begun = driver_begin();
    if (!begun) return fake_fail(cudaErrorMemoryAllocation);
    const char *text = getenv("FAKE_GPUS");
    const int wanted = text ? atoi(text) : 1;
    *count = wanted < 1 ? 1 : wanted > FAKE_DEVICES_MOST ? FAKE_DEVICES_MOST : wanted;
    return cudaSuccess;
}

bool fake_has_device(int device)
{
    int count;
    cudaGetDeviceCount(&count);
    return device >= 0 && device < count;
}

bool fake_can_reach(int who, int whose)
{
    const char *peers = getenv("FAKE_PEERS");
    return fake_has_device(who) && fake_has_device(whose) && (who == whose || !peers || strcmp(peers, "0") != 0);
}

int fake_device()
{
    return current_device;
}

cudaError_t cudaSetDevice(int device)
{
    if (!fake_has_device(device)) return fake_fail(cudaErrorInvalidDevice);
    static const bool begun = driver_begin();
    if (!begun) return fake_fail(cudaErrorMemoryAllocation);
    if (hold_choice.exchange(false)) {
        std::unique_lock<std::mutex> wait(hold_lock);
        held = true;
        let_go.wait(wait, [] { return !held; });
    }
    current_device = device;
    return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    if (!fake_has_device(device) || !fake_has_device(peer)) return fake_fail(cudaErrorInvalidDevice);
    *can = device != peer && fake_can_reach(device, peer);
    return cudaSuccess;
}

/* FAKE_FIRST_GPU: the place of device 0, as for a process that CUDA_VISIBLE_DEVICES lets see later ones only. */
cudaError_t cudaDeviceGetPCIBusId(char *text, int room, int device)
{
    const char *first = getenv("FAKE_FIRST_GPU");
    snprintf(text, (size_t)room, "0000:%02x:00.0", (first ? atoi(first) : 0) + device);
    return cudaSuccess;
}

/* There is no context whose end would take anything along. */
cudaError_t cudaDeviceReset()
{
    return cudaSuccess;
}

cudaError_t cudaSetDeviceFlags(unsigned)
{
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *out, int device)
{
    if (!fake_has_device(device)) return fake_fail(cudaErrorInvalidDevice);
    *out = {"fake GPU on the processor", 9, 0, 4, 0, FAKE_SHARED_MOST};
    size_t free_bytes;
    return cudaMemGetInfo(&free_bytes, &out->totalGlobalMem);
}

/* ---- streams ----------------------------------------------------------------------------------------------------------- */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned)
{
    *out = new fake_stream;
    if (forgets == FORGETS_RANKS) (*out)->delay_factor = rank_delay_factor((*out)->maker);
    (*out)->thread = std::thread(stream_main, *out);
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    std::unique_lock<std::mutex> guard(stream->lock);
    if (!stream->work.empty() || stream->busy) waits++;
    stream->changed.wait(guard, [&] { return stream->work.empty() && !stream->busy; });
    return device_result(stream->device);
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    std::lock_guard<std::mutex> guard(stream->lock);
    if (sticky[stream->device]) return device_result(stream->device);
    return stream->work.empty() && !stream->busy ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    {
        std::lock_guard<std::mutex> guard(stream->lock);
        stream->ending = true;
        stream->changed.notify_all();
    }
    stream->thread.join();
    delete stream;
    return cudaSuccess;
}

/* As there: to and from pinned memory it is only sent; pageable memory is read, or has been written, when the call returns. What
 * lies across a border of pinned memory is refused. */
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind, cudaStream_t stream)
{
    if (fake_is_border(to, bytes) || fake_is_border(from, bytes)) return fake_fail(cudaErrorInvalidValue);
    send(stream, [=] {
        if (!sticky[stream->device]) memmove(to, from, bytes);
    });
    return fake_is_pageable(to, bytes) || fake_is_pageable(from, bytes) ? cudaStreamSynchronize(stream) : cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *to, int byte, size_t bytes, cudaStream_t stream)
{
    if (fake_is_border(to, bytes) || fake_is_pageable(to, bytes)) return fake_fail(cudaErrorInvalidValue);
    return send(stream, [=] { memset(to, byte, bytes); });
}

/* ---- events ------------------------------------------------------------------------------------------------------------ */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned)
{
    *out = new fake_event;
    return cudaSuccess;
}

/* Who is still to record it, or waits for it, is let go first. */
cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    const uint64_t number = last_record(event);
    {
        std::unique_lock<std::mutex> guard(event->lock);
        event->changed.wait(guard, [&] { return event->looked_at >= number; });
    }
    delete event;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    uint64_t number;
    if (event->device != stream->device) return fake_fail(cudaErrorInvalidResourceHandle);
    {
        std::lock_guard<std::mutex> guard(event->lock);
        number = ++event->recorded;
    }
    return send(stream, [=] {
        std::lock_guard<std::mutex> guard(event->lock);
        event->looked_at = number;
        event->changed.notify_all();
        if (strands && sticky[stream->device]) return;
        event->happened = number;
        event->at_ns = device_now_ns();
    });
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    std::lock_guard<std::mutex> guard(event->lock);
    if (event->happened == event->recorded) return cudaSuccess;
    return sticky[event->device] ? device_result(event->device) : cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    wait_for(event, last_record(event), event->device);
    return device_result(event->device);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned)
{
    const uint64_t number = last_record(event);
    if (forgets == (stream->maker == event->maker ? FORGETS_LANES : FORGETS_RANKS)) return cudaSuccess;
    return send(stream, [=] { wait_for(event, number, stream->device); });
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t from, cudaEvent_t to)
{
    if (from->device != to->device) return fake_fail(cudaErrorInvalidResourceHandle);
    if (!last_record(from) || !last_record(to)) return fake_fail(cudaErrorInvalidValue);
    for (cudaEvent_t event : {from, to})
        if (const cudaError_t error = cudaEventQuery(event)) return error;
    *milliseconds = (float)((double)(int64_t)(to->at_ns - from->at_ns) * 1e-6);
    return cudaSuccess;
}

/* ---- kernels ----------------------------------------------------------------------------------------------------------- */

cudaError_t fake_raise_shared(const void *kernel, int bytes)
{
    if (bytes > FAKE_SHARED_MOST) return fake_fail(cudaErrorInvalidValue);
    std::lock_guard<std::mutex> guard(raised_lock);
    raised[kernel] = bytes;
    return cudaSuccess;
}

void fake_launch(const char *name, const void *kernel, dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream,
                 std::function<void()> body)
{
    const uint64_t threads = (uint64_t)block.x * block.y * block.z;
    if (stream->device != fake_device()) return (void)fake_fail(cudaErrorInvalidResourceHandle);
    if (!grid.x || !grid.y || !grid.z || grid.x > 0x7fffffff || grid.y > 65535 || grid.z > 65535 || threads == 0 ||
        threads > FAKE_THREADS_MOST || block.z > 64)
        return (void)fake_fail(cudaErrorInvalidConfiguration);
    {
        std::lock_guard<std::mutex> guard(raised_lock);
        const auto found = raised.find(kernel);
        size_t most = FAKE_SHARED_PLAIN;
        if (found != raised.end() && found->second > FAKE_SHARED_PLAIN) most = (size_t)found->second;
        if (shared_bytes > most) return (void)fake_fail(cudaErrorInvalidValue);
    }
    const fake_kernel sent = {name, grid, block, shared_bytes, std::move(body)};
    send(stream, [=] {
        const char *name_broken = broken;
        const bool here = broken_device < 0 || broken_device == stream->device;
        if (name_broken && here && strcmp(sent.name, name_broken) == 0)
            sticky[stream->device] = cudaErrorIllegalAddress;
        if (!sticky[stream->device]) fake_run(sent);
    });
}

/* FAKE_DELAY_US=300: as fake_set_delay_us(). FAKE_FORGETS=lanes: streams do not wait for events of the thread that made them too,
 * as if the program had left that out; FAKE_FORGETS=ranks: for those of other threads. FAKE_REPORT=FILE: a line there from each
 * process, at its end: how often the host waited for a stream that had something to do; and how many calls failed. */
struct told_by_environment {
    told_by_environment()
    {
        const char *delay = getenv("FAKE_DELAY_US");
        delay_us = delay ? atoi(delay) : 0;
        const char *text = getenv("FAKE_FORGETS");
        forgets = !text ? FORGETS_NOTHING : !strcmp(text, "ranks") ? FORGETS_RANKS : FORGETS_LANES;
    }
    ~told_by_environment()
    {
        const char *path = getenv("FAKE_REPORT");
        FILE *file = path ? fopen(path, "a") : nullptr;
        if (!file) return;
        fprintf(file, "host waits %d\nfailed calls %d\n", waits.load(), failed_calls.load());
        fclose(file);
    }
} told_by_environment;

/* FAKE_BREAK=reduce@1: as fake_break() from the beginning, on that device alone. FAKE_STRANDS=1: who waits for a device that has
 * failed, on another, waits for ever; else events of one that has failed happen. Which of the two GPUs do nobody has seen. */
struct broken_by_environment {
    char name[64] = "";
    broken_by_environment()
    {
        int device = -1;
        const char *text = getenv("FAKE_BREAK");
        if (!text || sscanf(text, "%63[^@]@%d", name, &device) < 1) return;
        broken_device = device;
        strands = getenv("FAKE_STRANDS") != nullptr;
        broken = name;
    }
} broken_by_environment;

void fake_break(const char *kernel)
{
    broken = kernel;
    for (auto &failure : sticky)
        if (!kernel) failure = cudaSuccess;
}

void fake_hold_next(void)
{
    std::lock_guard<std::mutex> guard(hold_lock);
    hold_next = true;
}

void fake_hold_choice(void)
{
    hold_choice = true;
}

bool fake_is_held(void)
{
    std::lock_guard<std::mutex> guard(hold_lock);
    return held;
}

void fake_let_go(void)
{
    std::lock_guard<std::mutex> guard(hold_lock);
    held = false;
    let_go.notify_all();
}

void fake_set_delay_us(int microseconds)
{
    delay_us = microseconds;
}
