/* The optimizers. Each makes one pass: it reads gradient, master weight and states, and writes master weight, states
 * and the model's parameters. Operations have the CPU's order and are rounded one by one, so the bits are the CPU's.
 * Memory limits the speed, so a fused multiply-add would gain nothing. */
#include "kernels/cuda/cuda.cuh"
#include "kernels/cuda/each.cuh"

struct update_element {
    float p, g, s[2];
};

/* old x keep + new x share */
__device__ __forceinline__ float mix(float old, float keep, float fresh, float share)
{
    return __fadd_rn(__fmul_rn(old, keep), __fmul_rn(fresh, share));
}

__device__ __forceinline__ float stepped(float p, float step_size, float by)
{
    return __fsub_rn(p, __fmul_rn(step_size, by));
}

struct adam_rule {
    enum { STATES = 2 };
    static __device__ __forceinline__ void apply(const update_factors &f, update_element &x)
    {
        x.s[0] = __fadd_rn(x.s[0], __fmul_rn(f.share1, __fsub_rn(x.g, x.s[0])));
        x.s[1] = mix(x.s[1], f.beta2, __fmul_rn(x.g, x.g), f.share2);
        const float root = __fadd_rn(__fmul_rn(__fsqrt_rn(x.s[1]), f.second_moment), f.epsilon);
        x.p = stepped(x.p, f.step_size, __fdiv_rn(x.s[0], root));
    }
};

struct lion_rule {
    enum { STATES = 1 };
    static __device__ __forceinline__ void apply(const update_factors &f, update_element &x)
    {
        const float mixed = mix(x.s[0], f.beta1, x.g, f.share1);
        x.p = stepped(x.p, f.step_size, mixed > 0 ? 1.0f : mixed < 0 ? -1.0f : 0.0f);
        x.s[0] = mix(x.s[0], f.beta2, x.g, f.share2);
    }
};

struct adagrad_rule {
    enum { STATES = 1 };
    static __device__ __forceinline__ void apply(const update_factors &f, update_element &x)
    {
        x.s[0] = __fadd_rn(x.s[0], __fmul_rn(x.g, x.g));
        x.p = stepped(x.p, f.step_size, __fdiv_rn(x.g, __fadd_rn(__fsqrt_rn(x.s[0]), f.epsilon)));
    }
};

struct sgd_rule {
    enum { STATES = 0 };
    static __device__ __forceinline__ void apply(const update_factors &f, update_element &x)
    {
        x.p = stepped(x.p, f.step_size, x.g);
    }
};

struct momentum_rule {
    enum { STATES = 1 };
    static __device__ __forceinline__ void apply(const update_factors &f, update_element &x)
    {
        x.s[0] = mix(x.s[0], f.beta1, x.g, f.share1);
        x.p = stepped(x.p, f.step_size, f.nesterov ? __fadd_rn(x.g, __fmul_rn(f.beta1, x.s[0])) : x.s[0]);
    }
};

template <class Rule, class Gradient, class Parameter> struct update_operation {
    enum { WIDTH = width_of<float> };
    update_factors f;
    const Gradient *gradient;
    float *master, *state[2];
    Parameter *parameters; /* NULL: the master itself */

    template <int W> __device__ void run(int64_t i) const
    {
        float p[W], g[W], s[2][W] = {};
        load<W>(g, gradient, i);
        load<W>(p, master, i);
#pragma unroll
        for (int k = 0; k < Rule::STATES; k++) load<W>(s[k], state[k], i);
#pragma unroll
        for (int j = 0; j < W; j++) {
            update_element x = {p[j], __fmul_rn(g[j], f.gradient), {s[0][j], s[1][j]}};
            if (f.decay != 0) x.g = __fadd_rn(x.g, __fmul_rn(f.decay, x.p));
            if (f.keep != 1) x.p = __fmul_rn(x.p, f.keep);
            Rule::apply(f, x);
            p[j] = x.p, s[0][j] = x.s[0], s[1][j] = x.s[1];
        }
#pragma unroll
        for (int k = 0; k < Rule::STATES; k++) store<W>(state[k], i, s[k]);
        store<W>(master, i, p);
        if (parameters) store<W>(parameters, i, p);
    }
};

template <class Rule>
static void update_by(struct kernels *kernels, const struct update_factors *factors, enum dtype dtype, enum dtype to,
                      const struct update_arrays *a, int64_t n)
{
    void *parameters = a->parameters == a->master ? NULL : a->parameters;
    const bool wide = aligned(a->gradient, a->master, parameters) && aligned(Rule::STATES > 0 ? a->state[0] : NULL) &&
                      aligned(Rule::STATES > 1 ? a->state[1] : NULL);
    with_type(dtype, [&](auto gradient) {
        with_type(to, [&](auto parameter) {
            using G = decltype(gradient);
            using P = decltype(parameter);
            const update_operation<Rule, G, P> operation = {
                *factors, (const G *)a->gradient, a->master, {a->state[0], a->state[1]}, (P *)parameters};
            each(cuda_of(kernels)->stream, "update", operation, n, wide);
        });
    });
}

void cuda_update(struct kernels *kernels, enum optimizer optimizer, const struct update_factors *factors,
                 enum dtype dtype, enum dtype to, const struct update_arrays *arrays, int64_t n)
{
    switch (optimizer) {
    case OPTIMIZER_ADAMW:
    case OPTIMIZER_ADAM: update_by<adam_rule>(kernels, factors, dtype, to, arrays, n); break;
    case OPTIMIZER_LION: update_by<lion_rule>(kernels, factors, dtype, to, arrays, n); break;
    case OPTIMIZER_ADAGRAD: update_by<adagrad_rule>(kernels, factors, dtype, to, arrays, n); break;
    case OPTIMIZER_SGD: update_by<sgd_rule>(kernels, factors, dtype, to, arrays, n); break;
    case OPTIMIZER_MOMENTUM: update_by<momentum_rule>(kernels, factors, dtype, to, arrays, n); break;
    case OPTIMIZERS: break;
    }
}
