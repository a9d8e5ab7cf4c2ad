/* Kernels that have a backward: their gradients against finite differences, attention against a plain account in double. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <string.h>

#include "kernels/scratch.h"
#include "tests/support/kernels_fixture.h"

/* ---- layer norm, GELU, loss: finite differences along a random direction --------------------------------------------- */

enum { FD_ROWS = 3, FD_COLUMNS = 37, FD_N = FD_ROWS * FD_COLUMNS };

/* Sum of y x weight, in double: a scalar whose gradient by y is the weight. */
static double weighted(const float *y, const float *weight, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) sum += (double)y[i] * weight[i];
    return sum;
}

static void moved(float *to, const float *from, const float *direction, float by, int n)
{
    for (int i = 0; i < n; i++) to[i] = from[i] + by * direction[i];
}

static void assert_slope(const char *what, double above, double below, float step, double expected)
{
    const double slope = (above - below) / (2 * (double)step);
    if (!(fabs(slope - expected) <= 3e-3 * (fabs(expected) + 1)))
        fail_msg("%s: slope %.6g, gradient says %.6g", what, slope, expected);
}

static void gelu_slope(struct kernels *kernels)
{
    float *x = numbers(DTYPE_F32, 20, FD_N, 2), *d = numbers(DTYPE_F32, 21, FD_N, 1),
          *dy = numbers(DTYPE_F32, 22, FD_N, 1);
    float dx[FD_N], at[FD_N], y[FD_N];
    double value[2];
    for (int i = 0; i < FD_N; i++) {
        const double u = 0.7978845608028654 * (x[i] + 0.044715 * pow(x[i], 3));
        kernels_gelu_forward(kernels, DTYPE_F32, y, x + i, 1);
        assert_true(fabs(y[0] - 0.5 * x[i] * (1 + tanh(u))) <= 1e-6 * (1 + fabs(x[i])));
        const float one = 1;
        const double rise = 0.7978845608028654 * (1 + 3 * 0.044715 * x[i] * x[i]);
        kernels_gelu_backward(kernels, DTYPE_F32, y, &one, x + i, 1);
        assert_true(fabs(y[0] - (0.5 * (1 + tanh(u)) + 0.5 * x[i] * (1 - tanh(u) * tanh(u)) * rise)) <= 2e-6);
    }
    kernels_gelu_backward(kernels, DTYPE_F32, dx, dy, x, FD_N);
    for (int side = 0; side < 2; side++) {
        moved(at, x, d, side ? -1e-2f : 1e-2f, FD_N);
        kernels_gelu_forward(kernels, DTYPE_F32, y, at, FD_N);
        value[side] = weighted(y, dy, FD_N);
    }
    assert_slope("gelu", value[0], value[1], 1e-2f, weighted(dx, d, FD_N));
    const float far[4] = {-100, 100, -20, 20};
    kernels_gelu_forward(kernels, DTYPE_F32, y, far, 4);
    assert_true(fabsf(y[0]) < 1e-30f && y[1] == 100 && fabsf(y[2]) < 1e-30f && y[3] == 20);
    free(x), free(d), free(dy);
}

static void norm_slope(struct kernels *kernels)
{
    float *x = numbers(DTYPE_F32, 23, FD_N, 2), *d = numbers(DTYPE_F32, 24, FD_N, 1),
          *dy = numbers(DTYPE_F32, 25, FD_N, 1);
    float *w = numbers(DTYPE_F32, 26, FD_COLUMNS, 1), *b = numbers(DTYPE_F32, 27, FD_COLUMNS, 1);
    float mean[FD_ROWS], rstd[FD_ROWS], y[FD_N], dx[FD_N] = {0}, dw[FD_COLUMNS], db[FD_COLUMNS], at[FD_N];
    double value[2];
    kernels_norm_forward(kernels, DTYPE_F32, y, mean, rstd, x, w, b, FD_ROWS, FD_COLUMNS);
    kernels_norm_backward(kernels, DTYPE_F32, dx, true, dy, x, mean, rstd, w, FD_ROWS, FD_COLUMNS);
    kernels_norm_backward_weights(kernels, DTYPE_F32, dw, db, false, dy, x, mean, rstd, FD_ROWS, FD_COLUMNS);
    for (int what = 0; what < 3; what++) {
        for (int side = 0; side < 2; side++) {
            const float step = side ? -1e-2f : 1e-2f;
            moved(at, what == 0 ? x : what == 1 ? w : b, d, step, what == 0 ? FD_N : FD_COLUMNS);
            kernels_norm_forward(kernels, DTYPE_F32, y, mean, rstd, what == 0 ? at : x, what == 1 ? at : w,
                                 what == 2 ? at : b, FD_ROWS, FD_COLUMNS);
            value[side] = weighted(y, dy, FD_N);
        }
        assert_slope("norm", value[0], value[1], 1e-2f,
                     what == 0 ? weighted(dx, d, FD_N) : weighted(what == 1 ? dw : db, d, FD_COLUMNS));
    }
    free(x), free(d), free(dy), free(w), free(b);
}

static void loss_slope(struct kernels *kernels)
{
    float *x = numbers(DTYPE_F32, 28, FD_N, 3), *d = numbers(DTYPE_F32, 29, FD_N, 1), at[FD_N], losses[FD_ROWS];
    const int32_t targets[FD_ROWS] = {0, FD_COLUMNS - 1, 17};
    const float ones[FD_ROWS] = {1, 1, 1};
    double value[2];
    for (int side = 0; side < 2; side++) {
        moved(at, x, d, side ? -1e-2f : 1e-2f, FD_N);
        kernels_loss(kernels, DTYPE_F32, losses, at, targets, 1, FD_ROWS, FD_COLUMNS, FD_COLUMNS);
        value[side] = weighted(losses, ones, FD_ROWS);
    }
    memcpy(at, x, sizeof at);
    kernels_loss(kernels, DTYPE_F32, losses, at, targets, 0.5f, FD_ROWS, FD_COLUMNS, FD_COLUMNS);
    assert_slope("loss", value[0], value[1], 1e-2f, 2 * weighted(at, d, FD_N));
    for (int n = 0; n < FD_ROWS; n++) {
        double sum = 0;
        for (int i = 0; i < FD_COLUMNS; i++) sum += exp((double)x[n * FD_COLUMNS + i]);
        assert_close("loss", fabs(losses[n] - (log(sum) - x[n * FD_COLUMNS + targets[n]])), 1e-5);
    }
    free(x), free(d);
}

static void embed_slope(struct kernels *kernels)
{
    enum { ROWS = 6, T = 3, V = 4, X = 5, C = 18 };
    const int32_t tokens[ROWS] = {1, 3, 1, 1, 0, 3};
    float *dx = numbers(DTYPE_F32, 30, ROWS * C, 1), *before = numbers(DTYPE_F32, 31, V * C, 1), dwte[V * C],
          dwpe[X * C];
    uint64_t scratch[ROWS];
    memcpy(dwte, before, sizeof dwte);
    memset(dwpe, 0xff, sizeof dwpe);
    kernels_embed_backward_tokens(kernels, DTYPE_F32, dwte, dx, tokens, ROWS, C, scratch);
    kernels_embed_backward_positions(kernels, DTYPE_F32, dwpe, false, dx, X, ROWS, T, C);
    for (int i = 0; i < C; i++) { /* the exact order of the sums */
        assert_true(dwte[1 * C + i] == before[1 * C + i] + (dx[i] + dx[2 * C + i] + dx[3 * C + i]));
        assert_true(dwte[2 * C + i] == before[2 * C + i]);
        assert_true(dwte[3 * C + i] == before[3 * C + i] + (dx[C + i] + dx[5 * C + i]));
        assert_true(dwpe[2 * C + i] == dx[2 * C + i] + dx[5 * C + i]);
        assert_true(dwpe[3 * C + i] == 0 && dwpe[4 * C + i] == 0);
    }
    float wte[V * C], *wpe = numbers(DTYPE_F32, 32, X * C, 1), x[ROWS * C];
    memcpy(wte, before, sizeof wte);
    kernels_embed_forward(kernels, DTYPE_F32, x, wte, wpe, tokens, ROWS, T, C);
    for (int n = 0; n < ROWS; n++)
        for (int i = 0; i < C; i++) assert_true(x[n * C + i] == wte[tokens[n] * C + i] + wpe[n % T * C + i]);
    free(dx), free(before), free(wpe);
}

static void slopes_agree_with_gradients(void **state)
{
    (void)state;
    for (int s = 0; s < ISAS; s++) {
        struct kernels *kernels = kernels_on(isas[s], 1);
        if (!kernels) continue;
        gelu_slope(kernels);
        norm_slope(kernels);
        loss_slope(kernels);
        embed_slope(kernels);
        kernels_free(kernels);
    }
}

/* ---- attention ------------------------------------------------------------------------------------------------------ */

/* out, and dqkv for dout, of one head in double, with the T x T matrix that the kernel never has. */
static void attention_plainly(double *out, double *dqkv, const float *qkv, const float *dout, int64_t T, int64_t C,
                              int64_t offset, int64_t size)
{
    double *p = calloc((size_t)T, sizeof *p), *dp = calloc((size_t)T, sizeof *dp);
    const double scale = 1 / sqrt((double)size);
    for (int64_t t = 0; t < T; t++) {
        const float *q = qkv + t * 3 * C + offset;
        double sum = 0, delta = 0;
        for (int64_t j = 0; j <= t; j++) {
            p[j] = 0;
            for (int64_t i = 0; i < size; i++) p[j] += scale * q[i] * qkv[j * 3 * C + C + offset + i];
            sum += p[j] = exp(p[j]);
        }
        for (int64_t j = 0; j <= t; j++) {
            p[j] /= sum;
            dp[j] = 0;
            for (int64_t i = 0; i < size; i++) {
                const double v = qkv[j * 3 * C + 2 * C + offset + i], g = dout[t * C + offset + i];
                out[t * C + offset + i] += p[j] * v;
                dqkv[j * 3 * C + 2 * C + offset + i] += p[j] * g;
                dp[j] += g * v;
            }
            delta += p[j] * dp[j];
        }
        for (int64_t j = 0; j <= t; j++)
            for (int64_t i = 0; i < size; i++) {
                const double slope = scale * p[j] * (dp[j] - delta);
                dqkv[t * 3 * C + offset + i] += slope * qkv[j * 3 * C + C + offset + i];
                dqkv[j * 3 * C + C + offset + i] += slope * q[i];
            }
    }
    free(p), free(dp);
}

static void check_attention(struct kernels *one, struct kernels *three, int B, int T, int NH, int size)
{
    const int C = NH * size;
    const int64_t N = (int64_t)B * T, bytes = attention_backward_scratch_bytes(T, size);
    const struct attention_shape shape = {B, T, C, NH};
    float *qkv = numbers(DTYPE_F32, 40, N * 3 * C, 1.5f), *dout = numbers(DTYPE_F32, 41, N * C, 1);
    float *out[2], *lse[2], *dqkv[2];
    double *expected = calloc((size_t)(N * C), sizeof *expected), *slopes = calloc((size_t)(N * 3 * C), sizeof *slopes);
    for (int64_t b = 0; b < B; b++)
        for (int64_t h = 0; h < NH; h++)
            attention_plainly(expected + b * T * C, slopes + b * T * 3 * C, qkv + b * T * 3 * C, dout + b * T * C, T, C,
                              h * size, size);
    for (int k = 0; k < 2; k++) {
        struct kernels *kernels = k ? three : one;
        char *scratch = malloc((size_t)(bytes * (k ? 3 : 1)));
        memset(scratch, 0xff, (size_t)(bytes * (k ? 3 : 1))); /* NaN: whatever is read must have been written */
        out[k] = malloc((size_t)(N * C) * 4);
        lse[k] = malloc((size_t)(N * NH) * 4);
        dqkv[k] = malloc((size_t)(N * 3 * C) * 4);
        kernels_attention_forward(kernels, DTYPE_F32, out[k], lse[k], qkv, &shape, scratch);
        kernels_attention_backward(kernels, DTYPE_F32, dqkv[k], dout, out[k], lse[k], qkv, &shape, scratch);
        free(scratch);
    }
    assert_close("attention", relative(DTYPE_F32, out[0], expected, N * C), 2e-6);
    assert_close("attention backward", relative(DTYPE_F32, dqkv[0], slopes, N * 3 * C), 5e-6);
    assert_memory_equal(out[0], out[1], (size_t)(N * C) * 4);
    assert_memory_equal(lse[0], lse[1], (size_t)(N * NH) * 4);
    assert_memory_equal(dqkv[0], dqkv[1], (size_t)(N * 3 * C) * 4);
    for (int k = 0; k < 2; k++) free(out[k]), free(lse[k]), free(dqkv[k]);
    free(qkv), free(dout), free(expected), free(slopes);
}

static void attention_is_right(void **state)
{
    (void)state;
    static const struct {
        int B, T, NH, size;
    } shapes[] = {{1, 1, 1, 1}, {2, 5, 3, 5}, {1, 64, 2, 16}, {2, 65, 1, 20}, {1, 150, 2, 64}, {1, 31, 1, 80}};
    for (int s = 0; s < ISAS; s++) {
        struct kernels *one = kernels_on(isas[s], 1), *three = kernels_on(isas[s], 3);
        if (!one) continue;
        for (int i = 0; i < 6; i++) check_attention(one, three, shapes[i].B, shapes[i].T, shapes[i].NH, shapes[i].size);
        kernels_free(one);
        kernels_free(three);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slopes_agree_with_gradients),
        cmocka_unit_test(attention_is_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
