/* Reads a snapshot of PyTorch's CUDA caching allocator, which torch.cuda.memory._dump_snapshot() writes as a pickle: the memory of each
 * GPU over time, without operations.
 * Format: pytorch, torch/csrc/cuda/memory_snapshot.cpp (_memory_snapshot_pickled()) and the docstring of _snapshot() in
 * torch/cuda/memory.py; sizes: record_trace() in c10/cuda/CUDACachingAllocator.cpp; readers: torch/cuda/_memory_viz.py.
 *
 * Allocated bytes are what the program asked for, without the allocator's rounding: the trace records no other size.
 * Memory that is freed while another stream still uses it no longer counts. Reserved bytes are those of the segments. */
#pragma once

#include "engine/import/job.h"

/* Adds each GPU that acted, as ranks from first_rank on. *changes: how many changes of memory that were. STATUS_INPUT: not such a
 * snapshot, or no change has a time and known bytes; STATUS_RUN: no memory. */
int snapshot_to_job(struct job *job, const char *path, int first_rank, uint64_t *changes, struct error *err);
