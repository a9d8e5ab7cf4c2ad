/* The numeric kernels of one rank: matrix products (oneDNN) and zerolab's own kernels for the rest of a GPT, on
 * `threads` threads, with the widest instruction set that the processor has.
 *
 *     struct kernels *kernels;
 *     kernels_create(&kernels, threads, NULL, err)
 *     kernels_linear_forward(kernels, DTYPE_BF16, y, x, w, bias, NULL, N, out, in, err)
 *     kernels_free(kernels)
 *
 * One thread at a time may use a struct kernels (the compute lane's); it need not be the thread that created it.
 *
 * The same calls serve CPU and GPU: kernels.c forwards each to kernels/cpu, or to kernels/cuda for a struct kernels of
 * kernels_create_cuda(). On a GPU, pointers are device pointers, and a call returns before the work is done (see kernels_check()).
 *
 * Types: dtype is DTYPE_F32, DTYPE_BF16 or DTYPE_F16; it is the type of every `void *` argument. Arithmetic is in fp32, rounded once
 * (to nearest even) where a result is stored. In zerolab's own kernels an element's bits depend neither on its position and
 * alignment nor on the number of threads: the last elements of a row use the same vector instructions with a mask, and the shape fixes
 * the order of sums. In products the bits may depend on the number of threads (oneDNN), never on the run.
 *
 * Shapes are given with each call; N is B*T rows. `accumulate` adds to the old values, with one rounding of the sum. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/dtype.h"
#include "engine/base/error.h"
#include "engine/base/optimizers.h"

struct kernels;

/* isa: "avx512", "avx2" or "plain"; NULL: the widest that this processor has. STATUS_USAGE: the processor lacks it. */
int kernels_create(struct kernels **out, int threads, const char *isa, struct error *err);
void kernels_free(struct kernels *kernels);
const char *kernels_isa(const struct kernels *kernels);
const char *kernels_widest_isa(void); /* the choice for isa NULL */
void kernels_product_library(char *text, size_t room); /* the library of matrix products: "oneDNN 2.6.0" */
/* Whether products multiply this type directly. False: they convert it to fp32 first. */
bool kernels_native_products(const struct kernels *kernels, enum dtype dtype);
/* Reports errors of calls that return nothing: STATUS_RUN and the name of the first such call. Does not wait for the GPU. */
int kernels_check(struct kernels *kernels, struct error *err);

struct attention_shape { int B, T, C, NH; }; /* batch, tokens of a sequence, channels, heads */

/* Arguments of kernels_update(). The caller computes the factors once per step (engine/optim/optimizer.c).
 * update_arrays.state has as many arrays as the optimizer has states. */
struct update_factors {
    float gradient;                /* multiplies the gradient */
    float decay;                   /* L2 weight decay: decay x parameter is added to the gradient; or 0 */
    float keep;                    /* decoupled weight decay: multiplies the parameter, 1 - learning rate x decay; or 1 */
    float beta1, share1;           /* first state: weights of the old state and of the new value (Lion: in the step's direction) */
    float beta2, share2;           /* second state: the same (Lion: in the new momentum) */
    float step_size;               /* learning rate / (1 - beta1^step) */
    float second_moment;           /* 1 / sqrt(1 - beta2^step) */
    float epsilon;
    bool nesterov;
};
struct update_arrays { const void *gradient; float *master, *state[OPTIMIZER_STATES_MAX]; void *parameters; };

/* All other kernels; kernels.def describes each. */
#define KERNEL(type, name, parameters, arguments) type kernels_##name parameters;
#include "kernels/kernels.def"
#undef KERNEL

/* Like kernels_sum_squares_to(), but waits for the sum and returns it. */
double kernels_sum_squares(struct kernels *kernels, enum dtype dtype, const void *x, int64_t n);

void kernels_cast(struct kernels *kernels, enum dtype to, void *y, enum dtype from, const void *x, int64_t n);

/* Runs body over [0, count) on at most `threads` threads, in ranges that begin at multiples of `grain`, and returns when
 * all have ended. One range runs on the calling thread. Takes no struct kernels, and is safe from any thread. */
typedef void kernels_body(const void *arguments, int64_t first, int64_t end, int thread);
void kernels_share_out(int threads, kernels_body *body, const void *arguments, int64_t count, int64_t grain);

/* For the communication lane: takes no struct kernels, runs on the calling thread alone, and is safe from any thread.
 * destination = after x the sum of the sources, added in order in fp32, rounded to the sources' type `dtype` and then
 * to the destination's type `to`. With accumulate, the old destination is added before the second rounding. destination
 * may be one of the sources. If `before` is not 1, round(before x source) is added instead of each source, as if its
 * rank had stored that; the sources themselves are not changed. */
struct reduce_factors { float before, after; };
void kernels_reduce(enum dtype dtype, enum dtype to, void *destination, const void *const *sources, int count,
                    const struct reduce_factors *factors, int64_t elems, bool accumulate);

/* ---- blocks (engine/base/dtype.h). For any thread; they take no struct kernels. body_quantize.h says how scales and integers are
 * chosen ---- */

/* Converts x [n] to blocks of type `to` (int8, int4). Adds what it measured to *error. Elements that are not finite become 0, change no
 * other element, and are counted: the caller reports them. feedback (NULL: none): the errors [n] of earlier calls are added to x, and then
 * become beta x old error + (1 - beta) x new error (LoCo); anew: old errors count as 0. */
struct quantize_error { double largest, squares, of_squares; int64_t not_finite; }; /* of |error|; sums of error^2 and of x^2 */
struct quantize_feedback { uint16_t *errors /* bf16 */; float beta; bool anew; };
void kernels_quantize(enum dtype to, void *blocks, enum dtype dtype, const void *x, int64_t n, const struct quantize_feedback *feedback,
                      struct quantize_error *error);
/* Converts blocks of type `from` to y [n], rounded once to type `to`. */
void kernels_dequantize(enum dtype to, void *y, enum dtype from, const void *blocks, int64_t n);
