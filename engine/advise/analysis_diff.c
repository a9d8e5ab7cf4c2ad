/* Two analyses side by side, below what was configured differently: sections that belong together (analysis_pairs.h) are
 * flattened into the same list of named figures. Bytes, counts and what was planned are exact, and decide whether the traces are
 * equal; times, waits and losses are shown. So are measured peaks: within what was planned they depend on how the lanes met. */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>

#include "engine/advise/analysis_pairs.h"
#include "engine/base/grouped.h"
#include "engine/base/json.h"

enum figure_kind { FIGURE_STAGE, FIGURE_COUNT, FIGURE_BYTES, FIGURE_MS, FIGURE_SHARE, FIGURE_RATE, FIGURE_LOSS };
struct figure {
    char name[48];
    enum figure_kind kind;
    bool exact, known;
    double value;
};

enum { FIGURES_MAX = 256 };
struct figures {
    struct figure at[FIGURES_MAX];
    int count;
};

__attribute__((format(printf, 6, 7))) static void put(struct figures *figures, enum figure_kind kind, bool exact,
                                                      bool known, double value, const char *name, ...)
{
    va_list args;
    if (figures->count == FIGURES_MAX) return;
    struct figure *figure = &figures->at[figures->count++];
    *figure = (struct figure){.kind = kind, .exact = exact, .known = known, .value = value};
    va_start(args, name);
    vsnprintf(figure->name, sizeof figure->name, name, args);
    va_end(args);
}

/* ---- the list ---- */

static void put_section(struct figures *figures, const struct analysis_section *section)
{
    bool any = section->steps > 0;
    double steps = any ? (double)section->steps : 1;
    put(figures, FIGURE_STAGE, true, section->ranks > 0, section->stage, "ZeRO stage");
    put(figures, FIGURE_COUNT, true, section->ranks > 0, section->ranks, "ranks");
    put(figures, FIGURE_COUNT, true, section->ranks > 0, (double)section->steps, "steps");
    put(figures, FIGURE_COUNT, true, any, (double)section->tokens / steps, "tokens a step");
    put(figures, FIGURE_MS, false, any, (double)section->total_ns / steps / 1e6, "step");
}

static void put_time(struct figures *figures, const struct totals *sum, double parts)
{
    const struct temporal *of = &sum->temporal;
    bool known = parts > 0, communicated = known && of->communication_ns > 0;
    put(figures, FIGURE_MS, false, known, (double)of->compute_ns / parts / 1e6, "compute");
    put(figures, FIGURE_MS, false, known, (double)of->communication_ns / parts / 1e6, "communication");
    put(figures, FIGURE_MS, false, known, (double)(of->communication_ns - of->overlapped_ns) / parts / 1e6, "exposed");
    put(figures, FIGURE_MS, false, known, (double)of->idle_ns / parts / 1e6, "idle");
    put(figures, FIGURE_SHARE, false, communicated, (double)of->overlapped_ns / (double)of->communication_ns,
        "overlap");
    for (int why = STALL_NONE + 1; why < STALLS; why++)
        put(figures, FIGURE_MS, false, known, (double)sum->stall_ns[why] / parts / 1e6, "waited: %s",
            stall_name((enum stall)why));
    put(figures, FIGURE_COUNT, true, known, (double)sum->prefetch.gathers / parts, "gathers");
    put(figures, FIGURE_COUNT, true, known, (double)sum->prefetch.prefetched / parts, "gathers ahead of need");
    put(figures, FIGURE_SHARE, false, sum->prefetch.busy_ns > 0, prefetch_hidden_share(&sum->prefetch),
        "gathers hidden");
}

static void put_traffic(struct figures *figures, const struct totals *sum, double parts)
{
    for (int kind = 0; kind < TRAFFIC_KINDS; kind++) {
        const struct collective_totals *of = &sum->traffic[kind];
        const char *name = traffic_name((enum traffic)kind);
        put(figures, FIGURE_COUNT, true, parts > 0, (double)of->count / parts, "%s: count", name);
        put(figures, FIGURE_BYTES, true, parts > 0, (double)of->bytes / parts, "%s: payload", name);
        put(figures, FIGURE_BYTES, true, parts > 0, (double)of->sent_bytes / parts, "%s: sent", name);
        put(figures, FIGURE_MS, false, parts > 0, (double)of->busy_ns / parts / 1e6, "%s: busy", name);
        put(figures, FIGURE_MS, false, parts > 0, (double)of->exposed_ns / parts / 1e6, "%s: exposed", name);
        put(figures, FIGURE_RATE, false, of->busbw > 0, of->busbw / 1e6, "%s: bus MB/s", name);
    }
}

static void put_memory(struct figures *figures, const struct analysis_section *section)
{
    for (int tier = 0; tier < TIERS; tier++) {
        const struct run_instant *fullest = NULL;
        for (int rank = 0; rank < section->ranks; rank++) {
            const struct run_instant *peak = &section->peak[rank][tier].instant;
            if (peak->known && (!fullest || peak->live_bytes > fullest->live_bytes)) fullest = peak;
        }
        const char *name = tier_name((enum tier)tier);
        put(figures, FIGURE_BYTES, true, section->tier[tier].known, (double)section->tier[tier].peak_bytes,
            "%s: planned peak", name);
        put(figures, FIGURE_BYTES, false, fullest, fullest ? (double)fullest->live_bytes : 0, "%s: peak", name);
        for (int category = 0; category < CATEGORIES; category++)
            put(figures, FIGURE_BYTES, false, fullest, fullest ? (double)fullest->held_bytes[category] : 0,
                "%s: %s at peak", name, category_name((enum category)category));
    }
}

/* One side of a pair; of a section that a trace does not have every figure is unknown. */
static void flatten(struct figures *figures, const struct analysis_pair *pair, int side)
{
    static const struct analysis_section none;
    const struct analysis_section *section = pair->side[side] ? pair->side[side] : &none;
    struct totals sum;
    double parts = analysis_sum(&sum, section, -1);
    figures->count = 0;
    put_section(figures, section);
    if (pair->loss_step)
        put(figures, FIGURE_LOSS, false, true, (double)pair->loss[side], "loss of step %u", pair->loss_step);
    put_time(figures, &sum, parts);
    put_traffic(figures, &sum, parts);
    put_memory(figures, section);
}

/* ---- both ---- */

struct both {
    struct figures left, right;
}; /* figure i of one is figure i of the other */

static bool same(const struct figure *left, const struct figure *right)
{
    if (left->known != right->known) return false;
    return !left->known || fabs(left->value - right->value) <= 1e-9 * fabs(left->value);
}

static bool read_both(struct both *both, const struct analysis_pair *pair)
{
    bool equal = true;
    flatten(&both->left, pair, 0);
    flatten(&both->right, pair, 1);
    for (int i = 0; i < both->left.count; i++)
        if (both->left.at[i].exact) equal &= same(&both->left.at[i], &both->right.at[i]);
    return equal;
}

static bool worth_saying(const struct figure *left, const struct figure *right)
{
    return left->kind == FIGURE_STAGE || (left->known && left->value != 0) || (right->known && right->value != 0);
}

/* ---- text ---- */

static const char *value_text(char out[32], enum figure_kind kind, bool known, double value)
{
    if (!known) return "n/a";
    switch (kind) {
    case FIGURE_STAGE: snprintf(out, 32, "%.0f", value); break;
    case FIGURE_BYTES: return grouped(out, llround(value));
    case FIGURE_COUNT: snprintf(out, 32, value == rint(value) ? "%.0f" : "%.2f", value); break;
    case FIGURE_MS: snprintf(out, 32, "%.3f ms", value); break;
    case FIGURE_SHARE: snprintf(out, 32, "%.1f %%", 100 * value); break;
    case FIGURE_RATE: snprintf(out, 32, "%.1f", value); break;
    case FIGURE_LOSS: snprintf(out, 32, "%.4f", value); break;
    }
    return out;
}

/* Measured peaks depend on how the lanes met, so they alone do not make two traces unequal. */
static char sign_of(const struct figure *left, const struct figure *right)
{
    if (same(left, right)) return ' ';
    return left->exact ? '!' : left->kind == FIGURE_BYTES ? '~' : ' ';
}

static void print_row(FILE *out, const struct figure *left, const struct figure *right)
{
    char a[32], b[32], c[32];
    bool both = left->known && right->known;
    const char *difference = value_text(c, left->kind, both, right->value - left->value);
    fprintf(out, "  %-28s %15s %15s  %c%14s\n", left->name, value_text(a, left->kind, left->known, left->value),
            value_text(b, right->kind, right->known, right->value), sign_of(left, right),
            both && same(left, right) ? "=" : difference);
}

static void print_run(FILE *out, char side, const struct analysis *analysis)
{
    const struct run_header *header = &analysis->model->header;
    char number[32];
    fprintf(out, "%c: %s: %s", side, analysis->path, header->model_name[0] ? header->model_name : "unnamed model");
    if (header->parameters > 0) fprintf(out, ", %s parameters", grouped(number, header->parameters));
    if (header->precision[0]) fprintf(out, ", %s", header->precision);
    if (header->ranks > 0) fprintf(out, ", %d rank%s", header->ranks, plural(header->ranks));
    fputc('\n', out);
}

static void print_keys(FILE *out, const struct analysis *left, const struct analysis *right)
{
    struct analysis_key *keys;
    const int count = analysis_keys(&keys, left, right);
    if (count < 0) fputs("\nwhat was configured differently is not known\n", out);
    else if (!count) fputs("\nconfigured alike\n", out);
    else fprintf(out, "\n  %-46s %15s %15s\n", "configured differently", "A", "B");
    for (int k = 0; k < count; k++)
        fprintf(out, "  %-46s %15s %15s\n", keys[k].path, keys[k].value[0][0] ? keys[k].value[0] : "none",
                keys[k].value[1][0] ? keys[k].value[1] : "none");
    free(keys);
}

static bool print_pair(FILE *out, const struct analysis_pair *pair)
{
    struct both both;
    const bool equal = read_both(&both, pair);
    fprintf(out, "\n  %-28s %15s %15s  %15s\n", "", "A", "B", "B - A");
    for (int i = 0; i < both.left.count; i++)
        if (worth_saying(&both.left.at[i], &both.right.at[i])) print_row(out, &both.left.at[i], &both.right.at[i]);
    return equal;
}

bool analysis_diff_print(const struct analysis *left, const struct analysis *right, FILE *out)
{
    struct analysis_pair *pairs;
    const int count = analysis_pairs(&pairs, left, right);
    bool equal = count >= 0;
    print_run(out, 'A', left);
    print_run(out, 'B', right);
    print_keys(out, left, right);
    fputs("\nof a mean rank and step; !: planned or sent bytes, or counts, that differ; ~: measured peaks that do\n",
          out);
    for (int i = 0; i < count; i++) equal &= print_pair(out, &pairs[i]);
    free(pairs);
    fprintf(out, "\n%s\n", equal ? "all bytes and counts are equal" : "bytes or counts differ");
    return equal;
}

/* ---- JSON ---- */

static void add_row(cJSON *row, const struct figure *left, const struct figure *right)
{
    static const char *const units[] = {"stage", "count", "bytes", "ms", "share", "MB/s", "nats"};
    cJSON_AddStringToObject(row, "figure", left->name);
    cJSON_AddStringToObject(row, "unit", units[left->kind]);
    json_number(row, "a", left->known, left->value);
    json_number(row, "b", right->known, right->value);
    cJSON_AddBoolToObject(row, "exact", left->exact);
    cJSON_AddBoolToObject(row, "equal", same(left, right));
}

static void add_keys(cJSON *out, const struct analysis *left, const struct analysis *right)
{
    struct analysis_key *keys;
    const int count = analysis_keys(&keys, left, right);
    cJSON *list = count < 0 ? cJSON_AddNullToObject(out, "configured") : cJSON_AddArrayToObject(out, "configured");
    for (int k = 0; k < count; k++) {
        cJSON *row = json_item(list);
        cJSON_AddStringToObject(row, "key", keys[k].path);
        cJSON_AddStringToObject(row, "a", keys[k].value[0]);
        cJSON_AddStringToObject(row, "b", keys[k].value[1]);
    }
    free(keys);
}

static cJSON *pair_rows(const struct analysis_pair *pair, bool *equal)
{
    struct both both;
    cJSON *rows = cJSON_CreateArray();
    *equal &= read_both(&both, pair);
    for (int i = 0; i < both.left.count; i++)
        if (worth_saying(&both.left.at[i], &both.right.at[i]))
            add_row(json_item(rows), &both.left.at[i], &both.right.at[i]);
    return rows;
}

char *analysis_diff_json(const struct analysis *left, const struct analysis *right, bool *equal)
{
    struct analysis_pair *pairs;
    const int count = analysis_pairs(&pairs, left, right);
    cJSON *out = cJSON_CreateObject();
    cJSON_AddNumberToObject(out, "version", 1);
    cJSON_AddStringToObject(out, "a", left->path);
    cJSON_AddStringToObject(out, "b", right->path);
    add_keys(out, left, right);
    cJSON *list = cJSON_AddArrayToObject(out, "sections");
    *equal = count >= 0;
    for (int i = 0; i < count; i++) cJSON_AddItemToArray(list, pair_rows(&pairs[i], equal));
    free(pairs);
    cJSON_AddBoolToObject(out, "equal", *equal);
    return json_lines(out);
}
