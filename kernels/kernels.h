/* The numeric kernels of one rank: matrix products (oneDNN) and everything else a GPT needs (our own), on `threads`
 * threads, on the widest instruction set that the processor has.
 *
 *     struct kernels *kernels;
 *     kernels_create(&kernels, threads, NULL, err)
 *     kernels_linear_forward(kernels, DTYPE_BF16, y, x, w, bias, NULL, N, out, in, err)
 *     kernels_free(kernels)
 *
 * One thread at a time may use a struct kernels (the compute lane); it need not be the one that created it.
 *
 * The same calls serve CPU and GPU: kernels.c forwards each to kernels/cpu, or to kernels/cuda for a struct kernels that
 * kernels/cuda/device.h made. On a GPU pointers are into its memory, and a call returns before the work is done (see kernels_check).
 *
 * Types: dtype is DTYPE_F32, DTYPE_BF16 or DTYPE_F16; it is the type of every `void *` argument. Arithmetic is in fp32, rounded once
 * (to nearest even) where a result is stored. In our own kernels an element's bits depend neither on its position and
 * alignment nor on the number of threads: tails are masked lanes of the same arithmetic, sums run in an order that the
 * shape fixes. In products they may depend on the number of threads (oneDNN), never on the run.
 *
 * Shapes stand beside the arguments; N is B*T rows. `accumulate` adds to what is there, with one rounding of the sum. */
#ifndef KERNELS_KERNELS_H
#define KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/dtype.h"
#include "engine/base/error.h"
#include "engine/base/optimizers.h"

struct kernels;

/* isa: "avx512", "avx2" or "plain"; NULL: the widest this processor has. STATUS_USAGE: it lacks the one asked for. */
int kernels_create(struct kernels **out, int threads, const char *isa, struct error *err);
void kernels_free(struct kernels *kernels);
const char *kernels_isa(const struct kernels *kernels);
const char *kernels_widest_isa(void); /* what NULL chooses */
void kernels_product_library(char *text, size_t room); /* what multiplies matrices: "oneDNN 2.6.0" */
/* False: dtype is only how numbers are stored, products convert and run in fp32. */
bool kernels_native_products(const struct kernels *kernels, enum dtype dtype);
/* What went wrong in calls that return nothing: STATUS_RUN and the first such call by name. Does not wait for the GPU. */
int kernels_check(struct kernels *kernels, struct error *err);

/* Linear layer, weight w [out, in].
 * y [N, out] = x [N, in] w^T + bias [out] (NULL: none) + residual [N, out] (NULL: none; it may be y), rounded once. */
int kernels_linear_forward(struct kernels *kernels, enum dtype dtype, void *y, const void *x, const void *w, const void *bias,
                           const void *residual, int64_t N, int64_t out, int64_t in, struct error *err);
/* dx [N, in] = dy [N, out] w, or adds to dx */
int kernels_linear_backward_input(struct kernels *kernels, enum dtype dtype, void *dx, bool accumulate, const void *dy, const void *w,
                                  int64_t N, int64_t out, int64_t in, struct error *err);
/* dw [out, in] = dy^T x */
int kernels_linear_backward_weight(struct kernels *kernels, enum dtype dtype, void *dw, bool accumulate, const void *dy,
                                   const void *x, int64_t N, int64_t out, int64_t in, struct error *err);

/* The output layer: the same three products between x [N, C] and logits [N, V], with the table of tokens wte [V, C] for a weight. Rows
 * of logits lie `row` elements apart (at least V; see logits_row() of plan); what is between two rows is neither read nor written. */
int kernels_logits_forward(struct kernels *kernels, enum dtype dtype, void *logits, const void *x, const void *wte, int64_t N,
                           int64_t V, int64_t C, int64_t row, struct error *err);
int kernels_logits_backward_input(struct kernels *kernels, enum dtype dtype, void *dx, const void *dlogits, const void *wte,
                                  int64_t N, int64_t V, int64_t C, int64_t row, struct error *err);
int kernels_logits_backward_weight(struct kernels *kernels, enum dtype dtype, void *dwte, bool accumulate, const void *dlogits,
                                   const void *x, int64_t N, int64_t V, int64_t C, int64_t row, struct error *err);

struct attention_shape { int B, T, C, NH; }; /* batch, tokens of a sequence, channels, heads */

/* Of kernels_update(). The caller works the factors out once per step (engine/optim/optimizer.c); state: as many arrays as the
 * optimizer keeps. */
struct update_factors {
    float gradient;                /* multiplies the gradient */
    float decay;                   /* of the parameter that is added to the gradient (L2), or 0 */
    float keep;                    /* of the parameter: 1 - learning rate x weight decay, or 1 */
    float beta1, share1;           /* what is kept of the first state, how much of the new comes in */
    float beta2, share2;
    float step_size;               /* learning rate / (1 - beta1^step) */
    float second_moment;           /* 1 / sqrt(1 - beta2^step) */
    float epsilon;
    bool nesterov;
};
struct update_arrays { const void *gradient; float *master, *state[OPTIMIZER_STATES_MAX]; void *parameters; };

/* Everything else: kernels.def says what each does. */
#define KERNEL(type, name, parameters, arguments) type kernels_##name parameters;
#include "kernels/kernels.def"
#undef KERNEL

/* kernels_sum_squares_to(), and waits for the sum. */
double kernels_sum_squares(struct kernels *kernels, enum dtype dtype, const void *x, int64_t n);

void kernels_cast(struct kernels *kernels, enum dtype to, void *y, enum dtype from, const void *x, int64_t n);

/* For the communication lane: no struct kernels, the calling thread alone, safe from any thread.
 * destination = round(after x sum over sources in order, in fp32), rounded to the sources' type and then to that of the
 * destination, `to`; with accumulate it is added to what destination held before the second rounding. destination may be one
 * of the sources. Where `before` is not 1, a source counts as what it would be, had its rank multiplied and stored it:
 * round(before x source). */
struct reduce_factors { float before, after; };
void kernels_reduce(enum dtype dtype, enum dtype to, void *destination, const void *const *sources, int count,
                    const struct reduce_factors *factors, int64_t elems, bool accumulate);

#endif
