/* Formulas of papers and programs (conventions.def): each is computed here a second time in another way, by counting messages,
 * products, tensors or time slots with integers and inputs of our own. */
#include <stdio.h>

#include "tests/support/conventions_fixture.h"

/* ---- answers ---- */

static double figure(const char *name, const char *with, int section, const char *label)
{
    cJSON *answer = asked(name, with);
    const double value = line_of(answer, section, label, "accounting");
    cJSON_Delete(answer);
    return value;
}

static double total(const char *name, const char *with, int section)
{
    cJSON *answer = asked(name, with);
    const double value = sum_of(answer, section, "accounting");
    cJSON_Delete(answer);
    return value;
}

/* ---- the language ---- */

static double letters(const char *name, void *context)
{
    (void)context;
    return name[1] ? strcmp(name, "heads") ? NAN : 8 : *name >= 'a' && *name <= 'e' ? *name - 'a' + 2 : NAN;
}

static void formulas_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *formula;
        double value;
    } cases[] = {
        {"2 a b + c", 2 * 2 * 3 + 4},
        {"a b/c d", 2 * 3 / 4. * 5},
        {"a/(b c)", 2 / 12.},
        {"a^b", 8},
        {"2 a^2 b", 24},
        {"-a + b - c", -3},
        {"2 x 3 a", 12},
        {"a (b + c) (d - 1)", 56},
        {"(2 + heads) 4", 40},
        {"max(a, b) min(c, d)", 12},
        {"ceil(d/a) floor(d/a)", 6},
        {"if(a >= 2, b, c)", 3},
        {"if(a < 2, z, c)", 4},
        {"(a = 2) (b = 4)", 0},
        {"if(1 - (a = 2), 5, 6)", 6},
        {"1.5 a", 3},
        {"0", 0},
    };
    static const char *const wrong[] = {"",      "a +", "(a",  "a)",          "max(a)",
                                        "max a", "z a", "a ,", "if(z, a, b)", "min(a, z)"};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const double value = arithmetic_value(cases[c].formula, letters, NULL);
        if (fabs(value - cases[c].value) > 1e-12) fail_msg("%s is %g", cases[c].formula, value);
    }
    for (size_t w = 0; w < sizeof wrong / sizeof *wrong; w++)
        if (!isnan(arithmetic_value(wrong[w], letters, NULL))) fail_msg("\"%s\" has a value", wrong[w]);
    char text[100];
    arithmetic_numbers(text, sizeof text, "2 a (b + c)/d^2 - max(a, z) e", letters, NULL);
    assert_string_equal(text, "2×2×(3+4)/5^2 - max(2, ?)×6");
}

static double any_value(const char *name, void *context)
{
    (void)context;
    for (int q = 0; q < QUANTITY_COUNT; q++)
        if (strcmp(quantity_table[q].name, name) == 0) return 2 + 0.25 * q;
    return NAN;
}

/* Every formula can be read and names quantities only; lines are behind their section, and cases behind all of them. */
static void rows_are_sound(void **state)
{
    (void)state;
    struct config config = config_of(NULL, 0);
    int conventions = 0, cases = 0, sections = 0;
    for (int r = 0; r < convention_row_count; r++) {
        const struct convention_row *row = &convention_rows[r];
        if (row->kind == CONVENTION) {
            cJSON_Delete(answer_of(row->label, &config, NULL));
            conventions++, cases = sections = 0;
            assert_true(*row->why && *row->when && *row->formula);
        }
        sections += row->kind == CONVENTION_SECTION;
        cases += row->kind == CONVENTION_CASE;
        assert_true(row->kind != CONVENTION_LINE || (sections && !cases));
        assert_true(row->kind != CONVENTION_SECTION || !cases);
        if (row->kind != CONVENTION_LINE) continue;
        const char *texts[] = {row->formula, row->when, row->ours};
        for (int f = 0; f < 3; f++)
            if (*texts[f] && isnan(arithmetic_value(texts[f], any_value, NULL))) fail_msg("%s", texts[f]);
    }
    assert_true(conventions >= 15);
    for (int q = 0; q < QUANTITY_COUNT; q++)
        if (*quantity_table[q].formula)
            assert_false(isnan(arithmetic_value(quantity_table[q].formula, any_value, NULL)));
    config_release(&config);
}

/* A case's sums are those that its quantities give. */
static void cases_are_other_quantities(void **state)
{
    (void)state;
    int of_table = 0, answered = 0;
    for (int r = 0; r < convention_row_count; r++) {
        of_table += convention_rows[r].kind == CONVENTION_CASE;
        if (convention_rows[r].kind != CONVENTION) continue;
        cJSON *answer = asked(convention_rows[r].label, NULL);
        for (int c = 0; c < cases_of(answer); c++, answered++)
            for (int s = 0; s < cJSON_GetArraySize(json_get(answer, "sections")); s++) {
                const double sum = total(convention_rows[r].label, json_get_text(case_of(answer, c), "quantities"), s);
                if (!(isnan(sum) && isnan(case_sum(answer, c, s)))) near(1 + sum, 1 + case_sum(answer, c, s));
            }
        cJSON_Delete(answer);
    }
    assert_int_equal(of_table, answered);
}

/* ---- DeepSpeed ---- */

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The estimators in integers, all factors brought to one denominator; 1.5 is 3/2. */
static void deepspeed_estimators(void **state)
{
    (void)state;
    static const struct {
        int64_t P, L;
        int n, nodes;
    } of[] = {{1234567891, 7654321, 4, 3}, {20000003, 999983, 8, 1}, {777777777, 12345678, 6, 5}};
    char with[100];
    for (int i = 0; i < 3; i++) {
        const int64_t P = of[i].P, n = of[i].n, nodes = of[i].nodes, G = n * nodes;
        for (int offload = 0; offload < 2; offload++) {
            snprintf(with, sizeof with, "psi=%lld,n=%lld,N=%lld,offload=%d", (long long)P, (long long)n, (long long)G,
                     offload);
            near(floor(total("ds-zero2", with, 0)), (double)(offload ? 2 * P : (2 * P * G + 18 * P) / G));
            near(floor(total("ds-zero2-old", with, 0)), (double)(offload ? 2 * P : (4 * P * G + 16 * P) / G));
            const int64_t host = offload ? P * most(4 * G, 16) * 3 / 2 : P * 4 * n * 3 / 2;
            near(floor(total("ds-zero2", with, 1)), (double)host);
            near(floor(total("ds-zero2-old", with, 1)), (double)host);
        }
        for (int mode = 0; mode < 6; mode++) {
            const int offload = mode < 4, param = mode < 2, init = mode % 2 == 0, states = 16 + 2 * param;
            snprintf(with, sizeof with, "psi=%lld,largest=%lld,n=%lld,N=%lld,offload=%d,offload_param=%d,zero_init=%d",
                     (long long)P, (long long)of[i].L, (long long)n, (long long)G, offload, param, init);
            const int64_t gpu = !offload ? 18 * P / G : param ? 0 : 2 * P / G;
            near(floor(total("ds-zero3", with, 0)), (double)(4 * of[i].L + gpu));
            const int64_t cpu =
                offload ? (init ? P * states * 3 / (2 * nodes) : P * most(4 * n * nodes, states) * 3 / (2 * nodes))
                        : (init ? of[i].L : P) * 4 * n * 3 / 2;
            near(floor(total("ds-zero3", with, 1)), (double)cpu);
        }
    }
}

/* What DeepSpeed allocates, tensor by tensor, for the tensors of nano. */
static void deepspeed_allocations(void **state)
{
    (void)state;
    static const char *const sets[] = {"topology.ranks=6", "zero_optimization.stage=0", "bf16.enabled=true"};
    struct config config = config_of(sets, 3);
    struct model model;
    struct error err;
    assert_int_equal(model_of(&model, &config, &err), 0);
    int64_t shards = 0, flat = 0, small = 0, largest = 0;
    for (int u = 0; u < model.unit_count; u++)
        for (int t = 0; t < model.units[u].tensor_count; t++) {
            const struct tensor *tensor = &model.units[u].tensors[t];
            const int bias = u > 0 && tensor->columns > 1; /* nano's linear layers */
            flat += tensor->elems;
            shards += tensor->elems / 6 + (tensor->elems % 6 > 0);
            if (tensor->elems <= 5000) small += tensor->elems;
            largest = most(largest, tensor->elems + bias * tensor->rows);
        }
    int64_t padded = flat;
    while (padded % 12) padded++;
    cJSON *answer = answer_of("ds-allocated", &config, "stage=0,persistent=77");
    near(sum_of(answer, 0, "accounting"), (double)((2 + 2 + 4 + 4 + 8 + 2) * flat)); /* with one bucket of all */
    near(sum_of(answer, 1, "accounting") + 1, 1);
    cJSON_Delete(answer);
    answer = answer_of("ds-allocated", &config, "stage=2,overlap=1,bucket=40000,persistent=77");
    near(sum_of(answer, 0, "accounting"), (double)(2 * padded + (2 + 4 + 4 + 8) * padded / 6 + 2 * 2 * 40000));
    cJSON_Delete(answer);
    answer = answer_of("ds-allocated", &config, "stage=1,overlap=0,bucket=40000,offload=1");
    near(sum_of(answer, 0, "accounting"), (double)(2 * padded + 2 * flat + 2 * largest + 2 * 40000));
    near(sum_of(answer, 1, "accounting"), (double)(16 * padded / 6 + 2 * largest));
    cJSON_Delete(answer);
    answer = answer_of("ds-allocated", &config, "stage=3,bucket=40000,prefetch=1000,reuse=0,sub_group=1000");
    near(sum_of(answer, 0, "accounting"),
         (double)(2 * shards + 2 * (largest + 1000) + 2 * shards + 4 * 1000 + 12 * shards + 2 * 40000));
    cJSON_Delete(answer);
    answer = answer_of("ds-allocated", &config, "stage=3,bucket=40000,reuse=1e9,offload=1,offload_param=1");
    near(sum_of(answer, 0, "accounting"), (double)(2 * flat + 2 * 40000));
    near(sum_of(answer, 1, "accounting"), (double)(20 * shards));
    cJSON_Delete(answer);
    static const char *const persistent[] = {"zero_optimization.stage=3",
                                             "zero_optimization.stage3_param_persistence_threshold=5000"};
    config_release(&config);
    config = config_of(persistent, 2);
    answer = answer_of("ds-allocated", &config, NULL);
    near(line_of(answer, 0, "small tensors", "accounting"), (double)(2 * small));
    assert_true(small > 0);
    cJSON_Delete(answer);
    model_release(&model);
    config_release(&config);
}

/* ---- ZeRO ---- */

/* Bytes of one rank, parameter by parameter: what is cut has one owner among N. */
static void zero_states(void **state)
{
    (void)state;
    enum { PSI = 5040 };
    char with[80];
    for (int N = 1; N <= 6; N++)
        for (int mp = 1; mp <= 2; mp++)
            for (int stage = 0; stage < 4; stage++) {
                int64_t bytes = 0;
                for (int p = 0; p < PSI; p += mp) {
                    const bool own = p / mp % N == 0;
                    bytes += stage < 3 || own ? 2 : 0;
                    bytes += stage < 2 || own ? 2 : 0;
                    bytes += stage < 1 || own ? 12 : 0;
                }
                snprintf(with, sizeof with, "psi=%d,N=%d,tp=%d,stage=%d", PSI, N, mp, stage);
                near(total("zero-states", with, 0), (double)bytes);
                /* and back: a memory of so many bytes holds that many parameters */
                char label[16];
                snprintf(with, sizeof with, "memory=%lld,N=%d,tp=%d", (long long)bytes, N, mp);
                snprintf(label, sizeof label, "stage %d", stage);
                near(figure("zero-largest", with, 0, label), PSI);
            }
    near(total("zero-states", "psi=960,N=8,stage=3,hpz=4", 0), 16 * 960 / 8 + 2 * 960 / 4);
}

/* A ring: each of N ranks holds a part of N; in N - 1 rounds it sends one part on. An all-reduce is two rings. */
static int64_t ring(int64_t bytes, int N)
{
    int64_t sent = 0;
    for (int round = 1; round < N; round++) sent += bytes / N;
    return sent;
}

static void zero_volume(void **state)
{
    (void)state;
    char with[80];
    for (int N = 2; N <= 8; N *= 2)
        for (int m = 1; m <= 3; m++) {
            const int64_t M = 2 * 8000, one = ring(M, N), all[] = {2 * one, 2 * one, m * one + one, 3 * m * one};
            for (int stage = 0; stage < 4; stage++) {
                snprintf(with, sizeof with, "psi=8000,e=2,N=%d,m=%d,stage=%d", N, m, stage);
                near(total("zero-volume", with, 0), (double)all[stage]);
            }
        }
}

/* ---- ZeRO-Infinity ---- */

static void infinity(void **state)
{
    (void)state;
    const char *const with = "L=14,h=96,a=6,b=5,s=33,ci=2";
    const int64_t L = 14, h = 96, a = 6, b = 5, s = 33;
    int64_t matrices = 0, layer = 0;
    for (int l = 0; l < L; l++) matrices += 3 * h * h + h * h + 4 * h * h + 4 * h * h;
    near(figure("inf-memory", with, 0, "parameters"), (double)matrices);
    near(figure("inf-memory", with, 0, "model states"), (double)(matrices * (2 + 2 + 4 + 4 + 4 + 4)));
    int64_t checkpoints = 0;
    for (int l = 0; l < L; l += 2) checkpoints += 2 * b * s * h;
    near(figure("inf-memory", with, 1, "checkpoints"), (double)checkpoints);
    layer = 16 * b * s * h + 2 * b * a * s * s;
    near(figure("inf-memory", with, 1, "without"), (double)(L * layer));
    near(figure("inf-memory", with, 2, "MSWM"), (double)(h * 4 * h * (2 + 2)));
    near(figure("inf-memory", with, 2, "AWM"), (double)(2 * layer));
    /* FLOP over bytes, both counted for psi parameters: 3 loads and 1 store of 2 bytes; 16 bytes read and written; a checkpoint
     * written and read */
    const int64_t psi = matrices, flop = 2 * psi * b * s * (1 + 2 + 1);
    const char *const rates = "h=96,b=5,s=33,ci=2,psi=1548288,bw=3e9,peak=7e12,efficiency=0.8";
    assert_int_equal(psi, 1548288);
    const double bytes[] = {2. * psi * (3 + 1), 16. * psi * 2, 2. * (double)checkpoints};
    static const char *const of[] = {"parameters", "optimizer", "checkpoints"};
    for (int k = 0; k < 3; k++) {
        const double compute = (double)flop / 7e12, move = bytes[k] / 3e9; /* one after the other */
        near(figure("inf-efficiency", rates, 0, of[k]), (double)flop / bytes[k]);
        near(figure("inf-efficiency", rates, 1, of[k]), compute / (compute + move));
        const double bw = figure("inf-efficiency", rates, 2, of[k]);
        near(compute / (compute + bytes[k] / bw), 0.8);
    }
    near(figure("inf-efficiency", rates, 3, "FLOP"), (double)flop);
}

/* ---- Megatron ---- */

static void megatron_parameters_and_flops(void **state)
{
    (void)state;
    const int64_t L = 3, h = 40, V = 77, s = 12, b = 5, m = 2, heads = 4, d = h / heads;
    int64_t weights = 0, vectors = 0, forward = 0, scores = 0;
    static const int linear[4][2] = {{3, 1}, {1, 1}, {4, 1}, {1, 4}}; /* out, in; in h */
    for (int l = 0; l < L; l++) {
        vectors += 2 * 2 * h; /* two norms */
        for (int k = 0; k < 4; k++) {
            weights += linear[k][0] * h * linear[k][1] * h;
            vectors += linear[k][0] * h;
            forward += 2 * m * b * s * linear[k][0] * h * linear[k][1] * h;
        }
        for (int head = 0; head < heads; head++) scores += m * b * (2 * s * s * d + 2 * s * d * s);
    }
    const int64_t logits = 2 * m * b * s * h * V;
    cJSON *answer = asked("megatron-parameters", "L=3,h=40,V=77,s=12");
    near(sum_of(answer, 0, "accounting"), (double)(weights + vectors + V * h + s * h));
    near(sum_of(answer, 0, "accounting"), 12. * L * h * h * (1 + 13. / (12 * h) + (double)(V + s) / (12 * L * h)));
    cJSON_Delete(answer);
    const char *const with = "L=3,h=40,V=77,s=12,b=5,m=2";
    answer = asked("megatron-flops", with);
    const int64_t sums[] = {3 * (forward + scores + logits), 3 * (forward + logits) + 2 * 3 * scores,
                            4 * (forward + scores) + 3 * logits, 3 * (forward + scores / 2 + logits)};
    assert_int_equal(cases_of(answer), 4);
    for (int c = 0; c < 4; c++) near(case_sum(answer, c, 0), (double)sums[c]);
    /* Narayanan's and Korthikanti's closed forms */
    near(case_sum(answer, 2, 0), 96. * m * b * s * L * h * h * (1 + s / (6. * h) + V / (16. * L * h)));
    near(case_sum(answer, 1, 0), 72. * m * b * s * L * h * h * (1 + s / (3. * h) + V / (12. * L * h)));
    cJSON_Delete(answer);
}

/* The tensors that a layer keeps, each with what divides it. */
static void megatron_activations(void **state)
{
    (void)state;
    const int64_t s = 24, b = 3, h = 80, a = 8, L = 6, V = 130;
    enum spread { REPLICATED, SPLIT };
    const struct {
        int64_t bytes;
        enum spread spread;
        bool scores;
    } kept[] = {
        {2 * s * b * h, REPLICATED, false}, /* input of the first norm */
        {2 * s * b * h, REPLICATED, false}, /* input of q, k, v */
        {4 * s * b * h, SPLIT, false},      /* q and k */
        {2 * a * s * s * b, SPLIT, true},   /* softmax */
        {a * s * s * b, SPLIT, true},       /* its mask */
        {2 * a * s * s * b, SPLIT, true},   /* its dropout */
        {2 * s * b * h, SPLIT, false},      /* v */
        {2 * s * b * h, SPLIT, false},      /* input of the projection */
        {s * b * h, REPLICATED, false},     /* mask */
        {2 * s * b * h, REPLICATED, false}, /* input of the second norm */
        {2 * s * b * h, REPLICATED, false}, /* input of the MLP */
        {8 * s * b * h, SPLIT, false},      /* before and ... */
        {8 * s * b * h, SPLIT, false},      /* ... behind GELU */
        {s * b * h, REPLICATED, false},     /* mask */
    };
    char with[100];
    for (int t = 1; t <= 8; t *= 2) {
        int64_t sum[6] = {[5] = L * 2 * s * b * h};
        for (int c = 0; c < 5; c++)
            for (size_t k = 0; k < sizeof kept / sizeof *kept; k++) {
                const bool tensor = c > 0, sequence = c == 2 || c == 4, selective = c >= 3;
                if (selective && kept[k].scores) continue;
                sum[c] += L * kept[k].bytes / (tensor && (kept[k].spread == SPLIT || sequence) ? t : 1);
            }
        snprintf(with, sizeof with, "L=6,h=80,a=8,b=3,s=24,V=130,tp=%d", t);
        cJSON *answer = asked("megatron-activations", with);
        assert_int_equal(cases_of(answer), 6);
        for (int c = 0; c < 6; c++) near(case_sum(answer, c, 0), (double)sum[c]);
        /* mask of the input; last norm and projection in 16 bits, logits in fp32 */
        near(case_sum(answer, 2, 1), (double)(s * b * h / t + (2 * s * b * h + 2 * s * b * h + 4 * s * b * V) / t));
        cJSON_Delete(answer);
    }
    near(total("megatron-activations", "L=6,h=80,a=8,b=3,s=24,V=130,pp=3,m=5", 1),
         (double)(s * b * h * 3)); /* the first stage */
}

/* A pipeline, slot by slot: forward of micro-batch j on stage i follows stage i - 1's and the stage's own of j - 1; backward the
 * other way round. Chunks of an interleaved one: a stage's slot is 1/v as long, and a micro-batch passes the stages v times. */
static int64_t slots(int p, int m)
{
    int64_t end[64] = {0}, last = 0;
    for (int j = 0; j < m; j++)
        for (int i = 0; i < p; i++) end[i] = most(end[i], i ? end[i - 1] : 0) + 1;
    last = end[p - 1];
    for (int i = 0; i < p; i++) end[i] = last;
    for (int j = 0; j < m; j++)
        for (int i = p - 1; i >= 0; i--) end[i] = most(end[i], i < p - 1 ? end[i + 1] : 0) + 1;
    return end[0];
}

static void pipelines(void **state)
{
    (void)state;
    char with[60];
    for (int p = 1; p <= 6; p++)
        for (int m = 1; m <= 9; m += 2) {
            const double bubble = (double)(slots(p, m) - 2 * m);
            snprintf(with, sizeof with, "pp=%d,m=%d,v=2", p, m);
            near(figure("pipeline-bubble", with, 0, "GPipe"), bubble / (2 * m));
            near(figure("pipeline-bubble", with, 1, "GPipe"), bubble / (double)slots(p, m));
            near(figure("pipeline-bubble", with, 0, "interleaved"), bubble / 2 / (2 * m));
            near(figure("pipeline-bubble", with, 1, "interleaved"), bubble / 2 / (2 * m + bubble / 2));
            near(figure("pipeline-bubble", with, 2, "1F1B"), m < p ? m : p);
            near(figure("pipeline-bubble", with, 2, "GPipe"), m);
        }
}

/* ---- communication ---- */

/* Bytes that a rank sends to another node, and within its own, when each rank sends its part of M to every other. */
static void direct(int64_t M, int N, int n, int64_t *out, int64_t *in)
{
    *out = *in = 0;
    for (int to = 1; to < N; to++) *(to / n ? out : in) += M / N;
}

static void zeropp(void **state)
{
    (void)state;
    enum { M = 2 * 9600, N = 12, n = 4, m = 3 };
    int64_t out, in, inside = 0;
    direct(M, N, n, &out, &in);
    for (int to = 1; to < n; to++) inside += M / n;
    const char *const with = "psi=9600,e=2,N=12,n=4,m=3";
    cJSON *answer = asked("zeropp-volume", with);
    const double between[] = {3. * m * out,  2.5 * m * out,  2. * m * out,
                              out + m * out, 2.25 * m * out, 0.5 * out + 0.25 * m * out};
    const double within[] = {3. * m * in,
                             2.5 * m * in,
                             2. * m * in,
                             in + (2 * m - 1) * inside + m * in,
                             2. * m * in + 0.25 * m * inside,
                             0.5 * in + 0.5 * (2 * m - 1) * inside + 0.25 * m * inside};
    assert_int_equal(cases_of(answer), 6);
    for (int c = 0; c < 6; c++) near(case_sum(answer, c, 0), between[c]), near(case_sum(answer, c, 1), within[c]);
    cJSON_Delete(answer);
    near(total("hybrid-volume", "psi=9600,e=2,N=12,F=4,m=1,stage=2", 0), (double)(2 * ring(M, 4)));
    answer = asked("hybrid-volume", "psi=9600,e=2,N=12,n=4,m=1,stage=3");
    assert_int_equal(cases_of(answer), 3);
    for (int c = 0; c < 3; c++) {
        const int F = c == 0 ? 1 : c == 1 ? 4 : 12;
        near(case_sum(answer, c, 0), (double)(3 * ring(M, F)));
        near(case_sum(answer, c, 1), (double)(2 * ring(M / F, N / F)));
    }
    cJSON_Delete(answer);
}

/* Rings of N ranks on links of B bytes a second: what is sent in all rounds, and the time of it. */
static void bus_bandwidth(void **state)
{
    (void)state;
    static const char *const names[] = {"all-reduce", "all-gather", "broadcast"};
    char with[100];
    for (int N = 2; N <= 9; N++) {
        const double B = 11e9, S = 5040e3;
        const double seconds[] = {2 * (double)ring(5040000, N) / B, (double)ring(5040000, N) / B, S / B};
        for (int k = 0; k < 3; k++) {
            snprintf(with, sizeof with, "N=%d,size=%.17g,seconds=%.17g", N, S, seconds[k]);
            near(figure("busbw", with, 1, names[k]), B);
            near(figure("busbw", with, 0, names[k]), B / (S / seconds[k]));
            snprintf(with, sizeof with, "N=%d,busbw=%.17g,size=%.17g", N, B, S);
            near(figure("busbw", with, 2, names[k]), S / seconds[k]);
            near(figure("busbw", with, 3, names[k]), seconds[k]);
            assert_true(isnan(figure("busbw", with, 1, names[k])));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formulas_are_read),
        cmocka_unit_test(rows_are_sound),
        cmocka_unit_test(cases_are_other_quantities),
        cmocka_unit_test(deepspeed_estimators),
        cmocka_unit_test(deepspeed_allocations),
        cmocka_unit_test(zero_states),
        cmocka_unit_test(zero_volume),
        cmocka_unit_test(infinity),
        cmocka_unit_test(megatron_parameters_and_flops),
        cmocka_unit_test(megatron_activations),
        cmocka_unit_test(pipelines),
        cmocka_unit_test(zeropp),
        cmocka_unit_test(bus_bandwidth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
