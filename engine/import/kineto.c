#include "engine/import/kineto.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/bytes.h"
#include "engine/base/json.h"
#include "engine/import/events.h"

/* NONE: no memory, or the most texts are there. */
enum { NAMES_MOST = 1 << 22, THREADS_MOST = 1 << 16, NONE = -1 };
/* What lies further from zero is no time: 126 years of time, 12 of duration. A base, a time and a duration do not overflow. */
#define TIME_MOST     INT64_C(4000000000000000000)
#define DURATION_MOST (TIME_MOST / 10)

/* ---- tables of names ---- */

static int name_of(struct kineto *k, struct foreign_text raw)
{
    const uint64_t key = map_hash(raw.at, raw.bytes, 1);
    const int known = (int)map_get(&k->name_table, key);
    if (known) return known - 1;
    struct kineto_name *name = k->name_count < NAMES_MOST ? array_add(k->names, k->name_count, k->name_room) : NULL;
    if (!name) return NONE;
    *name = (struct kineto_name){.unit = JOB_NO_UNIT};
    foreign_copy(raw, true, name->text, sizeof name->text);
    uint64_t *place = map_put(&k->name_table, key);
    if (!place) return NONE;
    *place = (uint64_t)k->name_count;
    return k->name_count - 1;
}

/* In older versions a thread is "stream 7 " or "thread 123 (python)". */
static int thread_of(struct kineto *k, const struct event *event, bool stream)
{
    const uint64_t process = map_hash(event->pid.at, event->pid.bytes, stream),
                   key = map_hash(event->tid.at, event->tid.bytes, process);
    const int known = (int)map_get(&k->thread_table, key);
    int64_t number;
    if (known) return known - 1;
    struct kineto_thread *thread =
        k->thread_count < THREADS_MOST ? array_add(k->threads, k->thread_count, k->thread_room) : NULL;
    if (!thread) return NONE;
    *thread = (struct kineto_thread){.first = 0};
    if (foreign_integer(event->tid, &number))
        snprintf(thread->name, sizeof thread->name, stream ? "stream %lld" : "thread %lld", (long long)number);
    else foreign_copy(event->tid, true, thread->name, sizeof thread->name);
    uint64_t *place = map_put(&k->thread_table, key);
    if (!place) return NONE;
    *place = (uint64_t)k->thread_count;
    return k->thread_count - 1;
}

/* ---- arguments of collectives ---- */

/* A type as C++, PyTorch or NCCL names it: "float", "c10::BFloat16", "Long". */
static int dtype_bytes_of(struct foreign_text name)
{
    static const struct {
        int bytes;
        const char *words[8];
    } types[] = {{8, {"double", "Double", "long int", "long", "Long"}},
                 {4, {"float", "Float", "int", "Int"}},
                 {2, {"BFloat16", "Half", "short", "Short"}},
                 {1, {"bool", "Bool", "unsigned char", "Byte", "signed char", "Char", "Float8_e4m3fn", "Float8_e5m2"}}};
    if (name.bytes > 5 && !memcmp(name.at, "c10::", 5)) name.at += 5, name.bytes -= 5;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        for (int w = 0; w < 8 && types[i].words[w]; w++)
            if (foreign_is(name, types[i].words[w])) return types[i].bytes;
    return 0;
}

/* What a name says: of a gloo event, a c10d operator, NCCL's kernel or "Collective name". */
enum op_kind collective_named(const char *name)
{
    static const struct {
        const char *parts[2];
        enum op_kind kind;
    } words[] = {{{"reduce_scatter", "reducescatter"}, OP_REDUCE_SCATTER},
                 {{"all_gather", "allgather"}, OP_GATHER},
                 {{"all_reduce", "allreduce"}, OP_ALL_REDUCE},
                 {{"broadcast", "broadcast"}, OP_BROADCAST},
                 {{"all_to_all", "alltoall"}, OP_ALL_TO_ALL}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcasestr(name, words[i].parts[0]) || strcasestr(name, words[i].parts[1])) return words[i].kind;
    return OP_EXCHANGE;
}

/* Bytes of each tensor of "Input Dims" ([[134912],[67456],[]] or of lists [[[66560]],[],...]) by "Input type": the largest. */
static uint64_t largest_tensor(const cJSON *dims, const cJSON *types)
{
    uint64_t most = 0;
    int fallback = 0;
    const cJSON *one, *type = types ? types->child : NULL;
    cJSON_ArrayForEach(one, dims)
    {
        const cJSON *list = cJSON_IsArray(one->child) ? one->child : one, *tensor;
        const char *word = cJSON_IsString(type) ? type->valuestring : "";
        const int bytes = dtype_bytes_of((struct foreign_text){word, strlen(word)});
        if (bytes) fallback = bytes;
        for (tensor = list; tensor; tensor = list == one ? NULL : tensor->next) {
            uint64_t elems = cJSON_IsArray(tensor) && (tensor->child || bytes) ? 1 : 0;
            const cJSON *size;
            cJSON_ArrayForEach(size, tensor) elems *=
                cJSON_IsNumber(size) && size->valuedouble > 0 ? (uint64_t)size->valuedouble : 0;
            const uint64_t total = elems * (uint64_t)(bytes ? bytes : fallback);
            if (total > most) most = total;
        }
        type = type ? type->next : NULL;
    }
    return most;
}

static uint64_t bytes_of_shapes(const struct event *event)
{
    struct foreign_text dims, types;
    if (!event_arg(event, "Input Dims", &dims) || !event_arg(event, "Input type", &types)) return 0;
    cJSON *d = cJSON_ParseWithLength(dims.at, dims.bytes), *t = cJSON_ParseWithLength(types.at, types.bytes);
    const uint64_t bytes = largest_tensor(d, t);
    cJSON_Delete(d);
    cJSON_Delete(t);
    return bytes;
}

/* NCCL's kernels say it in numbers. */
static uint64_t bytes_of_message(const struct event *event)
{
    int64_t in = 0, out = 0;
    struct foreign_text type;
    event_arg_int64(event, "In msg nelems", &in);
    event_arg_int64(event, "Out msg nelems", &out);
    const int size = event_arg(event, "dtype", &type) ? dtype_bytes_of(type) : 0;
    const int64_t most = in > out ? in : out;
    return most > 0 ? (uint64_t)most * (uint64_t)size : 0;
}

static bool add_collective(struct kineto *k, const struct event *event, const char *name)
{
    struct job_op *found = array_add(k->collectives, k->collective_count, k->collective_room);
    struct foreign_text text;
    char word[96];
    int64_t ranks = 0;
    if (!found) return false;
    *found = (struct job_op){.kind = collective_named(name)};
    if (event_arg(event, "Collective name", &text)) {
        foreign_copy(text, true, word, sizeof word);
        found->kind = collective_named(word);
        found->bytes = bytes_of_message(event);
    } else {
        found->bytes = bytes_of_shapes(event);
    }
    if (event_arg_int64(event, "Group size", &ranks) && ranks > 0 && ranks < 1 << 20) found->ranks = (uint32_t)ranks;
    if (event_arg(event, "Process Group Name", &text) && !foreign_is(text, "0") && !foreign_is(text, "default_pg"))
        found->group = (uint32_t)map_hash(text.at, text.bytes, 7) | 1;
    return true;
}

/* ---- events ---- */

/* The kind of a complete event: of the first row of its category that begins its name. Older versions begin categories with capitals. */
static enum kineto_kind kind_of(const struct event *event)
{
    static const struct {
        const char *categories[3], *begins;
        enum kineto_kind kind;
    } rows[] = {
        {{"user_annotation", "cpu_op", "Operator"}, "ProfilerStep#", KINETO_STEP},
        {{"cpu_op", "Operator"}, "c10d::", KINETO_ISSUE},
        {{"cpu_op", "Operator"}, "", KINETO_OPERATOR},
        {{"user_annotation"}, "gloo:", KINETO_GLOO},
        {{"user_annotation"}, "", KINETO_MARK},
        {{"kernel", "Kernel"}, "nccl", KINETO_NCCL},
        {{"kernel", "Kernel"}, "void nccl", KINETO_NCCL},
        {{"kernel", "Kernel"}, "", KINETO_KERNEL},
        {{"gpu_memcpy", "Memcpy"}, "", KINETO_COPY},
        {{"gpu_memset", "Memset"}, "", KINETO_COPY},
        {{"cuda_runtime", "cuda_driver", "Runtime"}, "", KINETO_LAUNCH},
        {{"python_function"}, "nn.Module: ", KINETO_MODULE},
    };
    const struct foreign_text name = event->name;
    for (size_t r = 0; r < sizeof rows / sizeof rows[0] && name.at; r++) {
        const size_t bytes = strlen(rows[r].begins);
        if (name.bytes < bytes || memcmp(name.at, rows[r].begins, bytes)) continue;
        for (int c = 0; c < 3 && rows[r].categories[c]; c++)
            if (foreign_is(event->category, rows[r].categories[c])) return rows[r].kind;
    }
    return KINETO_KINDS;
}

/* False: no memory. */
static bool add_event(struct kineto *k, const struct event *event)
{
    const enum kineto_kind kind = kind_of(event);
    const bool on_gpu = kind == KINETO_KERNEL || kind == KINETO_NCCL || kind == KINETO_COPY;
    int64_t number = 0;
    const bool sane = event->ts_ns < TIME_MOST && event->ts_ns > -TIME_MOST && event->dur_ns < DURATION_MOST;
    if (kind == KINETO_KINDS || !event->has_ts || !sane || event->dur_ns < 0) return k->skipped++, true;
    if (on_gpu || kind == KINETO_LAUNCH) event_arg_int64(event, "correlation", &number);
    if (kind == KINETO_LAUNCH && number <= 0) return k->skipped++, true;
    const int name = name_of(k, event->name), thread = thread_of(k, event, on_gpu);
    if (name == NONE || thread == NONE) {
        if (k->name_count < NAMES_MOST && k->thread_count < THREADS_MOST) return false;
        return k->skipped++, true;
    }
    struct kineto_event *found = array_add(k->events, k->event_count, k->event_room);
    if (!found) return false;
    *found = (struct kineto_event){.begun_ns = event->ts_ns,
                                   .ended_ns = event->ts_ns + event->dur_ns,
                                   .kind = (uint8_t)kind,
                                   .name = (uint32_t)name & (NAMES_MOST - 1),
                                   .thread = (uint16_t)thread,
                                   .number = number > 0 ? (uint32_t)number : 0,
                                   .collective = (uint32_t)k->collective_count};
    if (kind == KINETO_STEP) found->number = (uint32_t)strtoul(k->names[name].text + strlen("ProfilerStep#"), NULL, 10);
    k->gpu |= on_gpu;
    if ((kind == KINETO_ISSUE || kind == KINETO_GLOO || kind == KINETO_NCCL) &&
        !add_collective(k, event, k->names[name].text))
        return false;
    k->by_kind[kind]++;
    return true;
}

static bool add_memory(struct kineto *k, const struct event *event)
{
    int64_t allocated, reserved = 0, device = 0;
    if (!event->has_ts || event->ts_ns > TIME_MOST || event->ts_ns < -TIME_MOST ||
        !event_arg_int64(event, "Total Allocated", &allocated) || allocated < 0)
        return k->skipped++, true;
    event_arg_int64(event, "Total Reserved", &reserved);
    event_arg_int64(event, "Device Type", &device);
    struct job_lane *memory = &k->memory[device == 1];
    struct job_span *added = array_add(memory->at, memory->count, memory->room);
    if (!added) return false;
    *added = (struct job_span){.started_ns = event->ts_ns,
                               .ended_ns = event->ts_ns,
                               .live_bytes = (uint64_t)allocated,
                               .reserved_bytes = reserved > 0 ? (uint64_t)reserved : 0};
    return true;
}

/* A member of the top-level object. */
static void add_top(struct kineto *k, const struct event *member)
{
    int64_t base_ns;
    if (foreign_is(member->name, "host_name")) foreign_copy(member->args, true, k->host, sizeof k->host);
    if (foreign_is(member->name, "baseTimeNanoseconds") && foreign_integer(member->args, &base_ns))
        k->base_ns = base_ns > 0 && base_ns <= TIME_MOST ? base_ns : 0;
    if (foreign_is(member->name, "distributedInfo")) {
        cJSON *info = cJSON_ParseWithLength(member->args.at, member->args.bytes);
        k->rank = (int)json_get_number(info, "rank", JOB_RANKS_MAX - 1, -1);
        k->world = (int)json_get_number(info, "world_size", 1 << 20, -1);
        cJSON_Delete(info);
    }
}

static bool add(struct kineto *k, enum event_result result, const struct event *event)
{
    if (result == EVENT_MEMBER) return add_top(k, event), true;
    if (event->phase == 'X') return add_event(k, event);
    if (event->phase == 'i' && foreign_is(event->name, "[memory]")) return add_memory(k, event);
    k->skipped++;
    return true;
}

int kineto_read(struct kineto *out, const char *path, char cut[256], struct error *err)
{
    struct event_reader reader;
    struct event event;
    enum event_result result;
    int status = STATUS_OK;
    *out = (struct kineto){.rank = -1, .world = -1};
    cut[0] = '\0';
    event_reader_open(&reader, path);
    while (!status && (result = event_reader_next(&reader, &event)) >= EVENT)
        if (!add(out, result, &event)) status = error_set(err, STATUS_RUN, "no memory for the events of %s", path);
    if (reader.err.status && !out->event_count) status = error_set(err, reader.err.status, "%s", reader.err.text);
    else if (reader.err.status) snprintf(cut, 256, "%.255s", reader.err.text);
    out->bytes = event_reader_bytes(&reader);
    event_reader_close(&reader);
    return status;
}

void kineto_release(struct kineto *k)
{
    free(k->names);
    free(k->threads);
    free(k->events);
    free(k->collectives);
    free(k->steps);
    free(k->memory[0].at);
    free(k->memory[1].at);
    map_release(&k->name_table);
    map_release(&k->thread_table);
    *k = (struct kineto){0};
}
