#include "engine/advise/accounting.h"

#include <math.h>
#include <string.h>

#include "engine/base/grouped.h"
#include "engine/base/json.h"
#include "engine/base/nearest.h"
#include "engine/base/words.h"

const struct accounting accounting_table[ACCOUNTINGS] = {
#define ACCOUNTING(ID, name, stages, who, why) {name, stages, who, why},
#define PART(ID, category, array, bytes, stages, cut)
#include "engine/advise/accountings.def"
#undef ACCOUNTING
#undef PART
};

static const struct accounting_part parts[] = {
#define ACCOUNTING(ID, name, stages, who, why)
#define PART(ID, category, array, bytes, stages, cut) {ACCOUNTING_##ID, CATEGORY_##category, array, bytes, stages, cut},
#include "engine/advise/accountings.def"
#undef ACCOUNTING
#undef PART
};
enum { PARTS = sizeof parts / sizeof *parts };

int accounting_find(const struct accounting **out, const char *name, struct error *err)
{
    const char *names[ACCOUNTINGS];
    for (int a = 0; a < ACCOUNTINGS; a++) {
        names[a] = accounting_table[a].name;
        if (strcmp(names[a], name) == 0) return *out = &accounting_table[a], STATUS_OK;
    }
    const char *nearest = nearest_name(name, names, ACCOUNTINGS);
    if (nearest) return error_set(err, STATUS_USAGE, "no accounting %.40s; did you mean %s?", name, nearest);
    return error_set(err, STATUS_USAGE, "no accounting %.40s; zerolab plan --accounting list shows them", name);
}

static bool is_of(const char *stages, int stage)
{
    return strchr(stages, '0' + stage) != NULL;
}

bool accounting_speaks_of(const struct accounting *accounting, int stage)
{
    return is_of(accounting->stages, stage);
}

/* Its next part that counts at this stage, after `part`; PARTS: there is none. Begin with -1. */
static int next_part(const struct accounting *accounting, int stage, int part)
{
    do part++;
    while (part < PARTS &&
           (&accounting_table[parts[part].accounting] != accounting || !is_of(parts[part].stages, stage)));
    return part;
}

struct accounting_sum accounting_sum_of(const struct accounting *accounting, int stage)
{
    struct accounting_sum sum = {0};
    for (int p = next_part(accounting, stage, -1); p < PARTS; p = next_part(accounting, stage, p))
        *(stage >= parts[p].cut_from ? &sum.cut : &sum.whole) += parts[p].bytes;
    return sum;
}

double accounting_bytes(const struct accounting *accounting, int stage, int ranks)
{
    const struct accounting_sum sum = accounting_sum_of(accounting, stage);
    return sum.whole + (double)sum.cut / ranks;
}

/* ---- both sides ---- */

static struct accounting_line *append(struct accounting_held *held, enum category category, const char *array)
{
    if (held->count == ACCOUNTING_LINES_MAX) return NULL;
    struct accounting_line *line = &held->line[held->count++];
    *line = (struct accounting_line){.category = category, .array = array};
    return line;
}

/* The line of an array of this type; one that we have with another extent is another array. */
static struct accounting_line *line_of(struct accounting_held *held, const struct buffer *buffer, int bytes, bool cut)
{
    for (int l = 0; l < held->count; l++) {
        struct accounting_line *line = &held->line[l];
        const int theirs = line->theirs.bytes, ours = line->ours.bytes;
        if (line->category != buffer->category || strcmp(line->array, buffer->name) != 0) continue;
        if ((theirs && theirs != bytes) || (ours && (ours != bytes || line->ours.cut != cut))) continue;
        return line;
    }
    return append(held, buffer->category, buffer->name);
}

static void count_ours(struct accounting_held *held, const struct setup *setup)
{
    const struct schedule *schedule = &setup->schedule;
    const double psi = (double)setup->model.elems;
    for (int b = 0; b < schedule->lasting_count; b++) {
        const struct buffer *buffer = &schedule->buffers[b];
        const bool cut = buffer->extent == EXTENT_SHARD;
        const int bytes = dtype_bytes(buffer->dtype);
        struct accounting_line *line = line_of(held, buffer, bytes, cut);
        if (!line) continue;
        double unpadded = (double)buffer->bytes;
        if (buffer->extent != EXTENT_TAIL)
            unpadded = (double)setup->model.units[buffer->unit].elems * bytes / (cut ? schedule_shard_ranks(schedule) : 1);
        line->ours.bytes = bytes;
        line->ours.cut = cut;
        line->ours.held += unpadded / psi;
        held->ours += (double)buffer->bytes / psi;
        held->padding += ((double)buffer->bytes - unpadded) / psi;
    }
}

static void sort_by_category(struct accounting_held *held)
{
    struct accounting_held sorted = *held;
    sorted.count = 0;
    for (enum category category = 0; category < CATEGORIES; category++)
        for (int l = 0; l < held->count; l++)
            if (held->line[l].category == category) sorted.line[sorted.count++] = held->line[l];
    *held = sorted;
}

void accounting_hold(struct accounting_held *held, const struct accounting *accounting, const struct setup *setup)
{
    const int stage = setup->schedule.stage, ranks = schedule_shard_ranks(&setup->schedule);
    *held = (struct accounting_held){0};
    for (int p = next_part(accounting, stage, -1); p < PARTS; p = next_part(accounting, stage, p)) {
        struct accounting_line *line = append(held, parts[p].category, parts[p].array);
        const bool cut = stage >= parts[p].cut_from;
        line->theirs = (struct accounting_side){parts[p].bytes, cut, (double)parts[p].bytes / (cut ? ranks : 1)};
        held->theirs += line->theirs.held;
    }
    count_ours(held, setup);
    sort_by_category(held);
}

/* ---- the list of all ---- */

enum { STAGES = 4 };

const char *accounting_sum_text(char text[32], struct accounting_sum sum, const char *of)
{
    if (sum.whole && sum.cut) snprintf(text, 32, "%d%s + %d%s/N", sum.whole, of, sum.cut, of);
    else snprintf(text, 32, sum.cut ? "%d%s/N" : "%d%s", sum.cut ? sum.cut : sum.whole, of);
    return text;
}

void accounting_print_list(FILE *out)
{
    char text[32];
    fprintf(out, "zerolab plan CONFIG --accounting NAME holds one of these against what this engine plans\n\n"
                 "Bytes of a parameter on each of N ranks, array by array\n\n%-18s %10s %10s %10s %10s\n", "",
            "stage 0", "stage 1", "stage 2", "stage 3");
    for (int a = 0; a < ACCOUNTINGS; a++) {
        const struct accounting *accounting = &accounting_table[a];
        fprintf(out, "%-18s", accounting->name);
        for (int stage = 0; stage < STAGES; stage++)
            fprintf(out, " %10s",
                    accounting_speaks_of(accounting, stage) ? accounting_sum_text(text, accounting_sum_of(accounting, stage), "")
                                                            : "-");
        fprintf(out, "\n    %s\n", accounting->who);
    }
}

/* ---- one against a configuration ---- */

static int setup_at(struct setup *setup, const struct config *config, int stage, struct error *err)
{
    struct config at = *config;
    char text[2] = {(char)('0' + stage), '\0'};
    int status = config_set(&at, "zero_optimization.stage", text, err);
    return status ? status : setup_init(setup, &at, err);
}

static const char *side_text(char text[24], const struct accounting_side *side)
{
    if (!side->bytes) return "-";
    snprintf(text, 24, side->cut ? "%d/N" : "%d", side->bytes);
    return text;
}

/* "16-bit gradient"; one of another size than a number's has no type. */
static const char *array_text(char text[48], const struct accounting_line *line)
{
    const int bytes = line->theirs.bytes ? line->theirs.bytes : line->ours.bytes;
    const char *type = bytes == 2 ? "16-bit " : bytes == 4 ? "fp32 " : "";
    snprintf(text, 48, "%s%s", type, line->array);
    return text;
}

static void print_number(FILE *out, int width, bool known, double value)
{
    if (known) fprintf(out, " %*.3f", width, value);
    else fprintf(out, " %*s", width, "-");
}

/* What both sides count alike has no difference to be read. */
static void print_difference(FILE *out, double difference)
{
    if (fabs(difference) < 0.0005) fprintf(out, " %11s\n", "same");
    else fprintf(out, " %+11.3f\n", difference);
}

static void print_lines(FILE *out, const struct accounting *accounting, const struct accounting_held *held, int ranks)
{
    char array[48], theirs[24], ours[24];
    fprintf(out, "\nBytes a parameter on each of N = %d ranks\n  %-26s %18s %17s %11s\n", ranks, "", accounting->name,
            "this engine", "difference");
    for (int l = 0; l < held->count; l++) {
        const struct accounting_line *line = &held->line[l];
        fprintf(out, "  %c %-24s %8s", category_letter(line->category), array_text(array, line),
                side_text(theirs, &line->theirs));
        print_number(out, 9, line->theirs.bytes, line->theirs.held);
        fprintf(out, " %7s", side_text(ours, &line->ours));
        print_number(out, 9, line->ours.bytes, line->ours.held);
        print_difference(out, line->theirs.held - line->ours.held);
    }
    fprintf(out, "    %-24s %18s %17.3f", "padding of shards", "-", held->padding);
    print_difference(out, -held->padding);
    fprintf(out, "    %-24s %18.3f %17.3f", "all", held->theirs, held->ours);
    print_difference(out, held->theirs - held->ours);
}

static void print_stages(FILE *out, const struct accounting *accounting, const double ours[STAGES], int ranks)
{
    fprintf(out, "\n%-28s %10s %10s %10s %10s\n  %-26s", "Stage by stage", "stage 0", "stage 1", "stage 2", "stage 3",
            accounting->name);
    for (int stage = 0; stage < STAGES; stage++)
        print_number(out, 10, accounting_speaks_of(accounting, stage), accounting_bytes(accounting, stage, ranks));
    fprintf(out, "\n  %-26s", "this engine");
    for (int stage = 0; stage < STAGES; stage++) print_number(out, 10, !isnan(ours[stage]), ours[stage]);
    fputs("\n\n", out);
}

/* "NAME alone counts fp32 gradient, fp32 master.", or nothing. An array that is there in two extents is named once. */
static void print_alone(FILE *out, const char *lead, const struct accounting_held *held, bool theirs)
{
    char array[48], text[400];
    snprintf(text, sizeof text, "%s", lead);
    for (int l = 0; l < held->count; l++) {
        const struct accounting_line *line = &held->line[l];
        const bool alone = theirs ? !line->ours.bytes : !line->theirs.bytes;
        if (!alone || strstr(text, array_text(array, line))) continue;
        text_append(text, sizeof text, "%s %s", strcmp(text, lead) ? "," : "", array);
    }
    if (!strcmp(text, lead)) return;
    text_append(text, sizeof text, ".");
    words_print(out, 0, 2, text);
}

static void print_reasons(FILE *out, const struct accounting *accounting, const struct accounting_held *held)
{
    char array[48], text[200];
    snprintf(text, sizeof text, "%s alone counts", accounting->name);
    print_alone(out, text, held, true);
    print_alone(out, "This setup alone keeps", held, false);
    for (int l = 0; l < held->count; l++) {
        const struct accounting_line *line = &held->line[l];
        if (!line->ours.bytes || !line->theirs.bytes || line->theirs.cut == line->ours.cut) continue;
        snprintf(text, sizeof text, "%s: %s here, %s by %s.", array_text(array, line),
                 line->ours.cut ? "cut among the ranks" : "whole", line->theirs.cut ? "cut" : "left whole",
                 accounting->name);
        words_print(out, 0, 2, text);
    }
    words_print(out, 0, 2, accounting->why);
}

/* What the engine keeps at each stage, in bytes a parameter; NAN where this configuration cannot be had. */
static void stages_of(double ours[STAGES], const struct accounting *accounting, const struct config *config)
{
    for (int stage = 0; stage < STAGES; stage++) {
        struct setup setup;
        struct accounting_held held;
        struct error ignored;
        ours[stage] = NAN;
        if (setup_at(&setup, config, stage, &ignored)) continue;
        accounting_hold(&held, accounting, &setup);
        ours[stage] = held.ours;
        setup_release(&setup);
    }
}

int accounting_print(FILE *out, const struct accounting *accounting, const struct config *config, struct error *err)
{
    struct setup setup;
    struct accounting_held held;
    double ours[STAGES];
    char a[32], b[32], c[32];
    int status = setup_init(&setup, config, err);
    if (status) return status;
    const int stage = setup.schedule.stage, ranks = setup.schedule.ranks;
    const double psi = (double)setup.model.elems;
    accounting_hold(&held, accounting, &setup);
    stages_of(ours, accounting, config);
    fprintf(out, "%s: %s\n%s: %s parameters, %s, %s, %d ranks, stage %d\n", accounting->name, accounting->who,
            config->model.name, grouped(a, setup.model.elems), dtype_name(config->dtype),
            optimizer_table[setup.model.optimizer].name, ranks, stage);
    if (accounting_speaks_of(accounting, stage)) {
        print_lines(out, accounting, &held, ranks);
        fprintf(out, "    %-24s %18s %17s\n", "in bytes", grouped(b, (int64_t)(held.theirs * psi + 0.5)),
                grouped(c, (int64_t)(held.ours * psi + 0.5)));
    }
    print_stages(out, accounting, ours, ranks);
    if (accounting_speaks_of(accounting, stage)) print_reasons(out, accounting, &held);
    else
        fprintf(out, "%s says nothing of stage %d; --set zero_optimization.stage=%c goes into detail\n",
                accounting->name, stage, accounting->stages[0]);
    setup_release(&setup);
    return STATUS_OK;
}

/* ---- as JSON ---- */

static void add_side(cJSON *object, const char *name, const struct accounting_side *side)
{
    cJSON *to = side->bytes ? cJSON_AddObjectToObject(object, name) : cJSON_AddNullToObject(object, name);
    if (!side->bytes) return;
    json_put(to, NUMBER("bytes", side->bytes), TRUTH("cut", side->cut), NUMBER("held", side->held));
}

static cJSON *json_of(const struct accounting *accounting, const struct config *config, const struct setup *setup)
{
    struct accounting_held held;
    double ours[STAGES];
    const int stage = setup->schedule.stage, ranks = setup->schedule.ranks;
    cJSON *root = cJSON_CreateObject();
    accounting_hold(&held, accounting, setup);
    stages_of(ours, accounting, config);
    json_put(root, TEXT("accounting", accounting->name), TEXT("who", accounting->who), TEXT("why", accounting->why),
             NUMBER("parameters", setup->model.elems), NUMBER("ranks", ranks), NUMBER("stage", stage));
    cJSON *arrays = cJSON_AddArrayToObject(root, "arrays");
    for (int l = 0; l < held.count; l++) {
        cJSON *array = json_item(arrays);
        json_put(array, TEXT("category", category_name(held.line[l].category)), TEXT("array", held.line[l].array));
        add_side(array, "accounting", &held.line[l].theirs);
        add_side(array, "engine", &held.line[l].ours);
    }
    cJSON_AddNumberToObject(root, "padding", held.padding);
    cJSON *stages = cJSON_AddArrayToObject(root, "stages");
    for (int s = 0; s < STAGES; s++) {
        const bool speaks = accounting_speaks_of(accounting, s);
        json_put(json_item(stages), NUMBER("stage", s),
                 NUMBER_IF("accounting", speaks, accounting_bytes(accounting, s, ranks)), NUMBER("engine", ours[s]));
    }
    return root;
}

int accounting_print_json(FILE *out, const struct accounting *accounting, const struct config *config,
                          struct error *err)
{
    struct setup setup;
    int status = setup_init(&setup, config, err);
    if (status) return status;
    cJSON *root = json_of(accounting, config, &setup);
    setup_release(&setup);
    return json_print(out, root, err);
}
