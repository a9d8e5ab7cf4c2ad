/* Two analyses side by side: both are flattened into the same list of named figures. Bytes, counts and what was planned are
 * exact, and decide whether the traces are equal; times, waits and losses are shown. So are measured peaks: within what was
 * planned they depend on how the lanes met. */
#include <cjson/cJSON.h>
#include <math.h>
#include <stdarg.h>

#include "engine/analyze/analysis.h"
#include "engine/base/grouped.h"

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
    put(figures, FIGURE_LOSS, false, any, (double)section->last_loss, "last loss");
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

/* A section that a trace does not have: every figure of it is unknown. */
static void flatten(struct figures *figures, const struct analysis *analysis, int number)
{
    static const struct analysis_section none;
    const struct analysis_section *section = number < analysis->section_count ? &analysis->sections[number] : &none;
    struct totals sum;
    double parts = analysis_sum(&sum, section, -1);
    figures->count = 0;
    put_section(figures, section);
    put_time(figures, &sum, parts);
    put_traffic(figures, &sum, parts);
    put_memory(figures, section);
}

/* ---- both ---- */

struct pair {
    struct figures left, right;
}; /* figure i of one is figure i of the other */

static int pairs(const struct analysis *left, const struct analysis *right)
{
    return left->section_count > right->section_count ? left->section_count : right->section_count;
}

static bool same(const struct figure *left, const struct figure *right)
{
    if (left->known != right->known) return false;
    return !left->known || fabs(left->value - right->value) <= 1e-9 * fabs(left->value);
}

static bool pair_of(struct pair *pair, const struct analysis *left, const struct analysis *right, int number)
{
    bool equal = true;
    flatten(&pair->left, left, number);
    flatten(&pair->right, right, number);
    for (int i = 0; i < pair->left.count; i++)
        if (pair->left.at[i].exact) equal &= same(&pair->left.at[i], &pair->right.at[i]);
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

static void print_row(FILE *out, const struct figure *left, const struct figure *right)
{
    char a[32], b[32], c[32];
    bool both = left->known && right->known;
    const char *difference = value_text(c, left->kind, both, right->value - left->value);
    fprintf(out, "  %-28s %15s %15s  %c%14s\n", left->name, value_text(a, left->kind, left->known, left->value),
            value_text(b, right->kind, right->known, right->value), left->exact && !same(left, right) ? '!' : ' ',
            both && same(left, right) ? "=" : difference);
}

bool analysis_diff_print(const struct analysis *left, const struct analysis *right, FILE *out)
{
    bool equal = true;
    fprintf(out, "A: %s\nB: %s\nof a mean rank and step; !: bytes or counts that differ\n", left->path, right->path);
    for (int number = 0; number < pairs(left, right); number++) {
        struct pair pair;
        equal &= pair_of(&pair, left, right, number);
        fprintf(out, "\n  %-28s %15s %15s  %15s\n", "", "A", "B", "B - A");
        for (int i = 0; i < pair.left.count; i++)
            if (worth_saying(&pair.left.at[i], &pair.right.at[i])) print_row(out, &pair.left.at[i], &pair.right.at[i]);
    }
    fprintf(out, "\n%s\n", equal ? "all bytes and counts are equal" : "bytes or counts differ");
    return equal;
}

/* ---- JSON ---- */

static void add_value(cJSON *object, const char *key, const struct figure *figure)
{
    if (figure->known) cJSON_AddNumberToObject(object, key, figure->value);
    else cJSON_AddNullToObject(object, key);
}

static cJSON *row_object(const struct figure *left, const struct figure *right)
{
    static const char *const units[] = {"stage", "count", "bytes", "ms", "share", "MB/s", "nats"};
    cJSON *row = cJSON_CreateObject();
    cJSON_AddStringToObject(row, "figure", left->name);
    cJSON_AddStringToObject(row, "unit", units[left->kind]);
    add_value(row, "a", left);
    add_value(row, "b", right);
    cJSON_AddBoolToObject(row, "exact", left->exact);
    cJSON_AddBoolToObject(row, "equal", same(left, right));
    return row;
}

char *analysis_diff_json(const struct analysis *left, const struct analysis *right, bool *equal)
{
    cJSON *out = cJSON_CreateObject();
    cJSON_AddNumberToObject(out, "version", 1);
    cJSON_AddStringToObject(out, "a", left->path);
    cJSON_AddStringToObject(out, "b", right->path);
    cJSON *list = cJSON_AddArrayToObject(out, "sections");
    *equal = true;
    for (int number = 0; number < pairs(left, right); number++) {
        struct pair pair;
        *equal &= pair_of(&pair, left, right, number);
        cJSON *rows = cJSON_CreateArray();
        for (int i = 0; i < pair.left.count; i++)
            if (worth_saying(&pair.left.at[i], &pair.right.at[i]))
                cJSON_AddItemToArray(rows, row_object(&pair.left.at[i], &pair.right.at[i]));
        cJSON_AddItemToArray(list, rows);
    }
    cJSON_AddBoolToObject(out, "equal", *equal);
    char *text = cJSON_Print(out);
    cJSON_Delete(out);
    return text;
}
