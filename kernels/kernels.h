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
 * This is the CPU's kernels; kernels/cuda/device.h makes a struct kernels of a GPU's, for which the same calls hold, with
 * pointers into its memory: they return before the work is done (see kernels_check).
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
int kernels_threads(const struct kernels *kernels);
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
/* db [out] = column sums of dy [N, out], in row order */
void kernels_linear_backward_bias(struct kernels *kernels, enum dtype dtype, void *db, bool accumulate, const void *dy,
                                  int64_t N, int64_t out);

/* The output layer: the same three products between x [N, C] and logits [N, V], with the table of tokens wte [V, C] for a weight. Rows
 * of logits lie `row` elements apart (at least V; see logits_row() of plan); what is between two rows is neither read nor written. */
int kernels_logits_forward(struct kernels *kernels, enum dtype dtype, void *logits, const void *x, const void *wte, int64_t N,
                           int64_t V, int64_t C, int64_t row, struct error *err);
int kernels_logits_backward_input(struct kernels *kernels, enum dtype dtype, void *dx, const void *dlogits, const void *wte,
                                  int64_t N, int64_t V, int64_t C, int64_t row, struct error *err);
int kernels_logits_backward_weight(struct kernels *kernels, enum dtype dtype, void *dwte, bool accumulate, const void *dlogits,
                                   const void *x, int64_t N, int64_t V, int64_t C, int64_t row, struct error *err);

/* The two products of the MLP that have GELU beside them; a GPU may do both at once, and rounds less often then.
 * fc [N, out] = x [N, in] w^T + bias [out], y = GELU(fc) */
int kernels_linear_gelu_forward(struct kernels *kernels, enum dtype dtype, void *y, void *fc, const void *x, const void *w,
                                const void *bias, int64_t N, int64_t out, int64_t in, struct error *err);
/* dfc [N, in] = dy [N, out] w, times the slope of GELU at fc [N, in] */
int kernels_linear_gelu_backward(struct kernels *kernels, enum dtype dtype, void *dfc, const void *dy, const void *w,
                                 const void *fc, int64_t N, int64_t out, int64_t in, struct error *err);

/* Layer norm over rows of C; mean and rstd [N] are kept for backward. */
void kernels_norm_forward(struct kernels *kernels, enum dtype dtype, void *y, float *mean, float *rstd, const void *x,
                          const void *w, const void *b, int64_t N, int64_t C);
/* dx [N, C] = gradient of the norm's input, plus what dx held where `add` is set (the residual branch). dx may be dy. */
void kernels_norm_backward(struct kernels *kernels, enum dtype dtype, void *dx, bool add, const void *dy, const void *x,
                           const float *mean, const float *rstd, const void *w, int64_t N, int64_t C);
void kernels_norm_backward_weights(struct kernels *kernels, enum dtype dtype, void *dw, void *db, bool accumulate,
                                   const void *dy, const void *x, const float *mean, const float *rstd, int64_t N, int64_t C);

/* Both, as a backward pass needs them: the weights' gradients, then dx, then the column sums of dx in dsum [C] (NULL: none): the gradient
 * of the bias of the linear layer whose output the norm read. accumulate: of dw, db and dsum. A GPU reads dy and x once. */
void kernels_norm_backward_both(struct kernels *kernels, enum dtype dtype, void *dx, bool add, void *dw, void *db, void *dsum,
                                bool accumulate, const void *dy, const void *x, const float *mean, const float *rstd, const void *w,
                                int64_t N, int64_t C);

/* GELU in tanh form, over n elements; dx may be dy. */
void kernels_gelu_forward(struct kernels *kernels, enum dtype dtype, void *y, const void *x, int64_t n);
void kernels_gelu_backward(struct kernels *kernels, enum dtype dtype, void *dx, const void *dy, const void *x, int64_t n);

/* Causal self-attention of NH heads. qkv [B, T, 3, NH, C/NH], out [B, T, NH, C/NH], lse [B, NH, T]: log of each softmax's
 * sum, all that backward needs to make the probabilities again. scratch: threads x attention_scratch_bytes() of plan. */
struct attention_shape { int B, T, C, NH; };
void kernels_attention_forward(struct kernels *kernels, enum dtype dtype, void *out, float *lse, const void *qkv,
                               const struct attention_shape *shape, void *scratch);
void kernels_attention_backward(struct kernels *kernels, enum dtype dtype, void *dqkv, const void *dout, const void *out,
                                const float *lse, const void *qkv, const struct attention_shape *shape, void *scratch);

/* x [N, C] = wte [token] + wpe [position] */
void kernels_embed_forward(struct kernels *kernels, enum dtype dtype, void *x, const void *wte, const void *wpe,
                           const int32_t *tokens, int64_t N, int64_t T, int64_t C);
/* Adds to the rows of dwte that tokens name; the rows of one token are summed in fp32 in order of position, and rounded
 * once with what was there. scratch: embed_scratch_bytes() of plan. */
void kernels_embed_backward_tokens(struct kernels *kernels, enum dtype dtype, void *dwte, const void *dx,
                                   const int32_t *tokens, int64_t N, int64_t C, void *scratch);
/* dwpe [rows, C]: row t sums dx over the batch; rows from T on are 0 (or left, where accumulate is set). */
void kernels_embed_backward_positions(struct kernels *kernels, enum dtype dtype, void *dwpe, bool accumulate,
                                      const void *dx, int64_t rows, int64_t N, int64_t T, int64_t C);

/* losses [N] of logits [N, V], in rows as above, against targets; logits become gradient_scale x the gradient of each row's loss. */
void kernels_loss(struct kernels *kernels, enum dtype dtype, float *losses, void *logits, const int32_t *targets,
                  float gradient_scale, int64_t N, int64_t V, int64_t row);

/* One update of n elements by an optimizer, in PyTorch's order of operations; the same bits on every instruction set. The
 * gradient is in `dtype`, the parameters in `to`; parameters may be the master itself (then `to` says nothing). Factors are
 * worked out by the caller (engine/optim/optimizer.c), once per step; state: as many arrays as the optimizer keeps. */
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
void kernels_update(struct kernels *kernels, enum optimizer optimizer, const struct update_factors *factors,
                    enum dtype dtype, enum dtype to, const struct update_arrays *arrays, int64_t n);

/* Sum of squares in double. Summed by blocks of the range and then over blocks in order, whatever the threads. NaN where a GPU
 * failed. */
double kernels_sum_squares(struct kernels *kernels, enum dtype dtype, const void *x, int64_t n);
/* The same for who need not know it yet: *sum lies in host memory, and a GPU writes it when its stream has come there. Where it
 * is not pinned, that is before the call returns. */
void kernels_sum_squares_to(struct kernels *kernels, enum dtype dtype, double *sum, const void *x, int64_t n);

/* Mean of n numbers, summed in double in an order that n fixes (on the CPU: from the first to the last). *mean as *sum above. */
void kernels_mean_to(struct kernels *kernels, float *mean, const float *x, int64_t n);

void kernels_cast(struct kernels *kernels, enum dtype to, void *y, enum dtype from, const void *x, int64_t n);

/* For the communication lane: no struct kernels, the calling thread alone, safe from any thread.
 * destination = round(after x sum over sources in order, in fp32), rounded to the sources' type and then to that of the
 * destination, `to`; with accumulate it is added to what destination held before the second rounding. destination may be one
 * of the sources. Where `before` is not 1, a source counts as what it would be, had its rank multiplied and stored it:
 * round(before x source). */
struct reduce_factors { float before, after; };
void kernels_reduce(enum dtype dtype, enum dtype to, void *destination, const void *const *sources, int count,
                    const struct reduce_factors *factors, int64_t elems, bool accumulate);

/* y += x, where y is in `to`, or y = x: gradients on their way from one type to another. */
void kernels_add(struct kernels *kernels, enum dtype to, void *y, bool accumulate, enum dtype from, const void *x, int64_t n);

#endif
