#include "engine/plan/schedule_io.h"

#include <cjson/cJSON.h>
#include <stdlib.h>

#include "engine/base/text_stream.h"

/* Objects are written as arrays of numbers in a fixed order (the schedule of a large model has thousands of them); "format"
 * changes with that order. */
enum { SCHEDULE_FORMAT = 1, ROLES_OLDEST = ROLE_ATTENTION };

/* ---- writing: by hand into one growing text, because cJSON would make an object of each number ---- */

static void put_op(FILE *out, const struct op *op)
{
    fprintf(out, "[%d,%d,%d,%d,%d,%d,%d,%d,%d,%lld,%lld,%d,%d,%d,%d,%d,%d,[", op_words(op->kind, op->use)->code,
            op->phase, op->micro_step, op->unit, op->bucket, op->accumulate, op->droppable, op->prefetch, op->flush,
            (long long)op->bytes, (long long)op->sent_bytes, op->first_piece, op->piece_count, op->first_take,
            op->take_count, op->first_give, op->give_count);
    for (int role = 0; role < ROLES; role++) fprintf(out, "%s%d", role ? "," : "", op->buffer[role]);
    fprintf(out, "],[");
    for (int d = 0; d < op->dependency_count; d++)
        fprintf(out, "%s%d,%d", d ? "," : "", op->dependency[d].op, op->dependency[d].why);
    fprintf(out, "],%d,%d,%d,%d]", op->extent, op->tile, op->held, op->group);
}

static void put_knobs(FILE *out, const struct config_zero *knobs)
{
    fprintf(
        out,
        "\"knobs\":[%lld,%lld,%d,%lld,%lld,%lld,%lld,%lld,%lld,%d,%.9g,%d,%d,%d,%d,%d,%d,%d,%lld,%.9g,%d,%lld,%d,%d,"
        "%d,%d,%lld,%lld,%lld,%d,%d,%d,%d,%d,%.9g,%lld,%d],",
        (long long)knobs->reduce_bucket_elems, (long long)knobs->allgather_bucket_elems, knobs->overlap_comm,
        (long long)knobs->prefetch_bucket_elems, (long long)knobs->max_live_parameters,
        (long long)knobs->max_reuse_distance, (long long)knobs->param_persistence_threshold,
        (long long)knobs->model_persistence_threshold, (long long)knobs->sub_group_elems, knobs->prescale_gradients,
        (double)knobs->gradient_predivide_factor, knobs->keep_last_units, knobs->no_sync, knobs->recompute,
        knobs->checkpoint_every, knobs->cpu_checkpointing, knobs->offload_optimizer, knobs->offload_param,
        (long long)knobs->update_tile_elems, knobs->offload_ratio, knobs->delayed_update,
        (long long)knobs->delayed_update_after, knobs->pin_optimizer, knobs->pin_param, knobs->pipeline_read,
        knobs->pipeline_write, (long long)knobs->param_buffers, (long long)knobs->param_buffer_elems,
        (long long)knobs->max_in_cpu_elems, knobs->hpz_partition, knobs->shard_ranks, knobs->rank_order,
        knobs->quantized_weights, knobs->quantized_gradients, (double)knobs->loco_beta, (long long)knobs->loco_reset,
        knobs->hierarchical);
}

char *schedule_to_json(const struct schedule *s)
{
    struct text_stream text;
    FILE *out = text_stream_open(&text);
    if (!out) return NULL;
    fprintf(out,
            "{\"format\":%d,\"purpose\":%d,\"stage\":%d,\"ranks\":%d,\"micro_steps\":%d,\"B\":%d,\"T\":%d,"
            "\"node_ranks\":%d,\"lasting\":%d,",
            SCHEDULE_FORMAT, s->purpose, s->stage, s->ranks, s->micro_steps, s->B, s->T, s->node_ranks,
            s->lasting_count);
    put_knobs(out, &s->knobs);
    fprintf(out, "\"buffers\":[");
    for (int b = 0; b < s->buffer_count; b++) {
        const struct buffer *buffer = &s->buffers[b];
        fprintf(out, "%s[\"%s\",%d,%d,%d,%d,%d,%lld,%llu]", b ? "," : "", buffer->name, buffer->tier, buffer->category,
                buffer->extent, buffer->dtype, buffer->unit, (long long)buffer->bytes,
                (unsigned long long)buffer->offset);
    }
    fprintf(out, "],\"pieces\":[");
    for (int p = 0; p < s->piece_count; p++)
        fprintf(out, "%s[%d,%lld,%lld,%d,%d]", p ? "," : "", s->pieces[p].unit, (long long)s->pieces[p].first,
                (long long)s->pieces[p].elems, s->pieces[p].source, s->pieces[p].destination);
    fprintf(out, "],\"effects\":[");
    for (int e = 0; e < s->effect_count; e++) fprintf(out, "%s%d", e ? "," : "", s->effects[e]);
    fprintf(out, "],\"ops\":[");
    for (int i = 0; i < s->op_count; i++) {
        if (i) fprintf(out, ",");
        put_op(out, &s->ops[i]);
    }
    fprintf(out, "]}");
    return text_stream_close(&text);
}

/* ---- reading ---- */

struct reader {
    const cJSON *next;
    bool bad;
};

static int64_t number(struct reader *reader, double low, double high)
{
    const cJSON *item = reader->next;
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= low && item->valuedouble <= high)) {
        reader->bad = true;
        return 0;
    }
    reader->next = item->next;
    return item->valuedouble >= 9.2e18 ? INT64_MAX : (int64_t)item->valuedouble;
}

static const cJSON *list(const cJSON *root, const char *name, int *count)
{
    const cJSON *array = cJSON_GetObjectItemCaseSensitive(root, name);
    *count = cJSON_IsArray(array) ? cJSON_GetArraySize(array) : -1;
    return array ? array->child : NULL;
}

#define EXACT 9007199254740992.0

static void read_buffer(struct reader *reader, struct buffer *buffer)
{
    if (!cJSON_IsString(reader->next)) {
        reader->bad = true;
        return;
    }
    snprintf(buffer->name, sizeof buffer->name, "%s", reader->next->valuestring);
    reader->next = reader->next->next;
    buffer->tier = (enum tier)number(reader, 0, TIERS - 1);
    buffer->category = (enum category)number(reader, 0, CATEGORIES - 1);
    buffer->extent = (enum extent)number(reader, 0, EXTENTS - 1);
    buffer->dtype = (enum dtype)number(reader, 0, DTYPE_Q4);
    buffer->unit = (int)number(reader, -1, 1e6);
    buffer->bytes = number(reader, 0, EXACT);
    buffer->offset = (uint64_t)number(reader, 0, EXACT);
}

static void read_span(struct reader *reader, int *first, int *count, int limit)
{
    *first = (int)number(reader, 0, limit);
    *count = (int)number(reader, 0, limit - (reader->bad ? 0 : *first));
}

/* Traces that do not say it have collectives of all ranks, and gathers from second copies. */
static enum group old_group(const struct schedule *s, const struct op *op)
{
    const bool second = op->kind == OP_GATHER && op->piece_count > 0 &&
                        s->buffers[s->pieces[op->first_piece].source].extent == EXTENT_SECONDARY;
    return second ? GROUP_PARTITION : GROUP_WORLD;
}

static void read_op(struct reader *reader, struct op *op, const struct schedule *s, int index)
{
    reader->bad |= !op_coded((int)number(reader, 0, OP_CODES_MAX), &op->kind, &op->use);
    if (reader->bad) return;
    op->lane = op_lane(op->kind);
    op->phase = (enum phase)number(reader, 0, PHASES - 1);
    op->micro_step = (int)number(reader, -1, 1e6);
    op->unit = (int)number(reader, -1, 1e6);
    op->bucket = (int)number(reader, -1, 1e9);
    op->accumulate = number(reader, 0, 1) != 0;
    op->droppable = number(reader, 0, 1) != 0;
    op->prefetch = number(reader, 0, 1) != 0;
    op->flush = (enum flush)number(reader, 0, FLUSH_END);
    op->bytes = number(reader, 0, EXACT);
    op->sent_bytes = number(reader, 0, EXACT);
    read_span(reader, &op->first_piece, &op->piece_count, s->piece_count);
    read_span(reader, &op->first_take, &op->take_count, s->effect_count);
    read_span(reader, &op->first_give, &op->give_count, s->effect_count);
    struct reader roles = {reader->next ? reader->next->child : NULL, false};
    for (int role = 0; role < ROLES && !roles.bad; role++) /* older traces know fewer roles */
        op->buffer[role] = roles.next || role < ROLES_OLDEST ? (int)number(&roles, -1, s->buffer_count - 1) : -1;
    struct reader waits = {reader->next && reader->next->next ? reader->next->next->child : NULL, false};
    while (waits.next && !waits.bad && op->dependency_count < OP_DEPENDENCIES_MAX) {
        struct dependency *dependency = &op->dependency[op->dependency_count++];
        dependency->op = (int)number(&waits, 0, index - 1);
        dependency->why = (enum why_wait)number(&waits, 0, WAIT_LIMIT);
    }
    reader->bad |= roles.bad || waits.bad;
    reader->next = reader->next && reader->next->next ? reader->next->next->next : NULL;
    if (!reader->next || reader->bad) return; /* an older trace */
    op->extent = (enum extent)number(reader, 0, EXTENTS - 1);
    op->tile = (int)number(reader, 0, 1e9);
    if (reader->next) op->held = (enum held_by)number(reader, 0, HELD_AGAIN);
    op->group = reader->next ? (enum group)number(reader, 0, GROUPS - 1) : old_group(s, op);
}

static bool read_all(struct schedule *s, const cJSON *root)
{
    const cJSON *buffers = list(root, "buffers", &s->buffer_count), *pieces = list(root, "pieces", &s->piece_count);
    const cJSON *effects = list(root, "effects", &s->effect_count), *ops = list(root, "ops", &s->op_count);
    if (s->buffer_count < 0 || s->piece_count < 0 || s->effect_count < 0 || s->op_count < 0 ||
        s->lasting_count > s->buffer_count)
        return false;
    s->buffers = calloc((size_t)s->buffer_count + 1, sizeof *s->buffers);
    s->pieces = calloc((size_t)s->piece_count + 1, sizeof *s->pieces);
    s->effects = calloc((size_t)s->effect_count + 1, sizeof *s->effects);
    s->ops = calloc((size_t)s->op_count + 1, sizeof *s->ops);
    if (!s->buffers || !s->pieces || !s->effects || !s->ops) return false;
    struct reader reader = {NULL, false};
    for (int b = 0; b < s->buffer_count && !reader.bad; b++, buffers = buffers->next) {
        reader.next = buffers->child;
        read_buffer(&reader, &s->buffers[b]);
        s->buffers[b].lasting = b < s->lasting_count;
    }
    for (int p = 0; p < s->piece_count && !reader.bad; p++, pieces = pieces->next) {
        reader.next = pieces->child;
        s->pieces[p].unit = (int)number(&reader, 0, 1e6);
        s->pieces[p].first = number(&reader, 0, EXACT);
        s->pieces[p].elems = number(&reader, 0, EXACT);
        s->pieces[p].source = (int)number(&reader, 0, s->buffer_count - 1);
        s->pieces[p].destination = (int)number(&reader, 0, s->buffer_count - 1);
    }
    reader.next = effects;
    for (int e = 0; e < s->effect_count && !reader.bad; e++)
        s->effects[e] = (int)number(&reader, 0, s->buffer_count - 1);
    for (int i = 0; i < s->op_count && !reader.bad; i++, ops = ops->next) {
        reader.next = ops->child;
        read_op(&reader, &s->ops[i], s, i);
    }
    return !reader.bad;
}

static int field(const cJSON *root, const char *name, int low, int high, bool *bad)
{
    struct reader reader = {cJSON_GetObjectItemCaseSensitive(root, name), false};
    int value = (int)number(&reader, low, high);
    *bad |= reader.bad;
    return value;
}

static bool read_knobs(struct config_zero *knobs, const cJSON *list_of_knobs)
{
    struct reader reader = {list_of_knobs ? list_of_knobs->child : NULL, false};
    knobs->reduce_bucket_elems = number(&reader, 0, 1e19);
    knobs->allgather_bucket_elems = number(&reader, 0, 1e19);
    knobs->overlap_comm = number(&reader, 0, 1) != 0;
    knobs->prefetch_bucket_elems = number(&reader, 0, 1e19);
    knobs->max_live_parameters = number(&reader, 0, 1e19);
    knobs->max_reuse_distance = number(&reader, 0, 1e19);
    knobs->param_persistence_threshold = number(&reader, 0, 1e19);
    knobs->model_persistence_threshold = INT64_MAX;
    knobs->gradient_predivide_factor = 1;
    knobs->hpz_partition = 1;
    knobs->shard_ranks = -1;
    knobs->loco_reset = 1024; /* the key's default */
    if (!reader.next || reader.bad) return !reader.bad; /* an older trace: the others were not there */
    knobs->model_persistence_threshold = number(&reader, 0, 1e19);
    knobs->sub_group_elems = number(&reader, 0, 1e19);
    knobs->prescale_gradients = number(&reader, 0, 1) != 0;
    knobs->gradient_predivide_factor = reader.next ? (float)reader.next->valuedouble : 1;
    number(&reader, 0, 1e19);
    knobs->keep_last_units = (int)number(&reader, 0, 1e6);
    knobs->no_sync = number(&reader, 0, 1) != 0;
    knobs->recompute = (enum recompute)number(&reader, 0, RECOMPUTE_ATTENTION);
    knobs->checkpoint_every = (int)number(&reader, 0, 1e6);
    knobs->cpu_checkpointing = reader.next && number(&reader, 0, 1) != 0;
    knobs->offload_optimizer = reader.next ? (enum offload)number(&reader, 0, OFFLOAD_NVME) : OFFLOAD_NONE;
    knobs->offload_param = reader.next ? (enum offload)number(&reader, 0, OFFLOAD_NVME) : OFFLOAD_NONE;
    knobs->update_tile_elems = reader.next ? number(&reader, 0, 1e19) : UPDATE_TILE_ELEMS;
    knobs->offload_ratio = reader.next ? reader.next->valuedouble : 1;
    if (reader.next) number(&reader, 0, 1);
    knobs->delayed_update = reader.next && number(&reader, 0, 1) != 0;
    knobs->pin_optimizer = knobs->pin_param = true;
    knobs->delayed_update_after = reader.next ? number(&reader, 0, 1e19) : DELAYED_UPDATE_AFTER;
    knobs->param_buffers = PARAM_BUFFERS;
    knobs->param_buffer_elems = PARAM_BUFFER_ELEMS;
    knobs->max_in_cpu_elems = MAX_IN_CPU_ELEMS;
    if (!reader.next || reader.bad) return !reader.bad;
    knobs->pin_optimizer = number(&reader, 0, 1) != 0;
    knobs->pin_param = number(&reader, 0, 1) != 0;
    if (!reader.next || reader.bad) return !reader.bad;
    knobs->pipeline_read = number(&reader, 0, 1) != 0;
    knobs->pipeline_write = number(&reader, 0, 1) != 0;
    knobs->param_buffers = number(&reader, 0, 1e19);
    knobs->param_buffer_elems = number(&reader, 0, 1e19);
    knobs->max_in_cpu_elems = number(&reader, 0, 1e19);
    if (reader.next) knobs->hpz_partition = (int)number(&reader, 0, 1 << 20);
    if (reader.next) knobs->shard_ranks = (int)number(&reader, -1, 1 << 20);
    if (reader.next) knobs->rank_order = number(&reader, 0, 1) != 0;
    if (reader.next) knobs->quantized_weights = number(&reader, 0, 1) != 0;
    if (reader.next) knobs->quantized_gradients = number(&reader, 0, 1) != 0;
    if (reader.next) knobs->loco_beta = (float)reader.next->valuedouble;
    if (reader.next) number(&reader, 0, 1);
    if (reader.next) knobs->loco_reset = number(&reader, 0, 1e19);
    if (reader.next) knobs->hierarchical = number(&reader, 0, 1) != 0;
    return !reader.bad;
}

int schedule_from_json(struct schedule *s, const char *json, size_t bytes, struct error *err)
{
    cJSON *root = cJSON_ParseWithLength(json, bytes);
    bool bad = false;
    *s = (struct schedule){0};
    if (root && field(root, "format", SCHEDULE_FORMAT, SCHEDULE_FORMAT, &bad) == SCHEDULE_FORMAT) {
        s->purpose = (enum purpose)field(root, "purpose", 0, PURPOSES - 1, &bad);
        s->stage = s->knobs.stage = field(root, "stage", 0, 3, &bad);
        s->ranks = field(root, "ranks", 1, 1 << 20, &bad);
        s->micro_steps = field(root, "micro_steps", 1, 1 << 20, &bad);
        s->B = field(root, "B", 1, 1 << 24, &bad);
        s->T = field(root, "T", 1, 1 << 24, &bad);
        s->lasting_count = field(root, "lasting", 0, 1 << 24, &bad);
        if (cJSON_GetObjectItemCaseSensitive(root, "node_ranks")) s->node_ranks = field(root, "node_ranks", 0, 1 << 20, &bad);
        bad |= !read_knobs(&s->knobs, cJSON_GetObjectItemCaseSensitive(root, "knobs")) || !read_all(s, root);
    } else {
        bad = true;
    }
    cJSON_Delete(root);
    if (!bad) return STATUS_OK;
    schedule_release(s);
    return error_set(err, STATUS_INPUT, "the trace holds a schedule that cannot be read");
}

/* ---- text ---- */

static void print_buffers(FILE *out, const struct schedule *s, const char *sign, int first, int count)
{
    for (int e = 0; e < count; e++) {
        const struct buffer *buffer = &s->buffers[s->effects[first + e]];
        fprintf(out, " %s%c:%lld", sign, category_letter(buffer->category), (long long)buffer->bytes);
    }
}

/* How the sum over ranks becomes a mean, where that is not one division at its end. */
static void print_factors(FILE *out, const struct schedule *s)
{
    const double factor = (double)s->knobs.gradient_predivide_factor;
    if (s->knobs.prescale_gradients) fprintf(out, " /%d before", s->ranks);
    else if (factor != 1) fprintf(out, " /%g before, x%g/%d after", factor, factor, s->ranks);
}

void schedule_print(FILE *out, const struct schedule *s, const struct model *model)
{
    static const char *const why[] = {"data", "memory", "limit"};
    static const char *const among[GROUPS] = {"",           " shard group", " replicas",
                                              " partition", " in node",     " across nodes"};
    fprintf(out, "%5s  %-7s %-9s %-10s %14s  %s\n", "op", "lane", "what", "on", "payload B",
            "takes (+), gives back (-), waits for");
    for (int i = 0; i < s->op_count; i++) {
        const struct op *op = &s->ops[i];
        char on[28] = "";
        if (op->unit >= 0) snprintf(on, sizeof on, "%s", model->units[op->unit].name);
        else if (op->bucket >= 0) snprintf(on, sizeof on, "bucket %d", op->bucket);
        fprintf(out, "%5d  %-7s %-9s %-10s %14lld ", i, lane_name(op->lane), op_name(op->kind, op->use), on,
                (long long)op->bytes);
        if (op->prefetch) fputs(" ahead", out);
        fputs(among[op->group], out);
        if (op_is_update(op->kind) && update_tiles(s, model, op) > 1)
            fprintf(out, " part %d of %d", op->tile + 1, update_tiles(s, model, op));
        if (op->kind == OP_REDUCE_SCATTER || op->kind == OP_ALL_REDUCE) print_factors(out, s);
        if (op->flush) fputs(op->flush == FLUSH_FULL ? " full" : " end of backward", out);
        print_buffers(out, s, "+", op->first_take, op->take_count);
        print_buffers(out, s, "-", op->first_give, op->give_count);
        for (int d = 0; d < op->dependency_count; d++)
            fprintf(out, " <%d (%s)", op->dependency[d].op, why[op->dependency[d].why]);
        fputc('\n', out);
    }
}

void op_describe(char *text, size_t room, const struct op *op, const struct model *model)
{
    const bool use = op->lane == LANE_COMPUTE && op->phase != PHASE_OPTIMIZER && op->unit >= 0;
    const char *what = use ? phase_name(op->phase) : op_name(op->kind, op->use);
    if (op->use && op->use->repeat == REPEAT_TIED && model->tied)
        snprintf(text, room, "%s %s", what, op_name(OP_FORWARD, op->use)); /* its unit has another name */
    else if (op->unit >= 0) snprintf(text, room, "%s %s", what, model->units[op->unit].name);
    else if (op->bucket >= 0) snprintf(text, room, "%s bucket %d", what, op->bucket);
    else snprintf(text, room, "%s", what);
}
