/* Splits a range over the threads of a rank. */
#pragma once

#include "kernels/cpu/isa.h"

/* Runs body over [0, count), cut into at most `threads` ranges at multiples of `grain`; returns when all have ended.
 * One range runs on the calling thread. The pool is OpenMP's, the one that oneDNN uses. */
void parallel_run(int threads, isa_body *body, const void *arguments, int64_t count, int64_t grain);

/* Makes OpenMP, and so oneDNN, use this many threads when called from this thread. */
void parallel_limit(int threads);
