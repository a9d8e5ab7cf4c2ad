/* Two analyses side by side: the keys that were configured differently, then matching sections, held against each other figure
 * by figure: those of the JSON that have a label. Bytes, counts and what was planned are exact, and decide whether the traces are
 * equal; times, waits, losses and measured peaks are shown. */
#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/advise/analysis.h"
#include "engine/base/grouped.h"
#include "engine/base/json.h"
#include "engine/config/keys.h"

/* ---- a figure ---- */

/* Whether it is the same in equal runs. */
static bool figure_is_exact(const struct figure *figure)
{
    return figure->unit <= FIGURE_BYTES && figure->source != FIGURE_MEASURED;
}

static bool figure_same(const struct figure *one, const struct figure *other)
{
    if (one->known != other->known) return false;
    return !one->known || fabs(one->value - other->value) <= 1e-9 * fabs(one->value);
}

/* Units in differences, how much of the figure's own is one, and how it is written. Whole counts have no places. */
static const struct measure {
    const char *name;
    double size;
    int places;
    const char *behind;
} units[] = {
    [FIGURE_STAGE] = {"stage", 1, 0, ""},  [FIGURE_COUNT] = {"count", 1, 2, ""},   [FIGURE_BYTES] = {"bytes", 1, 0, ""},
    [FIGURE_TIME] = {"ms", 1e6, 3, " ms"}, [FIGURE_SHARE] = {"share", 1, 1, " %"}, [FIGURE_RATE] = {"MB/s", 1e6, 1, ""},
    [FIGURE_LOSS] = {"nats", 1, 4, ""}};

static double figure_in_unit(const struct figure *figure)
{
    return figure->value / units[figure->unit].size;
}

/* A figure as "12.3 %"; "n/a": not known. */
static const char *figure_show(char out[32], const struct figure *figure)
{
    const struct measure *unit = &units[figure->unit];
    const double value = figure_in_unit(figure) * (figure->unit == FIGURE_SHARE ? 100 : 1);
    const bool whole = figure->unit == FIGURE_COUNT && value == rint(value);
    if (!figure->known) return "n/a";
    if (figure->unit == FIGURE_BYTES) return grouped(out, llround(value));
    snprintf(out, 32, "%.*f%s", whole ? 0 : unit->places, value, unit->behind);
    return out;
}

/* ---- sections ---- */

/* Both from their ends, whichever is further on going back. */
static void find_loss(struct analysis_pair *pair)
{
    const struct analysis_section *left = pair->side[0], *right = pair->side[1];
    if (!left || !right) return;
    for (int l = left->loss_count, r = right->loss_count; l && r;) {
        const struct analysis_loss *in_left = &left->losses[l - 1], *in_right = &right->losses[r - 1];
        if (in_left->step > in_right->step || isnan(in_left->loss)) l--;
        else if (in_left->step < in_right->step || isnan(in_right->loss)) r--;
        else {
            *pair = (struct analysis_pair){{left, right}, in_left->step, {in_left->loss, in_right->loss}};
            return;
        }
    }
}

/* The first section of B that none of A's has yet, of the same stage and ranks if `only_alike`; -1: none. */
static int partner(const struct analysis_section *of, const struct analysis *right, const bool *taken, bool only_alike)
{
    for (int i = 0; i < right->section_count; i++) {
        const bool alike = of->stage == right->sections[i].stage && of->ranks == right->sections[i].ranks;
        if (!taken[i] && (alike || !only_alike)) return i;
    }
    return -1;
}

int analysis_pairs(struct analysis_pair **pairs, const struct analysis *left, const struct analysis *right)
{
    const int lefts = left->section_count, rights = right->section_count;
    bool *taken = calloc((size_t)rights + 1, sizeof *taken);
    struct analysis_pair *list = *pairs = calloc((size_t)(lefts + rights) + 1, sizeof *list);
    int count = 0;
    if (!taken || !list) return free(taken), -1;
    for (int l = 0; l < lefts; l++) list[count++].side[0] = &left->sections[l];
    for (int pass = 0; pass < 2; pass++)
        for (int l = 0; l < lefts; l++) {
            const int r = list[l].side[1] ? -1 : partner(list[l].side[0], right, taken, pass == 0);
            if (r >= 0) list[l].side[1] = &right->sections[r], taken[r] = true;
        }
    for (int r = 0; r < rights; r++)
        if (!taken[r]) list[count++].side[1] = &right->sections[r];
    for (int i = 0; i < count; i++) find_loss(&list[i]);
    free(taken);
    return count;
}

static uint32_t last_step_of(const struct analysis *analysis)
{
    uint32_t last = 0;
    for (int s = 0; s < analysis->section_count; s++)
        if (analysis->sections[s].last_step > last) last = analysis->sections[s].last_step;
    return last;
}

static void note_losses(struct analysis_losses *by_step, uint32_t last, const struct analysis *analysis, int side)
{
    for (int s = 0; s < analysis->section_count; s++)
        for (int i = 0; i < analysis->sections[s].loss_count; i++) {
            const struct analysis_loss *of = &analysis->sections[s].losses[i];
            if (of->step <= last) *(side ? &by_step[of->step].b : &by_step[of->step].a) = of->loss;
        }
}

int analysis_losses(struct analysis_losses **losses, const struct analysis *left, const struct analysis *right)
{
    const uint32_t lefts = last_step_of(left), rights = last_step_of(right), last = lefts < rights ? lefts : rights;
    struct analysis_losses *by_step = *losses = malloc(((size_t)last + 1) * sizeof *by_step);
    int count = 0;
    if (!by_step) return -1;
    for (uint32_t step = 0; step <= last; step++) by_step[step] = (struct analysis_losses){step, NAN, NAN, 0};
    note_losses(by_step, last, left, 0);
    note_losses(by_step, last, right, 1);
    for (uint32_t step = 0; step <= last; step++) {
        struct analysis_losses of = by_step[step];
        of.relative = ((double)of.b - (double)of.a) / fabs((double)of.a);
        if (!isnan(of.a) && !isnan(of.b)) by_step[count++] = of;
    }
    return count;
}

/* ---- keys ---- */

static bool load(struct config *config, const struct analysis *analysis)
{
    const char *json = analysis->model->header.config_json;
    return json && config_load_text(config, json, NULL, 0, NULL) == STATUS_OK;
}

/* Those whose values at the start differ; null: a trace does not hold its configuration. */
static void add_keys(cJSON *facts, const struct analysis *left, const struct analysis *right)
{
    struct config a = {0}, b = {0};
    char in_left[80], in_right[80];
    const bool known = load(&a, left) && load(&b, right);
    cJSON *list = known ? cJSON_AddArrayToObject(facts, "configured") : cJSON_AddNullToObject(facts, "configured");
    for (int k = 0; known && k < config_key_count; k++)
        if (key_differs(&config_keys[k], &a, &b, in_left, in_right, sizeof in_left))
            json_put(json_item(list), TEXT("key", config_keys[k].path), TEXT("a", in_left), TEXT("b", in_right));
    json_put(facts, TRUTH(".alike", known && cJSON_GetArraySize(list) == 0));
    config_release(&a);
    config_release(&b);
}

/* ---- both ---- */

struct both {
    struct figures left, right;
}; /* figure i of one is figure i of the other */

/* One side of a pair; of a section that a trace does not have every figure is unknown. */
static void read_side(struct figures *figures, const struct analysis_pair *pair, int side)
{
    static const struct analysis_section none;
    *figures = (struct figures){0};
    analysis_put_section(figures, pair->side[side] ? pair->side[side] : &none, pair->loss_step, pair->loss[side]);
}

static bool read_both(struct both *both, const struct analysis_pair *pair)
{
    bool equal = true;
    read_side(&both->left, pair, 0);
    read_side(&both->right, pair, 1);
    for (int i = 0; i < both->left.count; i++)
        if (figure_is_exact(&both->left.at[i])) equal &= figure_same(&both->left.at[i], &both->right.at[i]);
    return equal;
}

static bool worth_saying(const struct figure *left, const struct figure *right)
{
    return left->unit == FIGURE_STAGE || (left->known && left->value != 0) || (right->known && right->value != 0);
}

/* ---- the figures that a screen highlights ---- */

/* Zeroes: there is no pair. */
static struct analysis_pair pair_at(const struct analysis *left, const struct analysis *right, uint32_t step)
{
    struct analysis_pair *pairs, chosen = {0};
    const int count = analysis_pairs(&pairs, left, right);
    for (int i = 0; i < count; i++) {
        const struct analysis_section *section = pairs[i].side[0];
        if (i == 0 || (section && section->first_step <= step && step <= section->last_step)) chosen = pairs[i];
    }
    free(pairs);
    return chosen;
}

int analysis_differences(struct analysis_difference *out, int room, struct analysis_pair *pair,
                         const struct analysis *left, const struct analysis *right, uint32_t step)
{
    static const char *const shown[] = {"device: parameters at peak",
                                        "device: gradients at peak",
                                        "device: optimizer at peak",
                                        "device: peak",
                                        "step",
                                        "exposed",
                                        "*: sent",
                                        "gathers *",
                                        "device: [abtw]* at peak",
                                        "device: gathered at peak",
                                        "host: peak",
                                        "nvme: peak"};
    struct both both;
    int count = 0;
    *pair = pair_at(left, right, step);
    if (!pair->side[0] || !pair->side[1]) return 0;
    read_both(&both, pair);
    for (size_t s = 0; s < sizeof shown / sizeof *shown; s++)
        for (int i = 0; i < both.left.count && count < room; i++) {
            const struct figure *a = &both.left.at[i], *b = &both.right.at[i];
            char text[2][32];
            if (fnmatch(shown[s], a->label, 0) || figure_same(a, b) || !worth_saying(a, b)) continue;
            struct analysis_difference *row = &out[count++];
            memcpy(row->label, a->label, sizeof row->label);
            snprintf(row->value[0], sizeof row->value[0], "%s", figure_show(text[0], a));
            snprintf(row->value[1], sizeof row->value[1], "%s", figure_show(text[1], b));
        }
    return count;
}

/* ---- as JSON and as text ---- */

/* Measured peaks depend on how the lanes met, so they alone do not make two traces unequal. */
static char sign_of(const struct figure *left, const struct figure *right)
{
    if (figure_same(left, right)) return ' ';
    return figure_is_exact(left) ? '!' : left->unit == FIGURE_BYTES ? '~' : ' ';
}

static void add_row(cJSON *row, const struct figure *left, const struct figure *right)
{
    char a[32], b[32], c[32];
    struct figure difference = *left;
    difference.known = left->known && right->known;
    difference.value = right->value - left->value;
    json_put(row, TEXT("figure", left->label), TEXT("unit", units[left->unit].name),
             NUMBER_IF("a", left->known, figure_in_unit(left)), NUMBER_IF("b", right->known, figure_in_unit(right)),
             TRUTH("exact", figure_is_exact(left)), TRUTH("equal", figure_same(left, right)),
             TEXT(".a", figure_show(a, left)), TEXT(".b", figure_show(b, right)),
             TEXT(".sign", ((char[2]){sign_of(left, right)})),
             TEXT(".difference", difference.known && figure_same(left, right) ? "=" : figure_show(c, &difference)));
}

static void add_run(cJSON *run, const char *side, const struct analysis *analysis)
{
    const struct run_header *header = &analysis->model->header;
    json_put(run, TEXT("side", side), TEXT("path", analysis->path), TEXT("model", header->model_name),
             NUMBER_IF("parameters", header->parameters > 0, header->parameters), TEXT("precision", header->precision),
             NUMBER_IF("ranks", header->ranks > 0, header->ranks));
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

static void add_losses(cJSON *out, const struct analysis *left, const struct analysis *right)
{
    struct analysis_losses *losses;
    const int count = analysis_losses(&losses, left, right);
    cJSON *list = cJSON_AddArrayToObject(out, "losses");
    for (int i = 0; i < count; i++)
        json_put(json_item(list), NUMBER("step", losses[i].step), NUMBER("a", losses[i].a), NUMBER("b", losses[i].b),
                 NUMBER("difference", (double)losses[i].b - (double)losses[i].a),
                 NUMBER_IF("relative", isfinite(losses[i].relative), losses[i].relative));
    free(losses);
}

cJSON *analysis_diff_facts(const struct analysis *left, const struct analysis *right, bool *equal)
{
    struct analysis_pair *pairs;
    const int count = analysis_pairs(&pairs, left, right);
    cJSON *facts = json_object(NUMBER("version", 1), TEXT("a", left->path), TEXT("b", right->path));
    cJSON *runs = cJSON_AddArrayToObject(facts, ".runs");
    add_run(json_item(runs), "A", left);
    add_run(json_item(runs), "B", right);
    add_keys(facts, left, right);
    cJSON *list = cJSON_AddArrayToObject(facts, "sections");
    *equal = count >= 0;
    for (int i = 0; i < count; i++) cJSON_AddItemToArray(list, pair_rows(&pairs[i], equal));
    free(pairs);
    add_losses(facts, left, right);
    cJSON_AddBoolToObject(facts, "equal", *equal);
    return facts;
}

const char analysis_diff_page[] =
    "{#.runs}{side}: {path}: {model|unnamed model}{?parameters}, {parameters:,} parameters{/}{?precision}, {precision}{/}"
    "{?ranks}, {ranks} rank{ranks:s}{/}\n{/}"
    "{?.alike}\nconfigured alike\n{/}{!.alike}{!configured}\nwhat was configured differently is not known\n{/}{/}"
    "{?configured}\n  configured differently                                       A               B\n{/}"
    "{#configured}  {key:-46} {a:15|none} {b:15|none}\n{/}"
    "\nof a mean rank and step; !: planned or sent bytes, or counts, that differ; ~: measured peaks that do\n"
    "{#sections}\n                                             A               B            B - A\n"
    "{#}  {figure:-28} {.a:15} {.b:15}  {.sign}{.difference:14}\n{/}{/}"
    "\n{?equal}all bytes and counts are equal{/}{!equal}bytes or counts differ{/}\n";
