#include "engine/import/stream.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/json.h"
#include "engine/base/tier.h"
#include "engine/base/version.h"
#include "engine/plan/footprint.h"
#include "engine/trace/record.h"
#include "engine/trace/source_kind.h"

enum {
    INPUTS_MAX = 1024,
    LINE_MAX_BYTES = 1 << 20,
    READ_BYTES = 1 << 18,
    BLOCK_BYTES = 1 << 20,
    TICK_NS = 50 * 1000 * 1000
};
static const uint64_t hold_ns = 250 * 1000 * 1000;
#define SILENT_NS (UINT64_C(2) * 1000 * 1000 * 1000)

struct input {
    int fd;
    char name[80]; /* for messages */
    bool ended;
    uint64_t lines;
    struct bytes text;
    int rank; /* -1: no header yet */
    int64_t offset_ns;
    uint64_t newest_ns, read_ns; /* of its lines; when one came last, by this machine's clock */
};

/* A record that waits for its time. */
struct moment {
    uint64_t time_ns, number; /* number: in the order of arrival */
    struct trace_record record;
};

/* The issue times of collectives, by number: every rank numbers its own from 1 on, so equal numbers are the same one. */
enum { KEPT = 4096 };
struct meeting {
    uint64_t number, last_ns;
};

struct stream {
    struct input *inputs;
    int count, room;
    int listener, timer; /* -1: none */
    char socket[108];
    bool follow, told, ended, closed;
    struct moment *queue; /* a heap */
    int queued, queue_room;
    uint64_t arrived, newest_ns,
        released_ns;   /* newest_ns: of all lines; released_ns: of the newest record that was given */
    struct job *names; /* operations and units, each once */
    int ops_told;
    struct meeting meetings[KEPT];
    struct {
        uint64_t ended_ns[LANES], sent_bytes[TRAFFIC_KINDS], busy_ns[TRAFFIC_KINDS], peak_bytes;
        uint32_t count[TRAFFIC_KINDS];
    } * ranks;
    int rank_count;
    struct bytes out;
    struct stream_found found;
};

/* ---- the queue ---- */

static bool is_before(const struct moment *a, const struct moment *b)
{
    return a->time_ns != b->time_ns ? a->time_ns < b->time_ns : a->number < b->number;
}

static void push(struct stream *s, int rank, uint64_t time_ns, struct trace_record record)
{
    if (time_ns < s->released_ns) {
        if (record.kind == TRACE_OP_BEGIN) return; /* its end tells when it began */
        time_ns = s->released_ns;
    }
    if (!array_grow((void **)&s->queue, s->queued, &s->queue_room, sizeof *s->queue)) return;
    record.rank = (uint16_t)rank;
    record.time_ns = time_ns;
    int at = s->queued++;
    struct moment moment = {time_ns, s->arrived++, record};
    for (int above; at > 0 && is_before(&moment, &s->queue[above = (at - 1) / 2]); at = above)
        s->queue[at] = s->queue[above];
    s->queue[at] = moment;
}

static struct moment pop(struct stream *s)
{
    const struct moment top = s->queue[0], last = s->queue[--s->queued];
    int at = 0;
    for (int child; (child = 2 * at + 1) < s->queued; at = child) {
        if (child + 1 < s->queued && is_before(&s->queue[child + 1], &s->queue[child])) child++;
        if (!is_before(&s->queue[child], &last)) break;
        s->queue[at] = s->queue[child];
    }
    if (s->queued) s->queue[at] = last;
    return top;
}

#define PUSH(s, rank, time, ID, name, ...)                                                                             \
    push(s, rank, time, (struct trace_record){.kind = TRACE_##ID, .name = {__VA_ARGS__}})
#define TEXT_OF(text)                                                                                                  \
    {                                                                                                                  \
        text, strlen(text)                                                                                             \
    }

/* ---- what a line says ---- */

static uint64_t time_of(const struct input *input, const cJSON *line, const char *key)
{
    const cJSON *at = json_get(line, key);
    const double value = cJSON_IsNumber(at) && at->valuedouble > 0 && at->valuedouble < 4e18 ? at->valuedouble : 0;
    const int64_t ns = (int64_t)value + input->offset_ns;
    return value > 0 && ns > 0 ? (uint64_t)ns : 0;
}

static uint32_t step_of(const cJSON *line)
{
    return (uint32_t)json_get_number(line, "step", UINT32_MAX - 2, 0) + 1; /* the job counts from 0 */
}

static const char *wrong(struct stream *s, const struct input *input, const char *what)
{
    if (!s->found.wrong++)
        snprintf(s->found.first_wrong, sizeof s->found.first_wrong, "%s, line %llu: %s", input->name,
                 (unsigned long long)input->lines, what);
    return NULL;
}

/* The newest program is named: DeepSpeed before the PyTorch below it. */
static void name_program(char *out, size_t room, const cJSON *line)
{
    const cJSON *programs = json_get(line, "programs");
    const char *deepspeed = json_get_text(programs, "deepspeed"), *torch = json_get_text(programs, "torch");
    const char *wrapper = json_get_text(line, "wrapper");
    if (deepspeed && wrapper && !strcmp(wrapper, "deepspeed")) snprintf(out, room, "DeepSpeed %.24s", deepspeed);
    else snprintf(out, room, "PyTorch %.24s", torch ? torch : "");
}

static void name_wrapper(char *out, size_t room, const cJSON *line)
{
    const char *wrapper = json_get_text(line, "wrapper");
    const double stage = json_get_number(line, "stage", 3, -1);
    if (wrapper && !strcmp(wrapper, "deepspeed") && stage >= 0) snprintf(out, room, "ZeRO-%d", (int)stage);
    else if (wrapper && !strcmp(wrapper, "ddp")) snprintf(out, room, "DDP");
    else if (wrapper && !strncmp(wrapper, "fsdp", 4)) snprintf(out, room, "FSDP (FSDP%.4s)", wrapper + 4);
    else *out = '\0';
}

static void tell_run(struct stream *s, const cJSON *line, uint64_t time_ns)
{
    const char *dtype = json_get_text(line, "dtype");
    char program[40], *text;
    cJSON *json = cJSON_CreateObject(), *model = cJSON_AddObjectToObject(json, "model"),
          *units = cJSON_AddArrayToObject(model, "units");
    const cJSON *unit;
    name_program(program, sizeof program, line);
    name_wrapper(s->found.recognised, sizeof s->found.recognised, line);
    json_put(json, TEXT("version", ZEROLAB_VERSION), TEXT("program", program), NUMBER("ranks", s->found.world),
             TEXT("recognised", s->found.recognised), TRUTH("sent_by_formula", true));
    if (dtype)
        json_put(json, TEXT("precision", !strcmp(dtype, "bfloat16")  ? "bf16"
                                         : !strcmp(dtype, "float16") ? "fp16"
                                                                     : "fp32"));
    const double parameters = json_get_number(line, "parameters", 1e15, -1);
    if (parameters >= 0) json_put(model, NUMBER("parameters", parameters));
    cJSON_ArrayForEach(unit, json_get(line, "units"))
    {
        char name[24];
        json_copy_text(name, sizeof name, unit, "name");
        json_put(json_item(units), TEXT("name", name), NUMBER("elems", json_get_number(unit, "parameters", 1e15, 0)));
        job_unit(s->names, name, -1);
    }
    if ((text = cJSON_PrintUnformatted(json))) {
        struct trace_record record = {
            .kind = TRACE_RUN, .rank = TRACE_RANK_ALL, .time_ns = time_ns, .run = {TEXT_OF(text)}};
        trace_append(&s->out, &record);
        record = (struct trace_record){
            .kind = TRACE_STATE, .rank = TRACE_RANK_ALL, .time_ns = time_ns, .state = {0, RUN_RUNNING, TEXT_OF("")}};
        trace_append(&s->out, &record);
    }
    free(text);
    cJSON_Delete(json);
    s->told = true;
}

static void take_header(struct stream *s, struct input *input, const cJSON *line)
{
    const double t = json_get_number(line, "t", 4e18, -1), unix_ns = json_get_number(line, "unix_ns", 4e18, -1);
    const int rank = (int)json_get_number(line, "rank", JOB_RANKS_MAX - 1, -1);
    const uint32_t world = (uint32_t)json_get_number(line, "ranks", JOB_RANKS_MAX, 0);
    if (t < 0 || unix_ns < 0 || rank < 0 || !world || rank >= (int)world) {
        wrong(s, input, "a header without t, unix_ns, rank or ranks");
        return;
    }
    input->rank = rank;
    input->offset_ns = (int64_t)unix_ns - (int64_t)t;
    s->found.ranks++;
    if (!s->found.world) {
        s->found.world = world;
        s->ranks = calloc(world, sizeof *s->ranks);
        s->rank_count = s->ranks ? (int)world : 0;
    }
    if (!s->told) tell_run(s, line, time_of(input, line, "t"));
}

static const struct kind_word {
    const char *word;
    enum op_kind kind;
} kinds[] = {{"all_gather", OP_GATHER},
             {"reduce_scatter", OP_REDUCE_SCATTER},
             {"all_reduce", OP_ALL_REDUCE},
             {"broadcast", OP_BROADCAST},
             {"all_to_all", OP_ALL_TO_ALL}};

static enum phase phase_of(const cJSON *line)
{
    const char *phase = json_get_text(line, "phase");
    return phase && !strcmp(phase, "backward")                                   ? PHASE_BACKWARD
           : phase && (!strcmp(phase, "optimizer") || !strcmp(phase, "between")) ? PHASE_OPTIMIZER
                                                                                 : PHASE_FORWARD;
}

/* On the first of the lanes that is free then; with none, it is left out. */
static void put_op(struct stream *s, int rank, uint32_t step, struct job_op op, const enum lane lanes[], int count,
                   uint64_t from_ns, uint64_t to_ns, uint64_t all_there_ns)
{
    uint64_t *ended = s->ranks[rank].ended_ns;
    int lane = 0;
    while (lane < count && ended[lanes[lane]] > from_ns) lane++;
    if (lane == count || to_ns < from_ns) return;
    op.lane = lanes[lane];
    const int64_t number = job_operation(s->names, &op);
    const uint64_t last_ns = all_there_ns < to_ns ? all_there_ns : to_ns,
                   peers_ns = last_ns > from_ns ? last_ns - from_ns : 0;
    if (number < 0) return;
    ended[op.lane] = to_ns;
    PUSH(s, rank, from_ns, OP_BEGIN, op_begin, TRACE_OBSERVED, step, (uint32_t)number, from_ns);
    PUSH(s, rank, to_ns, OP_END, op_end, .schedule = TRACE_OBSERVED, .step = step, .op = (uint32_t)number,
         .issued_ns = from_ns, .ready_ns = from_ns, .started_ns = from_ns, .waited_on = -1, .peers_ns = peers_ns,
         .sent_bytes = job_sent_bytes(s->names, &op));
}

/* Parts of a step: of a unit, or the optimizer; whole forwards and backwards enclose those of their units. */
static void take_end(struct stream *s, const struct input *input, const cJSON *line)
{
    static const enum lane lanes[] = {LANE_COMPUTE, LANE_COMPUTE_2};
    const char *what = json_get_text(line, "what");
    const int unit = (int)json_get_number(line, "unit", s->names->unit_count - 1, -1);
    const uint64_t from_ns = time_of(input, line, "begin_t"), to_ns = time_of(input, line, "t");
    if (!what || !from_ns || !to_ns) {
        wrong(s, input, "an end without what, begin_t or t");
        return;
    }
    if (unit < 0 && s->names->unit_count && strcmp(what, "optimizer")) return;
    const enum phase phase = !strcmp(what, "optimizer") ? PHASE_OPTIMIZER
                             : !strcmp(what, "forward") ? PHASE_FORWARD
                                                        : PHASE_BACKWARD;
    char name[64];
    snprintf(name, sizeof name, "%.30s%s%s", what, unit >= 0 ? " " : "", unit >= 0 ? s->names->units[unit].name : "");
    put_op(s, input->rank, step_of(line), (struct job_op){.kind = OP_WORK, .phase = phase, .unit = unit, .name = name},
           lanes, 2, from_ns, to_ns, 0);
}

/* Since when all ranks are in a collective, as far as their lines have come. */
static uint64_t last_to_come(struct stream *s, uint64_t number, uint64_t issued_ns)
{
    struct meeting *at = &s->meetings[number % KEPT];
    if (at->number != number) *at = (struct meeting){number, 0};
    if (issued_ns > at->last_ns) at->last_ns = issued_ns;
    return at->last_ns;
}

static void take_collective(struct stream *s, const struct input *input, const cJSON *line)
{
    const char *word = json_get_text(line, "collective");
    const uint64_t ended_ns = time_of(input, line, "t"), told_ns = time_of(input, line, "issued_t");
    const uint64_t waited_ns = time_of(input, line, "waited_t"), returned_ns = time_of(input, line, "returned_t");
    const uint64_t to_ns = waited_ns     ? waited_ns
                           : returned_ns ? returned_ns
                                         : ended_ns,
                   from_ns = told_ns ? told_ns : to_ns;
    if (!word || !to_ns) {
        wrong(s, input, "a collective without its kind or t");
        return;
    }
    struct job_op op = {.kind = OP_EXCHANGE,
                        .phase = phase_of(line),
                        .unit = JOB_NO_UNIT,
                        .ranks = (uint32_t)json_get_number(line, "group_size", 1 << 20, 0),
                        .name = word};
    const double in = json_get_number(line, "input_bytes", 1e18, 0),
                 out = json_get_number(line, "output_bytes", 1e18, 0);
    op.bytes = (uint64_t)(in > out ? in : out);
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
        if (!strcmp(word, kinds[k].word)) op.kind = kinds[k].kind;
    static const enum lane lanes[] = {LANE_COMM, LANE_COMM_2, LANE_COMM_3};
    const double number = json_get_number(line, "number", 9e15, 0);
    const uint64_t last_ns = number > 0 && told_ns ? last_to_come(s, (uint64_t)number, from_ns) : 0;
    put_op(s, input->rank, step_of(line), op, lanes, 3, from_ns, to_ns, last_ns);
}

static void take_memory(struct stream *s, const struct input *input, const cJSON *line)
{
    static const struct {
        const char *key;
        uint8_t category;
    } keys[] = {{"parameter_bytes", CATEGORY_PARAMETERS},
                {"gradient_bytes", CATEGORY_GRADIENTS},
                {"optimizer_bytes", CATEGORY_OPTIMIZER}};
    const uint64_t time_ns = time_of(input, line, "t");
    uint64_t known = 0;
    for (size_t k = 0; k < sizeof keys / sizeof keys[0] && time_ns; k++) {
        const double bytes = json_get_number(line, keys[k].key, 1e18, -1);
        if (bytes < 0) continue;
        known += (uint64_t)bytes;
        PUSH(s, input->rank, time_ns, MEMORY, memory, TIER_DEVICE, keys[k].category, (uint64_t)bytes, (uint64_t)bytes,
             (uint64_t)bytes);
    }
    const double allocated = json_get_number(line, "allocated_bytes", 1e18, -1),
                 reserved = json_get_number(line, "reserved_bytes", 1e18, 0);
    const double peak = json_get_number(line, "peak_allocated_bytes", 1e18, 0);
    if (allocated < 0 || !time_ns) return;
    const uint64_t other = allocated > (double)known ? (uint64_t)allocated - known : 0;
    PUSH(s, input->rank, time_ns, MEMORY, memory, TIER_DEVICE, TRACE_UNATTRIBUTED, other,
         reserved > (double)known ? (uint64_t)reserved - known : other, other);
    PUSH(s, input->rank, time_ns, TIER_PEAK, tier_peak, TIER_DEVICE, (uint64_t)allocated, (uint64_t)reserved,
         (uint64_t)peak, (uint64_t)reserved);
}

static void take_step(struct stream *s, const struct input *input, const cJSON *line)
{
    const uint64_t from_ns = time_of(input, line, "begin_t"), to_ns = time_of(input, line, "t");
    if (!from_ns || to_ns < from_ns) {
        wrong(s, input, "a step without begin_t or t");
        return;
    }
    PUSH(s, input->rank, to_ns + 1, STEP_END, step_end, .step = step_of(line), .schedule = TRACE_OBSERVED,
         .stage = TRACE_NO_STAGE, .loss = NAN, .grad_norm = NAN, .learning_rate = NAN, .loss_scale = NAN,
         .micro_steps = (uint32_t)json_get_number(line, "micro_steps", 1e9, 1), .total_ns = to_ns - from_ns);
}

/* It comes after the step's end, which is still in the queue. */
static void take_loss(struct stream *s, const struct input *input, const cJSON *line)
{
    const cJSON *loss = json_get(line, "loss");
    for (int i = 0; i < s->queued && cJSON_IsNumber(loss); i++) {
        struct trace_record *record = &s->queue[i].record;
        if (record->kind == TRACE_STEP_END && record->rank == input->rank && record->step_end.step == step_of(line))
            record->step_end.loss = (float)loss->valuedouble;
    }
}

static void take_line(struct stream *s, struct input *input, const char *text, size_t bytes)
{
    cJSON *line = cJSON_ParseWithLength(text, bytes);
    const char *kind = json_get_text(line, "kind"), *what = json_get_text(line, "what");
    s->found.lines++;
    if (!kind) wrong(s, input, "no JSON object with a kind");
    else if (!strcmp(kind, "header")) take_header(s, input, line);
    else if (input->rank < 0 || input->rank >= s->rank_count) wrong(s, input, "no header before it, or of another job");
    else if (!strcmp(kind, "end")) take_end(s, input, line);
    else if (!strcmp(kind, "collective")) take_collective(s, input, line);
    else if (!strcmp(kind, "memory")) take_memory(s, input, line);
    else if (!strcmp(kind, "step")) take_step(s, input, line);
    else if (!strcmp(kind, "loss")) take_loss(s, input, line);
    else if (!strcmp(kind, "lost")) s->found.lost += (uint64_t)json_get_number(line, "lines", 1e18, 0);
    else if (!strcmp(kind, "begin") && what && !strcmp(what, "step") && time_of(input, line, "t"))
        PUSH(s, input->rank, time_of(input, line, "t"), STEP_BEGIN, step_begin, step_of(line), TRACE_OBSERVED,
             TRACE_NO_STAGE);
    const uint64_t time_ns = input->rank >= 0 ? time_of(input, line, "t") : 0;
    if (time_ns > input->newest_ns) input->newest_ns = time_ns;
    if (time_ns > s->newest_ns) s->newest_ns = time_ns;
    cJSON_Delete(line);
}

/* ---- reading ---- */

static void take_lines(struct stream *s, struct input *input)
{
    size_t at = 0;
    for (const uint8_t *end; (end = memchr(input->text.at + at, '\n', input->text.count - at));
         at = (size_t)(end - input->text.at) + 1) {
        input->lines++;
        if (end > input->text.at + at)
            take_line(s, input, (const char *)input->text.at + at, (size_t)(end - input->text.at) - at);
    }
    bytes_drop(&input->text, at);
    if (input->text.count <= LINE_MAX_BYTES) return;
    wrong(s, input, "a line of more than 1 MiB");
    input->ended = true;
}

/* False: nothing came. */
static bool read_input(struct stream *s, struct input *input)
{
    if (input->ended || !bytes_reserve(&input->text, READ_BYTES)) return false;
    const ssize_t got = read(input->fd, input->text.at + input->text.count, READ_BYTES);
    if (got > 0) {
        input->text.count += (size_t)got;
        input->read_ns = clock_ns();
        take_lines(s, input);
        return true;
    }
    const bool socket = s->listener >= 0, later = got < 0 && (errno == EAGAIN || errno == EINTR);
    input->ended = (got == 0 && (socket || !s->follow)) || (got < 0 && !later);
    return false;
}

static bool add_input(struct stream *s, int fd, const char *name)
{
    if (fd < 0 || s->count == INPUTS_MAX || !array_grow((void **)&s->inputs, s->count, &s->room, sizeof *s->inputs)) {
        if (fd >= 0) close(fd);
        return false;
    }
    s->inputs[s->count] = (struct input){.fd = fd, .rank = -1, .read_ns = clock_ns()};
    snprintf(s->inputs[s->count++].name, sizeof s->inputs->name, "%.79s", name);
    return true;
}

static void accept_all(struct stream *s)
{
    char name[32];
    for (int fd; s->listener >= 0 && (fd = accept4(s->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0;) {
        snprintf(name, sizeof name, "connection %d", s->count);
        add_input(s, fd, name);
    }
}

/* ---- records, in order of time ---- */

static void tell_operations(struct stream *s, uint64_t time_ns)
{
    for (; s->ops_told < s->names->op_count; s->ops_told++) {
        const struct job_op *op = &s->names->ops[s->ops_told];
        const struct trace_record record = {
            .kind = TRACE_OPERATION,
            .rank = TRACE_RANK_ALL,
            .time_ns = time_ns,
            .operation = {(uint32_t)s->ops_told, (uint8_t)op_words(op->kind, NULL)->code, (uint8_t)op->lane,
                          (uint8_t)op->phase, op->prefetch, op->unit < 0 ? TRACE_NO_UNIT : (uint32_t)op->unit,
                          op->ranks, op->bytes, TEXT_OF(op->name)}};
        trace_append(&s->out, &record);
    }
}

/* What the step has moved is told at its end. */
static void count_traffic(struct stream *s, const struct trace_record *record)
{
    if (record->rank >= s->rank_count) return;
    if (record->kind == TRACE_OP_END) {
        const enum traffic kind = op_traffic(s->names->ops[record->op_end.op].kind);
        if (kind == TRAFFIC_KINDS) return;
        s->ranks[record->rank].count[kind]++;
        s->ranks[record->rank].sent_bytes[kind] += record->op_end.sent_bytes;
        s->ranks[record->rank].busy_ns[kind] += record->time_ns - record->op_end.started_ns;
    }
    for (int kind = 0; kind < TRAFFIC_KINDS && record->kind == TRACE_STEP_END; kind++) {
        if (!s->ranks[record->rank].count[kind]) continue;
        const struct trace_record sum = {
            .kind = TRACE_TRAFFIC,
            .rank = record->rank,
            .time_ns = record->time_ns,
            .traffic = {record->step_end.step, (uint8_t)kind, (uint8_t)traffic_link((enum traffic)kind),
                        s->ranks[record->rank].count[kind], s->ranks[record->rank].sent_bytes[kind],
                        s->ranks[record->rank].busy_ns[kind]}};
        trace_append(&s->out, &sum);
        s->ranks[record->rank].count[kind] = 0;
        s->ranks[record->rank].sent_bytes[kind] = s->ranks[record->rank].busy_ns[kind] = 0;
    }
}

static void release(struct stream *s, uint64_t until_ns)
{
    while (s->queued && s->queue[0].time_ns <= until_ns && s->out.count < BLOCK_BYTES) {
        const struct moment next = pop(s);
        s->released_ns = next.time_ns;
        tell_operations(s, next.time_ns);
        count_traffic(s, &next.record);
        trace_append(&s->out, &next.record);
    }
}

static void tell_end(struct stream *s)
{
    char text[200];
    struct trace_record record = {.kind = TRACE_LOG, .rank = TRACE_RANK_ALL, .time_ns = s->newest_ns};
    if (s->found.lost || s->found.wrong) {
        snprintf(text, sizeof text, "%llu lines were dropped by the job, %llu could not be read",
                 (unsigned long long)s->found.lost, (unsigned long long)s->found.wrong);
        record.log = (struct trace_of_log){1, TEXT_OF(text)};
        trace_append(&s->out, &record);
    }
    record = (struct trace_record){
        .kind = TRACE_END, .rank = TRACE_RANK_ALL, .time_ns = s->newest_ns, .end = {OUTCOME_FINISHED, TEXT_OF("")}};
    trace_append(&s->out, &record);
    s->closed = true;
}

/* Up to when all inputs have told all: the earliest of their newest lines, less what a line may be late. An input from which nothing comes
 * any more is not waited for. */
static uint64_t told_until(const struct stream *s)
{
    uint64_t until_ns = UINT64_MAX;
    for (int i = 0; i < s->count; i++) {
        const struct input *input = &s->inputs[i];
        const bool silent = input->ended || (s->follow && clock_ns() - input->read_ns > SILENT_NS);
        const uint64_t told_ns = input->newest_ns > hold_ns ? input->newest_ns - hold_ns : 0;
        if (!silent && told_ns < until_ns) until_ns = told_ns;
    }
    return until_ns;
}

static enum source_result next(void *self, struct source_block *block)
{
    struct stream *s = self;
    uint64_t ticks;
    bool came = true, all_ended = false;
    if (s->closed) return SOURCE_END;
    if (s->timer >= 0 && read(s->timer, &ticks, sizeof ticks) < 0 && errno != EAGAIN)
        return source_fail(block, "the timer of the stream failed");
    s->out.count = 0;
    while (came && !s->out.count) {
        accept_all(s);
        came = false;
        all_ended = s->count > 0;
        for (int i = 0; i < s->count; i++) {
            came |= read_input(s, &s->inputs[i]);
            all_ended &= s->inputs[i].ended;
        }
        release(s, told_until(s));
    }
    if (job_failed(s->names)) return source_fail(block, "no memory to follow the job");
    if (all_ended && !s->queued && s->told) tell_end(s);
    block->records = s->out.at;
    block->bytes = s->out.count;
    return s->out.count ? SOURCE_RECORD : all_ended ? SOURCE_END : SOURCE_WAIT;
}

static int timer_of(const void *self)
{
    return ((const struct stream *)self)->timer;
}

static void close_stream(void *self)
{
    struct stream *s = self;
    for (int i = 0; i < s->count; i++) {
        close(s->inputs[i].fd);
        bytes_release(&s->inputs[i].text);
    }
    if (s->listener >= 0) close(s->listener), unlink(s->socket);
    if (s->timer >= 0) close(s->timer);
    free(s->inputs);
    free(s->queue);
    free(s->ranks);
    bytes_release(&s->out);
    job_free(s->names);
    free(s);
}

static const struct source_kind kind = {next, NULL, timer_of, NULL, close_stream};

/* ---- opening ---- */

bool stream_is(const char *path)
{
    char head[256] = "";
    struct stat there;
    if (stat(path, &there) || !S_ISREG(there.st_mode)) return false;
    FILE *file = fopen(path, "r");
    const size_t got = file ? fread(head, 1, sizeof head - 1, file) : 0;
    if (file) fclose(file);
    return got > 0 && head[0] == '{' && strstr(head, "\"kind\"") && strstr(head, "\"header\"");
}

static int open_folder(struct stream *s, const char *folder, struct error *err)
{
    struct dirent **list;
    const int count = scandir(folder, &list, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        char file[4096];
        snprintf(file, sizeof file, "%s/%s", folder, list[i]->d_name);
        if (stream_is(file)) add_input(s, open(file, O_RDONLY | O_CLOEXEC), list[i]->d_name);
        free(list[i]);
    }
    if (count >= 0) free(list);
    return s->count ? STATUS_OK : error_set(err, STATUS_INPUT, "%s holds no stream of a job (docs/STREAM.md)", folder);
}

static int listen_at(struct stream *s, const char *path, struct error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path)
        return error_set(err, STATUS_USAGE, "the name of the socket is too long: %s", path);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    s->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    const mode_t mask = umask(0177);
    const bool bound = s->listener >= 0 && bind(s->listener, (struct sockaddr *)&address, sizeof address) == 0;
    umask(mask);
    if (!bound || listen(s->listener, INPUTS_MAX)) {
        const int why = errno;
        if (s->listener >= 0 && !bound) close(s->listener), s->listener = -1;
        return error_set(err, STATUS_USAGE, "cannot listen at %s: %s", path, strerror(why));
    }
    snprintf(s->socket, sizeof s->socket, "%s", path);
    return STATUS_OK;
}

int stream_open(struct source **out, const char *path, bool follow, struct error *err)
{
    struct stat there;
    struct stream *s = calloc(1, sizeof *s);
    if (!s || !(s->names = job_new())) return free(s), error_set(err, STATUS_RUN, "no memory to follow a job");
    s->listener = s->timer = -1;
    s->follow = follow;
    int status = STATUS_OK;
    if (!strncmp(path, "unix:", 5)) status = listen_at(s, path + 5, err);
    else if (stat(path, &there) == 0 && S_ISDIR(there.st_mode)) status = open_folder(s, path, err);
    else if (!stream_is(path) || !add_input(s, open(path, O_RDONLY | O_CLOEXEC), path))
        status = error_set(err, STATUS_INPUT, "%s is no stream of a job (docs/STREAM.md)", path);
    if (!status && follow) {
        s->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
        const struct itimerspec every = {{0, TICK_NS}, {0, TICK_NS}};
        if (s->timer < 0 || timerfd_settime(s->timer, 0, &every, NULL))
            status = error_set(err, STATUS_RUN, "no timer to follow a job: %s", strerror(errno));
    }
    if (status) return close_stream(s), status;
    return source_open(out, &kind, s, err);
}

void stream_told(const struct source *source, struct stream_found *out)
{
    const struct stream *s = source_self(source, &kind);
    *out = s ? s->found : (struct stream_found){0};
}
