#include "engine/advise/accounting.h"

#include <math.h>
#include <string.h>

#include "engine/base/nearest.h"
#include "engine/base/template.h"
#include "engine/base/words.h"

/* Behind the last part of each stands one of 0 bytes. */
#define PART(category, array, bytes, stages, cut)                                                                      \
    {                                                                                                                  \
        CATEGORY_##category, array, bytes, stages, cut                                                                 \
    }
#define ACCOUNTING(name, stages, who, why, ...)                                                                       \
    _Static_assert(sizeof((struct accounting_part[]){__VA_ARGS__}) < sizeof accounting_table->parts, "too many parts");
#include "engine/advise/accountings.def"
#undef ACCOUNTING

const struct accounting accounting_table[ACCOUNTINGS] = {
#define ACCOUNTING(name, stages, who, why, ...) {name, stages, who, why, {__VA_ARGS__}},
#include "engine/advise/accountings.def"
};

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

/* The part if it counts at this stage, or the next one that does; NULL: none does. Begin with the first. */
static const struct accounting_part *counted(const struct accounting_part *part, int stage)
{
    while (part->bytes && !is_of(part->stages, stage)) part++;
    return part->bytes ? part : NULL;
}

struct accounting_sum accounting_sum_of(const struct accounting *accounting, int stage)
{
    struct accounting_sum sum = {0};
    for (const struct accounting_part *part = accounting->parts; (part = counted(part, stage)); part++)
        *(stage >= part->cut_from ? &sum.cut : &sum.whole) += part->bytes;
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
    for (const struct accounting_part *part = accounting->parts; (part = counted(part, stage)); part++) {
        struct accounting_line *line = append(held, part->category, part->array);
        const bool cut = stage >= part->cut_from;
        line->theirs = (struct accounting_side){part->bytes, cut, (double)part->bytes / (cut ? ranks : 1)};
        held->theirs += line->theirs.held;
    }
    count_ours(held, setup);
    sort_by_category(held);
}

/* ---- one against a configuration ---- */

enum { STAGES = 4 };

const char *accounting_sum_text(char text[32], struct accounting_sum sum, const char *of)
{
    if (sum.whole && sum.cut) snprintf(text, 32, "%d%s + %d%s/N", sum.whole, of, sum.cut, of);
    else snprintf(text, 32, sum.cut ? "%d%s/N" : "%d%s", sum.cut ? sum.cut : sum.whole, of);
    return text;
}

static int setup_at(struct setup *setup, const struct config *config, int stage)
{
    struct config at = *config;
    char text[2] = {(char)('0' + stage), '\0'};
    int status = config_set(&at, "zero_optimization.stage", text, NULL);
    return status ? status : setup_init(setup, &at, NULL);
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

/* "fp32 gradient, fp32 master": what one side alone counts. An array that is there in two extents is named once. */
static void add_alone(cJSON *facts, const char *name, const struct accounting_held *held, bool theirs)
{
    char array[48], text[400] = "";
    for (int l = 0; l < held->count; l++) {
        const struct accounting_line *line = &held->line[l];
        const bool alone = theirs ? !line->ours.bytes : !line->theirs.bytes;
        if (!alone || strstr(text, array_text(array, line))) continue;
        text_append(text, sizeof text, "%s%s", *text ? ", " : "", array);
    }
    json_put(facts, TEXT(name, text));
}

/* In bytes a parameter; null where the accounting says nothing, or this configuration cannot be had. */
static void add_stages(cJSON *list, const struct accounting *accounting, const struct config *config)
{
    for (int stage = 0; stage < STAGES; stage++) {
        struct setup setup;
        struct accounting_held held = {.ours = NAN};
        if (!setup_at(&setup, config, stage)) {
            accounting_hold(&held, accounting, &setup);
            setup_release(&setup);
        }
        json_put(json_item(list), NUMBER("stage", stage),
                 NUMBER_IF("accounting", accounting_speaks_of(accounting, stage),
                           accounting_bytes(accounting, stage, config->topology.ranks)),
                 NUMBER("engine", held.ours));
    }
}

static void add_side(cJSON *object, const char *name, const struct accounting_side *side)
{
    cJSON *to = side->bytes ? cJSON_AddObjectToObject(object, name) : cJSON_AddNullToObject(object, name);
    if (!side->bytes) return;
    json_put(to, NUMBER("bytes", side->bytes), TRUTH("cut", side->cut), NUMBER("held", side->held));
}

/* Where both sides count alike there is no difference to be read. */
static double difference(double theirs, double ours)
{
    return fabs(theirs - ours) < 0.0005 ? NAN : theirs - ours;
}

static void add_line(cJSON *object, const struct accounting_line *line)
{
    char array[48], theirs[24], ours[24];
    const bool both = line->theirs.bytes && line->ours.bytes;
    json_put(object, TEXT("category", category_name(line->category)), TEXT("array", line->array),
             TEXT(".letter", ((char[]){category_letter(line->category), '\0'})), TEXT(".text", array_text(array, line)),
             TEXT(".theirs", side_text(theirs, &line->theirs)), TEXT(".ours", side_text(ours, &line->ours)),
             NUMBER(".difference", difference(line->theirs.held, line->ours.held)),
             TRUTH(".other_extent", both && line->theirs.cut != line->ours.cut));
    add_side(object, "accounting", &line->theirs);
    add_side(object, "engine", &line->ours);
}

static cJSON *facts_of(const struct accounting *accounting, const struct config *config, const struct setup *setup)
{
    struct accounting_held held;
    const int stage = setup->schedule.stage, ranks = setup->schedule.ranks;
    const double psi = (double)setup->model.elems;
    cJSON *facts = cJSON_CreateObject();
    accounting_hold(&held, accounting, setup);
    json_put(facts, TEXT("accounting", accounting->name), TEXT(".name", accounting->name), TEXT("who", accounting->who),
             TEXT("why", accounting->why), NUMBER("parameters", setup->model.elems), NUMBER("ranks", ranks), NUMBER("stage", stage),
             TEXT(".model", config->model.name), TEXT(".dtype", dtype_name(config->dtype)),
             TEXT(".optimizer", optimizer_table[setup->model.optimizer].name),
             TRUTH(".speaks", accounting_speaks_of(accounting, stage)), NUMBER(".first", accounting->stages[0] - '0'));
    cJSON *arrays = cJSON_AddArrayToObject(facts, "arrays");
    for (int l = 0; l < held.count; l++) add_line(json_item(arrays), &held.line[l]);
    json_put(facts, NUMBER("padding", held.padding), NUMBER(".unpadded", difference(0, held.padding)),
             NUMBER(".theirs", held.theirs), NUMBER(".ours", held.ours), NUMBER(".difference", difference(held.theirs, held.ours)),
             NUMBER(".theirs_bytes", held.theirs * psi), NUMBER(".ours_bytes", held.ours * psi));
    add_stages(cJSON_AddArrayToObject(facts, "stages"), accounting, config);
    add_alone(facts, ".theirs_alone", &held, true);
    add_alone(facts, ".ours_alone", &held, false);
    return facts;
}

static const char page[] =
    "{accounting}: {who}\n{.model}: {parameters:,} parameters, {.dtype}, {.optimizer}, {ranks} ranks, stage {stage}\n"
    "{?.speaks}\nBytes a parameter on each of N = {ranks} ranks\n"
    "                             {accounting:18}       this engine  difference\n"
    "{#arrays}  {.letter} {.text:-24} {.theirs:8} {accounting.held:9.3|-} {.ours:7} {engine.held:9.3|-} {.difference:+11.3|same}\n{/}"
    "    padding of shards                         - {padding:17.3} {.unpadded:+11.3|same}\n"
    "    all                      {.theirs:18.3} {.ours:17.3} {.difference:+11.3|same}\n"
    "    in bytes                 {.theirs_bytes:18,} {.ours_bytes:17,}\n{/}"
    "\nStage by stage                  stage 0    stage 1    stage 2    stage 3\n"
    "  {accounting:-26}{#stages} {accounting:10.3|-}{/}\n"
    "  this engine               {#stages} {engine:10.3|-}{/}\n\n"
    "{?.speaks}{?.theirs_alone}{~:2}{.name} alone counts {.theirs_alone}.{/}{/}"
    "{?.ours_alone}{~:2}This setup alone keeps {.ours_alone}.{/}{/}"
    "{#arrays}{?.other_extent}{~:2}{.text}: {?engine.cut}cut among the ranks{/}{!engine.cut}whole{/} here, "
    "{?accounting.cut}cut{/}{!accounting.cut}left whole{/} by {.name}.{/}{/}{/}{~:2}{why}{/}{/}"
    "{!.speaks}{accounting} says nothing of stage {stage}; --set zero_optimization.stage={.first} goes into detail\n{/}";

int accounting_print(FILE *out, bool as_json, const struct accounting *accounting, const struct config *config,
                     struct error *err)
{
    struct setup setup;
    int status = setup_init(&setup, config, err);
    if (status) return status;
    cJSON *facts = facts_of(accounting, config, &setup);
    setup_release(&setup);
    return template_answer(out, as_json, page, facts, err);
}
