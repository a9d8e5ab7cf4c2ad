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
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/json.h"
#include "engine/import/kineto.h"
#include "engine/import/records.h"
#include "engine/trace/listen.h"
#include "engine/trace/source_kind.h"

enum { INPUTS_MAX = 1024, LINE_MAX_BYTES = 1 << 20, READ_BYTES = 1 << 16, BLOCK_BYTES = 1 << 20, TICK_NS = 50000000 };
static const uint64_t second_ns = 1000000000, hold_ns = second_ns / 4, silent_ns = 2 * second_ns;
enum { QUIET_S = 5 }; /* after so long without a line the viewer is told */

struct input {
    int fd, rank; /* -1: no header yet */
    char name[80], host[64];
    bool ended, finished;               /* finished: its last line has come */
    uint64_t lines, newest_ns, read_ns; /* newest_ns: of its lines; read_ns: when one came, by this machine's clock */
    struct bytes text;
    int64_t offset_ns;
};

struct stream {
    struct input *inputs;
    int count, room, listener, timer; /* listener, timer: -1: none */
    char *folder, failure[160];       /* failure: of the first rank that says it failed */
    bool follow, told, closed;
    uint64_t newest_ns;          /* of all lines */
    uint64_t header_ns, quiet_s; /* when the first header came, by this machine's clock; as the viewer was told */
    struct job job;              /* operations and units, each once */
    struct records records;
    uint64_t (*lane_ended_ns)[LANES]; /* [found.world] */
    struct stream_found found;
};

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

/* The first is told to the viewer too. */
static void wrong(struct stream *s, const struct input *input, const char *what)
{
    if (s->found.wrong++) return;
    snprintf(s->found.first_wrong, sizeof s->found.first_wrong, "%s, line %llu: %s", input->name,
             (unsigned long long)input->lines, what);
    if (s->found.ranks)
        records_push(&s->records, TRACE_RANK_ALL, s->newest_ns, RECORD(LOG, log, 1, TEXT_OF(s->found.first_wrong)));
}

/* Of a long name the end, which tells units apart; of equal ones the number. */
static void name_unit(struct job *job, const cJSON *unit, int number)
{
    char name[sizeof job->units->name];
    const char *text = json_get_text(unit, "name");
    const size_t length = text ? strlen(text) : 0, cut = length < sizeof name ? 0 : length - sizeof name + 1;
    const char *dot = cut ? strchr(text + cut - 1, '.') : NULL;
    snprintf(name, sizeof name, "%s", !text ? "" : dot && dot[1] ? dot + 1 : text + cut);
    const int64_t elems = (int64_t)json_get_number(unit, "parameters", 1e15, -1);
    if (job_unit(job, name, elems) == number) return;
    snprintf(name, sizeof name, "unit %d", number);
    job_unit(job, name, elems);
}

/* What the first header says of the job. */
static void name_job(struct job *job, const cJSON *header)
{
    const char *dtype = json_get_text(header, "dtype"), *wrapper = json_get_text(header, "wrapper");
    const bool deepspeed = wrapper && !strcmp(wrapper, "deepspeed");
    const char *version = json_get_text(json_get(header, "programs"), deepspeed ? "deepspeed" : "torch"),
               *precision = !dtype                       ? ""
                            : !strcmp(dtype, "bfloat16") ? "bf16"
                            : !strcmp(dtype, "float16")  ? "fp16"
                                                         : "fp32";
    const double stage = json_get_number(header, "stage", 3, -1);
    const cJSON *unit;
    int number = 0;
    snprintf(job->program, sizeof job->program, "%s %.24s", deepspeed ? "DeepSpeed" : "PyTorch",
             version ? version : "");
    snprintf(job->precision, sizeof job->precision, "%s", precision);
    if (stage >= 0) snprintf(job->recognised, sizeof job->recognised, "ZeRO-%d", (int)stage);
    else if (wrapper && !strcmp(wrapper, "ddp")) snprintf(job->recognised, sizeof job->recognised, "DDP");
    else if (wrapper && !strncmp(wrapper, "fsdp", 4))
        snprintf(job->recognised, sizeof job->recognised, "FSDP (FSDP%.4s)", wrapper + 4);
    job->parameters = (int64_t)json_get_number(header, "parameters", 1e15, -1);
    job->by_formula = true;
    cJSON_ArrayForEach(unit, json_get(header, "units")) name_unit(job, unit, number++);
}

/* Ranks of one host have one clock, so they get one offset. */
static void take_header(struct stream *s, struct input *input, const cJSON *line)
{
    const double t = json_get_number(line, "t", 4e18, -1), unix_ns = json_get_number(line, "unix_ns", 4e18, -1);
    const int rank = (int)json_get_number(line, "rank", JOB_RANKS_MAX - 1, -1);
    const uint32_t world = (uint32_t)json_get_number(line, "ranks", JOB_RANKS_MAX, 0);
    bool taken = input->rank >= 0;
    if (t < 0 || unix_ns < 0 || rank < 0 || rank >= (int)world)
        return wrong(s, input, "a header without t, unix_ns, rank or ranks");
    for (int i = 0; i < s->count; i++) taken |= s->inputs[i].rank == rank;
    if (taken || (s->found.ranks && world != s->found.world))
        return wrong(s, input, "a header of another job, or a second one of its rank");
    json_copy_text(input->host, sizeof input->host, line, "host");
    input->offset_ns = (int64_t)unix_ns - (int64_t)t;
    for (int i = s->count; i-- > 0;)
        if (s->inputs[i].rank >= 0 && !strcmp(s->inputs[i].host, input->host))
            input->offset_ns = s->inputs[i].offset_ns;
    input->rank = rank;
    if (s->found.ranks++) return;
    s->found.world = s->job.world = world;
    s->lane_ended_ns = calloc(world, sizeof *s->lane_ended_ns);
    s->job.failed |= !s->lane_ended_ns;
    s->header_ns = clock_ns();
    name_job(&s->job, line);
    snprintf(s->found.recognised, sizeof s->found.recognised, "%s", s->job.recognised);
}

static enum phase phase_of(const char *phase)
{
    if (phase && !strcmp(phase, "backward")) return PHASE_BACKWARD;
    return phase && (!strcmp(phase, "optimizer") || !strcmp(phase, "between")) ? PHASE_OPTIMIZER : PHASE_FORWARD;
}

/* On the first lane for it that is free then; with none, on the one that is free first, from then on. */
static void put_op(struct stream *s, int rank, uint32_t step, struct job_op op, uint64_t from_ns, uint64_t to_ns,
                   uint64_t meeting)
{
    uint64_t *ended_ns = s->lane_ended_ns[rank];
    const uint64_t issued_ns = from_ns;
    op.lane = op_lane(op.kind);
    for (enum lane lane = op.lane; lane < LANES && ended_ns[op.lane] > from_ns; lane++)
        if (lane_kind(lane) == op_lane(op.kind) && ended_ns[lane] < ended_ns[op.lane]) op.lane = lane;
    if (ended_ns[op.lane] > from_ns) from_ns = ended_ns[op.lane];
    if (to_ns < from_ns) to_ns = from_ns;
    ended_ns[op.lane] = to_ns;
    const int64_t number = job_operation(&s->job, &op);
    if (number >= 0)
        records_push_op(&s->records, rank,
                        &(struct records_op){step, (uint32_t)number, issued_ns, from_ns, to_ns, 0, meeting});
}

/* Parts of a step: of a unit, or the optimizer; whole forwards and backwards enclose those of their units. */
static void take_end(struct stream *s, struct input *input, const cJSON *line)
{
    const char *what = json_get_text(line, "what");
    const int unit = (int)json_get_number(line, "unit", s->job.unit_count - 1, -1);
    const uint64_t from_ns = time_of(input, line, "begin_t"), to_ns = time_of(input, line, "t");
    if (!what || !from_ns || to_ns < from_ns) return wrong(s, input, "an end without what, begin_t or t");
    const bool updates = !strcmp(what, "optimizer");
    char name[64];
    if (unit < 0 && s->job.unit_count && !updates) return;
    const enum phase phase = updates ? PHASE_OPTIMIZER : !strcmp(what, "forward") ? PHASE_FORWARD : PHASE_BACKWARD;
    snprintf(name, sizeof name, "%.30s%s%s", what, unit >= 0 ? " " : "", unit >= 0 ? s->job.units[unit].name : "");
    put_op(s, input->rank, step_of(line), (struct job_op){.kind = OP_WORK, .phase = phase, .unit = unit, .name = name},
           from_ns, to_ns, 0);
}

/* From its issue until the wait for it returned. One before the first step is of none. */
static void take_collective(struct stream *s, struct input *input, const cJSON *line)
{
    static const char *const ends[] = {"waited_t", "returned_t", "t"};
    const char *word = json_get_text(line, "collective"), *phase = json_get_text(line, "phase");
    const double number = json_get_number(line, "number", 9e15, 0), in = json_get_number(line, "input_bytes", 1e18, 0),
                 out = json_get_number(line, "output_bytes", 1e18, 0);
    const uint64_t issued_ns = time_of(input, line, "issued_t");
    uint64_t to_ns = 0;
    for (size_t e = 0; e < 3 && !to_ns; e++) to_ns = time_of(input, line, ends[e]);
    if (!word || !to_ns || to_ns < issued_ns) return wrong(s, input, "a collective without its kind or t");
    char name[40];
    snprintf(name, sizeof name, "%s", word);
    struct job_op op = {.kind = collective_named(word),
                        .phase = phase_of(phase),
                        .unit = JOB_NO_UNIT,
                        .name = name,
                        .ranks = (uint32_t)json_get_number(line, "group_size", 1 << 20, 0),
                        .bytes = (uint64_t)(in > out ? in : out)};
    const uint32_t step = phase && !strcmp(phase, "start") ? 0 : step_of(line);
    const bool all = number >= 1 && issued_ns && op.ranks == s->found.world;
    put_op(s, input->rank, step, op, issued_ns ? issued_ns : to_ns, to_ns, all ? (uint64_t)number : 0);
}

static void take_memory(struct stream *s, struct input *input, const cJSON *line)
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
        const double told = json_get_number(line, keys[k].key, 1e18, -1);
        if (told < 0) continue;
        known += (uint64_t)told;
        records_push(&s->records, input->rank, time_ns,
                     RECORD(MEMORY, memory, TIER_DEVICE, keys[k].category, (uint64_t)told, (uint64_t)told, 0));
    }
    const double allocated = json_get_number(line, "allocated_bytes", 1e18, -1);
    if (allocated < 0 || !time_ns) return;
    const uint64_t all = (uint64_t)allocated, reserved = (uint64_t)json_get_number(line, "reserved_bytes", 1e18, 0),
                   peak = (uint64_t)json_get_number(line, "peak_allocated_bytes", 1e18, 0),
                   other = all > known ? all - known : 0;
    records_push(
        &s->records, input->rank, time_ns,
        RECORD(MEMORY, memory, TIER_DEVICE, TRACE_UNATTRIBUTED, other, reserved > known ? reserved - known : other, 0));
    records_push(&s->records, input->rank, time_ns,
                 RECORD(TIER_PEAK, tier_peak, TIER_DEVICE, all, reserved, peak, reserved));
}

static void take_begin(struct stream *s, struct input *input, const cJSON *line)
{
    const char *what = json_get_text(line, "what");
    const uint64_t time_ns = time_of(input, line, "t");
    if (what && !strcmp(what, "step") && time_ns)
        records_push(&s->records, input->rank, time_ns,
                     RECORD(STEP_BEGIN, step_begin, step_of(line), TRACE_OBSERVED, TRACE_NO_STAGE));
}

static void take_step(struct stream *s, struct input *input, const cJSON *line)
{
    const uint64_t from_ns = time_of(input, line, "begin_t"), to_ns = time_of(input, line, "t");
    if (!from_ns || to_ns < from_ns) return wrong(s, input, "a step without begin_t or t");
    records_push_step_end(&s->records, input->rank, step_of(line), from_ns, to_ns,
                          (uint32_t)json_get_number(line, "micro_steps", 1e9, 1), NAN);
}

/* It comes after the step's end, which is still in the queue. A text is "nan", "inf" or "-inf". */
static void take_loss(struct stream *s, struct input *input, const cJSON *line)
{
    const cJSON *loss = json_get(line, "loss");
    const float value = cJSON_IsString(loss)   ? strtof(loss->valuestring, NULL)
                        : cJSON_IsNumber(loss) ? (float)loss->valuedouble
                                               : NAN;
    for (int i = s->records.queued; i-- > 0;) {
        struct trace_record *record = &s->records.queue[i].record;
        if (record->kind == TRACE_STEP_END && record->rank == input->rank && record->step_end.step == step_of(line))
            record->step_end.loss = value;
    }
}

static void take_lost(struct stream *s, struct input *input, const cJSON *line)
{
    const uint64_t lines = (uint64_t)json_get_number(line, "lines", 1e18, 0), time_ns = time_of(input, line, "t");
    s->found.lost += lines;
    if (lines && time_ns) records_push(&s->records, input->rank, time_ns, RECORD(GAP, gap, lines, input->newest_ns));
}

static void take_finish(struct stream *s, struct input *input, const cJSON *line)
{
    const char *error = json_get_text(line, "error");
    if (error && !s->failure[0]) snprintf(s->failure, sizeof s->failure, "rank %d: %s", input->rank, error);
    input->finished = input->ended = true;
}

static void take_line(struct stream *s, struct input *input, const char *text, size_t bytes)
{
    static const struct {
        const char *kind;
        void (*take)(struct stream *, struct input *, const cJSON *);
    } kinds[] = {{"begin", take_begin},   {"end", take_end},      {"collective", take_collective},
                 {"memory", take_memory}, {"step", take_step},    {"loss", take_loss},
                 {"lost", take_lost},     {"finish", take_finish}};
    cJSON *line = cJSON_ParseWithLength(text, bytes);
    const char *kind = json_get_text(line, "kind");
    s->found.lines++;
    if (!kind) wrong(s, input, "no JSON object with a kind");
    else if (!strcmp(kind, "header")) take_header(s, input, line);
    else if (input->rank < 0) wrong(s, input, "no header before it");
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0] && kind && input->rank >= 0 && !s->job.failed; k++)
        if (!strcmp(kind, kinds[k].kind)) kinds[k].take(s, input, line);
    const uint64_t time_ns = input->rank >= 0 ? time_of(input, line, "t") : 0;
    if (time_ns > input->newest_ns) input->newest_ns = time_ns;
    if (time_ns > s->newest_ns) s->newest_ns = time_ns;
    cJSON_Delete(line);
}

/* ---- reading ---- */

static void take_lines(struct stream *s, struct input *input)
{
    size_t at = 0;
    for (const uint8_t *end; !input->ended && (end = memchr(input->text.at + at, '\n', input->text.count - at));
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

/* False: nothing came. A file that is shorter than what was read of it is another one by now. */
static bool read_input(struct stream *s, struct input *input)
{
    struct stat there;
    if (input->ended || !bytes_reserve(&input->text, READ_BYTES)) return false;
    const ssize_t got = read(input->fd, input->text.at + input->text.count, READ_BYTES);
    if (got > 0) {
        input->text.count += (size_t)got;
        input->read_ns = clock_ns();
        take_lines(s, input);
        return true;
    }
    const bool later = got < 0 && (errno == EAGAIN || errno == EINTR);
    const bool cut =
        got == 0 && s->listener < 0 && fstat(input->fd, &there) == 0 && there.st_size < lseek(input->fd, 0, SEEK_CUR);
    if (cut) wrong(s, input, "the file was cut while it was read");
    input->ended = cut || (got == 0 && (s->listener >= 0 || !s->follow)) || (got < 0 && !later);
    return false;
}

static void add_input(struct stream *s, int fd, const char *name)
{
    struct input *input = fd < 0 || s->count == INPUTS_MAX ? NULL : array_add(s->inputs, s->count, s->room);
    if (input) {
        *input = (struct input){.fd = fd, .rank = -1, .read_ns = clock_ns()};
        snprintf(input->name, sizeof input->name, "%s", name);
    } else if (fd >= 0) close(fd);
}

static bool is_file_of_lines(const char *path)
{
    char head[256] = "";
    struct stat there;
    if (stat(path, &there) || !S_ISREG(there.st_mode)) return false;
    FILE *file = fopen(path, "r");
    const size_t got = file ? fread(head, 1, sizeof head - 1, file) : 0;
    if (file) fclose(file);
    return got > 0 && head[0] == '{' && strstr(head, "\"kind\"") && strstr(head, "\"header\"");
}

/* Files of a folder that are not read yet. */
static void add_files(struct stream *s)
{
    struct dirent **list;
    const int count = scandir(s->folder, &list, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        char file[4096];
        bool known = false;
        for (int k = 0; k < s->count; k++)
            known |= !strncmp(s->inputs[k].name, list[i]->d_name, sizeof s->inputs->name - 1);
        snprintf(file, sizeof file, "%s/%s", s->folder, list[i]->d_name);
        if (!known && is_file_of_lines(file)) add_input(s, open(file, O_RDONLY | O_CLOEXEC), list[i]->d_name);
        free(list[i]);
    }
    if (count >= 0) free(list);
}

static void add_connections(struct stream *s)
{
    char name[32];
    for (int fd; s->listener >= 0 && (fd = accept4(s->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0;) {
        snprintf(name, sizeof name, "connection %d", s->count + 1);
        add_input(s, fd, name);
    }
}

/* ---- records ---- */

static void tell_end(struct stream *s)
{
    char text[200] = "";
    enum outcome outcome = OUTCOME_FINISHED;
    for (int i = s->count; i-- > 0;)
        if (s->inputs[i].rank >= 0 && !s->inputs[i].finished)
            snprintf(text, sizeof text, "rank %d wrote no last line: it was killed, or still runs", s->inputs[i].rank);
    if (*text) outcome = OUTCOME_STOPPED;
    if (s->failure[0]) outcome = OUTCOME_FAILED, snprintf(text, sizeof text, "%s", s->failure);
    records_tell(&s->records, RECORD(END, end, (uint8_t)outcome, TEXT_OF(text)));
    s->closed = true;
}

/* Says for how long no line has come of the rank that is silent for longest. */
static void tell_quiet(struct stream *s)
{
    const struct input *quiet = NULL;
    char text[80] = "";
    for (int i = 0; i < s->count; i++)
        if (!s->inputs[i].ended && s->inputs[i].rank >= 0 && (!quiet || s->inputs[i].read_ns < quiet->read_ns))
            quiet = &s->inputs[i];
    uint64_t quiet_s = quiet ? (clock_ns() - quiet->read_ns) / second_ns : 0;
    if (quiet_s < QUIET_S) quiet_s = 0;
    else snprintf(text, sizeof text, "no line of rank %d for %llu s", quiet->rank, (unsigned long long)quiet_s);
    if (quiet_s != s->quiet_s) records_tell(&s->records, RECORD(STATE, state, 0, RUN_RUNNING, TEXT_OF(text)));
    s->quiet_s = quiet_s;
}

/* Up to when all inputs have told all: the earliest of their newest lines, less what a line may be late. An input from which
 * nothing comes any more is not waited for. */
static uint64_t told_until(const struct stream *s)
{
    uint64_t until_ns = UINT64_MAX;
    for (int i = 0; i < s->count; i++) {
        const struct input *input = &s->inputs[i];
        const bool silent = input->ended || (s->follow && clock_ns() - input->read_ns > silent_ns);
        const uint64_t told_ns = input->newest_ns > hold_ns ? input->newest_ns - hold_ns : 0;
        if (!silent && told_ns < until_ns) until_ns = told_ns;
    }
    return until_ns;
}

/* An input that is far ahead of the others is not read: its records would wait in memory. True: something came. */
static bool read_all(struct stream *s, bool *ended)
{
    const uint64_t until_ns = told_until(s);
    bool came = false;
    *ended = s->count > 0;
    for (int i = 0; i < s->count; i++) {
        struct input *input = &s->inputs[i];
        if (input->newest_ns < silent_ns || input->newest_ns - silent_ns < until_ns) came |= read_input(s, input);
        *ended &= input->ended;
    }
    return came;
}

static enum source_result next(void *self, struct source_block *block)
{
    struct stream *s = self;
    uint64_t ticks;
    bool came = true, ended = false;
    if (s->closed) return SOURCE_END;
    const bool ticked = s->timer >= 0 && read(s->timer, &ticks, sizeof ticks) > 0;
    if (ticked && s->folder && s->found.ranks < s->found.world) add_files(s);
    struct records *records = &s->records;
    records->out.count = 0;
    while (came && !records->out.count && !s->job.failed) {
        add_connections(s);
        came = read_all(s, &ended);
        const bool all_here =
            s->found.ranks == s->found.world || ended || (s->follow && clock_ns() - s->header_ns > silent_ns);
        if (!s->told && s->found.ranks && (all_here || (!came && !s->follow))) {
            records_begin(records, s->found.ranks, s->newest_ns);
            s->told = true;
        }
        if (s->told && !s->job.failed) records_release(records, told_until(s), BLOCK_BYTES);
    }
    if (s->job.failed) return source_fail(block, "no memory to follow the job");
    if (ended && !records->queued && s->told) tell_end(s);
    else if (ticked && s->told) tell_quiet(s);
    block->records = records->out.at;
    block->bytes = records->out.count;
    return records->out.count ? SOURCE_RECORD : ended && (s->told || !s->follow) ? SOURCE_END : SOURCE_WAIT;
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
    unlisten(s->listener);
    if (s->timer >= 0) close(s->timer);
    free(s->inputs);
    free(s->lane_ended_ns);
    free(s->folder);
    records_free(&s->records);
    job_release(&s->job);
    free(s);
}

static const struct source_kind kind = {next, NULL, timer_of, NULL, close_stream};

/* ---- opening ---- */

int stream_open(struct source **out, const char *path, bool follow, struct error *err)
{
    struct stat there;
    struct stream *s = calloc(1, sizeof *s);
    if (!s) return error_set(err, STATUS_RUN, "no memory to follow a job");
    s->listener = s->timer = -1;
    s->records.job = &s->job;
    s->follow = follow;
    int status = STATUS_OK;
    if (!strncmp(path, "unix:", 5)) {
        status = listen_at(&s->listener, path + 5, err);
        if (!status) listen(s->listener, INPUTS_MAX); /* all ranks connect at once */
    } else if (stat(path, &there) == 0 && S_ISDIR(there.st_mode)) {
        if ((s->folder = strdup(path))) add_files(s);
    } else if (is_file_of_lines(path)) add_input(s, open(path, O_RDONLY | O_CLOEXEC), path);
    if (!status && s->listener < 0 && !s->count)
        status = error_set(err, STATUS_INPUT, "%s holds no stream of a job (docs/STREAM.md)", path);
    if (!status && follow) {
        s->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
        const struct itimerspec every = {{0, TICK_NS}, {0, TICK_NS}};
        if (s->timer < 0 || timerfd_settime(s->timer, 0, &every, NULL))
            status = error_set(err, STATUS_RUN, "no timer to follow a job: %s", strerror(errno));
    }
    if (status) return close_stream(s), status;
    return source_open(out, &kind, s, err);
}

bool stream_is(const char *path)
{
    struct source *source;
    const bool is = strncmp(path, "unix:", 5) && stream_open(&source, path, false, NULL) == STATUS_OK;
    if (is) source_close(source);
    return is;
}

void stream_told(const struct source *source, struct stream_found *out)
{
    const struct stream *s = source_self(source, &kind);
    *out = s ? s->found : (struct stream_found){0};
}
