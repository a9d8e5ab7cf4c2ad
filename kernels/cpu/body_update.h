/* The optimizers. Each makes one pass: it reads gradient, master weight and states, and writes master weight, states
 * and the model's parameters. Operations have PyTorch's order, without fused multiply-add: memory limits the speed, so
 * it would gain nothing, and without it every instruction set computes the same bits. */

struct update_lanes { vec p, g, first, second; }; /* of sixteen elements: parameter, gradient, states */

INLINE vec update_load_state(float *state, int64_t i, int64_t n)
{
    fetch_ahead(DTYPE_F32, state, i);
    return vec_load_part(state + i, n);
}

INLINE struct update_lanes update_load(const struct update_args *a, enum dtype dtype, int64_t i, int64_t n, int states)
{
    struct update_lanes lanes;
    fetch_ahead(dtype, a->gradient, i);
    lanes.first = states > 0 ? update_load_state(a->state[0], i, n) : vec_set(0);
    lanes.second = states > 1 ? update_load_state(a->state[1], i, n) : vec_set(0);
    lanes.p = update_load_state(a->master, i, n);
    lanes.g = vec_mul(load(dtype, a->gradient, i, n), vec_set(a->factors.gradient));
    return lanes;
}

INLINE void update_store(const struct update_args *a, int64_t i, const struct update_lanes *lanes, int64_t n, int states)
{
    if (states > 0) vec_store_part(a->state[0] + i, lanes->first, n);
    if (states > 1) vec_store_part(a->state[1] + i, lanes->second, n);
    vec_store_part(a->master + i, lanes->p, n);
    if (a->parameters == a->master) return;
    if (a->to == DTYPE_BF16) store(DTYPE_BF16, a->parameters, i, lanes->p, n);
    else if (a->to == DTYPE_F16) store(DTYPE_F16, a->parameters, i, lanes->p, n);
    else store(DTYPE_F32, a->parameters, i, lanes->p, n);
}

/* Weight decay as a part of the gradient (L2), or of the parameter (decoupled); 0 and 1 are exact, so either can be off. */
INLINE void update_decay(const struct update_factors *f, struct update_lanes *lanes)
{
    if (f->decay != 0) lanes->g = vec_add(lanes->g, vec_mul(vec_set(f->decay), lanes->p));
    if (f->keep != 1) lanes->p = vec_mul(lanes->p, vec_set(f->keep));
}

/* old x keep + new x share */
INLINE vec update_mix(vec old, float keep, vec new, float share)
{
    return vec_add(vec_mul(old, vec_set(keep)), vec_mul(new, vec_set(share)));
}

INLINE void adam_step(const struct update_args *a, enum dtype dtype, int64_t i, int64_t n)
{
    const struct update_factors *f = &a->factors;
    struct update_lanes x = update_load(a, dtype, i, n, 2);
    update_decay(f, &x);
    x.first = vec_add(x.first, vec_mul(vec_set(f->share1), vec_sub(x.g, x.first)));
    x.second = update_mix(x.second, f->beta2, vec_mul(x.g, x.g), f->share2);
    vec root = vec_add(vec_mul(vec_sqrt(x.second), vec_set(f->second_moment)), vec_set(f->epsilon));
    x.p = vec_sub(x.p, vec_mul(vec_set(f->step_size), vec_div(x.first, root)));
    update_store(a, i, &x, n, 2);
}

/* Lion (Chen et al. 2023) steps by the sign of a mix of momentum and gradient (beta1), and updates the momentum with beta2. */
INLINE void lion_step(const struct update_args *a, enum dtype dtype, int64_t i, int64_t n)
{
    const struct update_factors *f = &a->factors;
    struct update_lanes x = update_load(a, dtype, i, n, 1);
    update_decay(f, &x);
    vec mixed = update_mix(x.first, f->beta1, x.g, f->share1);
    x.p = vec_sub(x.p, vec_mul(vec_set(f->step_size), vec_sign(mixed)));
    x.first = update_mix(x.first, f->beta2, x.g, f->share2);
    update_store(a, i, &x, n, 1);
}

INLINE void adagrad_step(const struct update_args *a, enum dtype dtype, int64_t i, int64_t n)
{
    const struct update_factors *f = &a->factors;
    struct update_lanes x = update_load(a, dtype, i, n, 1);
    update_decay(f, &x);
    x.first = vec_add(x.first, vec_mul(x.g, x.g));
    vec root = vec_add(vec_sqrt(x.first), vec_set(f->epsilon));
    x.p = vec_sub(x.p, vec_mul(vec_set(f->step_size), vec_div(x.g, root)));
    update_store(a, i, &x, n, 1);
}

INLINE void sgd_step(const struct update_args *a, enum dtype dtype, int64_t i, int64_t n)
{
    struct update_lanes x = update_load(a, dtype, i, n, 0);
    update_decay(&a->factors, &x);
    x.p = vec_sub(x.p, vec_mul(vec_set(a->factors.step_size), x.g));
    update_store(a, i, &x, n, 0);
}

INLINE void momentum_step(const struct update_args *a, enum dtype dtype, int64_t i, int64_t n)
{
    const struct update_factors *f = &a->factors;
    struct update_lanes x = update_load(a, dtype, i, n, 1);
    update_decay(f, &x);
    x.first = update_mix(x.first, f->beta1, x.g, f->share1);
    vec step = f->nesterov ? vec_add(x.g, vec_mul(vec_set(f->beta1), x.first)) : x.first;
    x.p = vec_sub(x.p, vec_mul(vec_set(f->step_size), step));
    update_store(a, i, &x, n, 1);
}

/* Whole vectors first: for them the compiler drops what parts need, and keeps everything in registers. */
#define UPDATE_BODY(name)                                                                                      \
    INLINE void update_##name##_body(const struct update_args *a, enum dtype dtype, int64_t first, int64_t end, \
                                     int thread)                                                               \
    {                                                                                                          \
        int64_t i = first;                                                                                     \
        for (; i + VEC_LANES <= end; i += VEC_LANES) name##_step(a, dtype, i, VEC_LANES);                      \
        if (i < end) name##_step(a, dtype, i, end - i);                                                        \
    }
UPDATE_BODY(adam)
UPDATE_BODY(lion)
UPDATE_BODY(adagrad)
UPDATE_BODY(sgd)
UPDATE_BODY(momentum)
#undef UPDATE_BODY
