/* Between the parts of the fake device. */
#pragma once

#include "tests/support/fake_cuda/cuda_runtime.h"
#include "tests/support/fake_cuda/fake.h"

enum { FAKE_DEVICES_MOST = 8 };
enum { FAKE_THREADS_MOST = 1024, FAKE_SHARED_PLAIN = 48 << 10, FAKE_SHARED_MOST = 227 << 10 };

struct fake_kernel {
    const char *name;
    dim3 grid, block;
    size_t shared_bytes;
    std::function<void()> body;
};

/* Runs all blocks on the calling thread (blocks.cc). What a kernel may not do ends the process with a line that says where. */
void fake_run(const fake_kernel &kernel);
[[noreturn]] void fake_die(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Where the calling thread is in a kernel, for messages; "the host" outside one. */
void fake_where(char *text, size_t room);
uint64_t fake_random();

/* Of a thread of a kernel: its number in the block; and its 128 threads of a warpgroup come here, as those of a warp do. */
int fake_thread_number();
void fake_group_meet(void *mine, void (*all)(void *const *lanes));

/* What products of warpgroups have to know of the block (groups.cc). */
void fake_products_begin(int threads, size_t shared_bytes);
void fake_products_end();
void fake_products_barrier(); /* all of the block have come */
void fake_products_copy_begins(void *to, size_t bytes);
void fake_products_copy_arrived(void *to, size_t bytes);

/* The calling thread's current device; whether there is one of that number; whether one can reach the other's memory. */
int fake_device();
bool fake_has_device(int device);
bool fake_can_reach(int who, int whose);

/* Lets the calling thread touch the device's memory, and what is within its reach by now (memory.cc). */
void fake_memory_open(int device);
bool fake_may_touch(int device, const void *at);     /* that memory of a device, as it is mapped */
bool fake_is_pageable(const void *at, size_t bytes); /* of the host, and not pinned */
bool fake_is_border(const void *at, size_t bytes);   /* some of it is pinned, but not as one piece */

/* Puts work on a stream; it is left out once the device has failed. False: it has. */
bool fake_send(cudaStream_t stream, std::function<void()> work);

cudaError_t fake_fail(cudaError_t error); /* what cudaGetLastError() then says on this thread */
