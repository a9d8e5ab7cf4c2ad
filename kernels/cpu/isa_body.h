/* All bodies compiled for one instruction set, and its table. Each isa_*.c chooses the set and includes this file. */
#pragma GCC diagnostic ignored "-Wunused-parameter" /* most bodies need no thread */

#include "kernels/cpu/isa.h"
#include "kernels/cpu/vector.h"

#include "kernels/cpu/body_attention.h"
#include "kernels/cpu/body_elementwise.h"
#include "kernels/cpu/body_embed.h"
#include "kernels/cpu/body_loss.h"
#include "kernels/cpu/body_norm.h"
#include "kernels/cpu/body_quantize.h"
#include "kernels/cpu/body_update.h"

/* Bodies take the dtype apart, so that each is compiled for one known dtype at a time. */
#define BODY(name)                                                                                             \
    static void name(const void *arguments, int64_t first, int64_t end, int thread)                            \
    {                                                                                                          \
        const struct name##_args *a = arguments;                                                               \
        if (a->dtype == DTYPE_BF16) name##_body(a, DTYPE_BF16, first, end, thread);                            \
        else if (a->dtype == DTYPE_F16) name##_body(a, DTYPE_F16, first, end, thread);                         \
        else name##_body(a, DTYPE_F32, first, end, thread);                                                    \
    }
#include "kernels/cpu/bodies.def"
#undef BODY

const struct isa ISA_TABLE = {
    .name = ISA_NAME,
#define BODY(name) .name = name,
#include "kernels/cpu/bodies.def"
#undef BODY
};
