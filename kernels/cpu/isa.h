/* The interface between kernels.c, which checks arguments and splits work over threads, and the bodies, which compute. A body
 * gets its arguments and this thread's range [first, end); the comment beside each struct names the range's unit. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/dtype.h"
#include "kernels/kernels.h"

struct isa {
    const char *name;
#define BODY(name) kernels_body *name;
#include "kernels/cpu/bodies.def"
#undef BODY
};

extern const struct isa isa_plain, isa_avx2, isa_avx512;

/* The widest instruction set of this processor. */
const struct isa *isa_best(void);
/* Finds an instruction set by name; NULL if it is unknown or this processor lacks it. */
const struct isa *isa_named(const char *name);

enum { SUM_BLOCK_ELEMS = 16384 }; /* of kernels_sum_squares */

struct cast_args { enum dtype dtype, from; bool accumulate; void *y; const void *x; };                  /* elements */
struct sum_squares_args { enum dtype dtype; const void *x; int64_t n; double *sums; };                 /* blocks */
struct reduce_args {                                                                                   /* elements */
    enum dtype dtype, to; void *destination; const void *const *sources; int count; struct reduce_factors factors; bool accumulate;
};
struct quantize_args {                                                                                 /* blocks */
    enum dtype dtype, to; void *blocks; const void *x; int64_t n; const struct quantize_feedback *feedback; struct quantize_error *error;
};
struct dequantize_args {                                                                               /* blocks */
    enum dtype dtype, from; void *y; const void *const *sources; int count; int64_t n; float factor; bool accumulate;
};
struct column_sums_args { enum dtype dtype; void *sums; bool accumulate; const void *x; int64_t N, columns; }; /* columns */
struct gelu_forward_args { enum dtype dtype; void *y; const void *x; };                                /* elements */
struct gelu_backward_args { enum dtype dtype; void *dx; const void *dy, *x; };                         /* elements */
struct norm_forward_args { enum dtype dtype; void *y; float *mean, *rstd; const void *x, *w, *b; int64_t C; }; /* rows */
struct norm_backward_args {                                                                            /* rows */
    enum dtype dtype; void *dx; bool add; const void *dy, *x; const float *mean, *rstd; const void *w; int64_t C;
};
struct norm_backward_weights_args {                                                                    /* columns */
    enum dtype dtype; void *dw, *db; bool accumulate; const void *dy, *x; const float *mean, *rstd; int64_t N, C;
};
struct attention_forward_args {                                                                        /* sequence, head */
    enum dtype dtype; void *out; float *lse; const void *qkv; struct attention_shape shape; char *scratch;
};
struct attention_backward_args {                                                                       /* sequence, head */
    enum dtype dtype; void *dqkv; const void *dout, *out; const float *lse; const void *qkv;
    struct attention_shape shape; char *scratch;
};
struct embed_forward_args {                                                                            /* rows */
    enum dtype dtype; void *x; const void *wte, *wpe; const int32_t *tokens; int64_t T, C;
};
struct embed_backward_tokens_args { enum dtype dtype; void *dwte; const void *dx; const uint64_t *order; int64_t N, C; }; /* places in order */
struct embed_backward_positions_args { enum dtype dtype; void *dwpe; bool accumulate; const void *dx; int64_t N, T, C; }; /* rows of dwpe */
struct loss_args { enum dtype dtype; float *losses; void *logits; const int32_t *targets; float gradient_scale; int64_t V, row; }; /* rows */
struct update_args {                                                                                   /* elements */
    enum dtype dtype, to; struct update_factors factors; const void *gradient; float *master, *state[2]; void *parameters;
};
#define update_adam_args     update_args
#define update_lion_args     update_args
#define update_adagrad_args  update_args
#define update_sgd_args      update_args
#define update_momentum_args update_args
