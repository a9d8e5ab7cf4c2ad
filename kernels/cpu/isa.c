/* Which instruction sets this processor has. */
#include "kernels/cpu/isa.h"

#include <cpuid.h>
#include <string.h>

static bool has_avx2(void)
{
    unsigned a, b, c, d; /* F16C by hand: clang's __builtin_cpu_supports() does not know its name */
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __get_cpuid(1, &a, &b, &c, &d) &&
           c & bit_F16C;
}

static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

/* Asked once: a virtual machine traps each cpuid, and kernels ask often. Threads that come at the same time find the same answer. */
const struct isa *isa_best(void)
{
    static const struct isa *_Atomic best;
    const struct isa *found = best;
    if (!found) best = found = has_avx512() ? &isa_avx512 : has_avx2() ? &isa_avx2 : &isa_plain;
    return found;
}

const struct isa *isa_named(const char *name)
{
    if (!strcmp(name, isa_plain.name)) return &isa_plain;
    if (!strcmp(name, isa_avx2.name)) return has_avx2() ? &isa_avx2 : NULL;
    if (!strcmp(name, isa_avx512.name)) return has_avx512() ? &isa_avx512 : NULL;
    return NULL;
}
