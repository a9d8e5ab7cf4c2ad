#include "engine/import/kineto.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/bytes.h"
#include "engine/base/json.h"
#include "engine/import/events.h"

enum { NAME_ROOM = 96, NAMES_MOST = 1 << 24 };
/* What lies further from zero is no time: 126 years of time, 12 of duration. A base, a time and a duration do not overflow. */
#define TIME_MOST     INT64_C(4000000000000000000)
#define DURATION_MOST (TIME_MOST / 10)

/* ---- tables of names ---- */

static uint64_t hash_of(const char *at, size_t bytes, uint64_t hash)
{
    for (; bytes >= 8; bytes -= 8, at += 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    for (; bytes; bytes--) hash = (hash ^ (uint8_t)*at++) * 0x100000001b3u;
    return hash ^ hash >> 32;
}

/* Keys are 64-bit hashes: two names of one file that collide (3 in 10^8 for a million) would be shown as one. */
static struct kineto_key *key_place(struct kineto_key *table, int room, uint64_t key)
{
    uint32_t at = (uint32_t)key & (uint32_t)(room - 1);
    while (table[at].index && table[at].key != key) at = (at + 1) & (uint32_t)(room - 1);
    return &table[at];
}

static bool grow_keys(struct kineto_key **table, int *room)
{
    const int larger = *room ? 2 * *room : 1024;
    struct kineto_key *fresh = calloc((size_t)larger, sizeof *fresh);
    if (!fresh) return false;
    for (int i = 0; i < *room; i++)
        if ((*table)[i].index) *key_place(fresh, larger, (*table)[i].key) = (*table)[i];
    free(*table);
    *table = fresh;
    *room = larger;
    return true;
}

/* The index of a text under its key; UINT32_MAX: no memory. */
static uint32_t index_of(char ***list, int *count, int *list_room, struct kineto_key **table, int *room, uint64_t key,
                         const char *text)
{
    if (2 * *count >= *room && !grow_keys(table, room)) return UINT32_MAX;
    struct kineto_key *place = key_place(*table, *room, key);
    if (place->index) return place->index - 1;
    char *copy = strdup(text);
    if (!copy || !array_grow((void **)list, *count, list_room, sizeof **list)) return free(copy), UINT32_MAX;
    (*list)[*count] = copy;
    *place = (struct kineto_key){key, (uint32_t)++ * count};
    return place->index - 1;
}

static uint32_t name_of(struct kineto *k, struct foreign_text raw)
{
    const uint64_t key = hash_of(raw.at, raw.bytes, 1);
    char text[NAME_ROOM];
    if (k->name_table_room) { /* most names are known: no copy */
        const struct kineto_key *place = key_place(k->name_table, k->name_table_room, key);
        if (place->index) return place->index - 1;
    }
    foreign_copy(raw, true, text, sizeof text);
    return index_of(&k->names, &k->name_count, &k->name_room, &k->name_table, &k->name_table_room, key, text);
}

static uint32_t thread_of(struct kineto *k, const struct event *event, bool stream)
{
    const struct foreign_text name = event->tid.text; /* of older versions: "stream 7 ", "thread 123 (python)" */
    const uint64_t number = event->tid.known ? (uint64_t)event->tid.value : hash_of(name.at, name.bytes, 3);
    const uint64_t key = number * 0x9e3779b97f4a7c15u ^ (uint64_t)event->pid.value << 1 ^ stream;
    char text[40];
    if (k->thread_table_room) {
        const struct kineto_key *place = key_place(k->thread_table, k->thread_table_room, key);
        if (place->index) return place->index - 1;
    }
    if (event->tid.known)
        snprintf(text, sizeof text, stream ? "stream %lld" : "thread %lld", (long long)event->tid.value);
    else foreign_copy(name, true, text, sizeof text);
    return index_of(&k->threads, &k->thread_count, &k->thread_room, &k->thread_table, &k->thread_table_room, key, text);
}

/* ---- arguments of collectives ---- */

static int dtype_bytes_of(struct foreign_text name)
{
    static const struct {
        const char *word;
        int bytes;
    } types[] = {{"float", 4},         {"Float", 4},
                 {"double", 8},        {"Double", 8},
                 {"c10::BFloat16", 2}, {"BFloat16", 2},
                 {"c10::Half", 2},     {"Half", 2},
                 {"long int", 8},      {"long", 8},
                 {"Long", 8},          {"int", 4},
                 {"Int", 4},           {"bool", 1},
                 {"Bool", 1},          {"unsigned char", 1},
                 {"Byte", 1},          {"signed char", 1},
                 {"Char", 1},          {"short", 2},
                 {"Short", 2},         {"c10::Float8_e4m3fn", 1},
                 {"Float8_e4m3fn", 1}, {"c10::Float8_e5m2", 1},
                 {"Float8_e5m2", 1}};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (foreign_is(name, types[i].word)) return types[i].bytes;
    return 0;
}

/* What a name says: of a gloo event, a c10d operator, NCCL's kernel or "Collective name". */
enum op_kind collective_named(const char *name)
{
    static const struct {
        const char *part;
        enum op_kind kind;
    } words[] = {{"reduce_scatter", OP_REDUCE_SCATTER},
                 {"reducescatter", OP_REDUCE_SCATTER},
                 {"allgather", OP_GATHER},
                 {"all_gather", OP_GATHER},
                 {"allreduce", OP_ALL_REDUCE},
                 {"all_reduce", OP_ALL_REDUCE},
                 {"broadcast", OP_BROADCAST},
                 {"alltoall", OP_ALL_TO_ALL},
                 {"all_to_all", OP_ALL_TO_ALL}};
    char lower[NAME_ROOM];
    size_t i = 0;
    for (; name[i] && i < sizeof lower - 1; i++)
        lower[i] = name[i] >= 'A' && name[i] <= 'Z' ? (char)(name[i] + 32) : name[i];
    lower[i] = '\0';
    for (i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strstr(lower, words[i].part)) return words[i].kind;
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
            const uint64_t total = elems * (uint64_t)(bytes ? bytes : fallback ? fallback : 0);
            if (total > most) most = total;
        }
        type = type ? type->next : NULL;
    }
    return most;
}

static uint64_t bytes_of_shapes(struct kineto *k, const struct event *event)
{
    struct foreign_text dims, types;
    if (!event_arg(event, "Input Dims", &dims) || !event_arg(event, "Input type", &types)) return 0;
    k->shapes = true;
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

static uint32_t add_collective(struct kineto *k, const struct event *event, const char *name)
{
    struct kineto_collective found = {.kind = collective_named(name)};
    struct foreign_text text;
    char word[NAME_ROOM];
    int64_t ranks = 0;
    if (event_arg(event, "Collective name", &text)) {
        foreign_copy(text, true, word, sizeof word);
        found.kind = collective_named(word);
        found.bytes = bytes_of_message(event);
    } else {
        found.bytes = bytes_of_shapes(k, event);
    }
    if (event_arg_int64(event, "Group size", &ranks) && ranks > 0 && ranks < 1 << 20) found.ranks = (uint32_t)ranks;
    if (event_arg(event, "Process Group Name", &text) && !foreign_is(text, "0") && !foreign_is(text, "default_pg"))
        found.group = (uint32_t)hash_of(text.at, text.bytes, 7) | 1;
    if (!array_grow((void **)&k->collectives, k->collective_count, &k->collective_room, sizeof *k->collectives))
        return UINT32_MAX;
    k->collectives[k->collective_count] = found;
    return (uint32_t)k->collective_count++;
}

/* ---- events ---- */

static bool starts(struct foreign_text text, const char *with)
{
    const size_t bytes = strlen(with);
    return text.bytes >= bytes && !memcmp(text.at, with, bytes);
}

/* The kind of a complete event; KINETO_KINDS: it is left out. */
static enum kineto_kind kind_of(const struct event *event)
{
    const struct foreign_text category = event->category, name = event->name;
    if (!category.at || !name.at) return KINETO_KINDS;
    if (starts(name, "ProfilerStep#") && !foreign_is(category, "gpu_user_annotation")) return KINETO_STEP;
    if (foreign_is(category, "cpu_op") || foreign_is(category, "Operator"))
        return starts(name, "c10d::") ? KINETO_ISSUE : KINETO_OPERATOR;
    if (foreign_is(category, "user_annotation")) return starts(name, "gloo:") ? KINETO_GLOO : KINETO_MARK;
    if (foreign_is(category, "kernel") || foreign_is(category, "Kernel"))
        return starts(name, "nccl") || starts(name, "void nccl") ? KINETO_NCCL : KINETO_KERNEL;
    if (foreign_is(category, "gpu_memcpy") || foreign_is(category, "Memcpy") || foreign_is(category, "gpu_memset") ||
        foreign_is(category, "Memset"))
        return KINETO_COPY;
    if (foreign_is(category, "cuda_runtime") || foreign_is(category, "cuda_driver") || foreign_is(category, "Runtime"))
        return KINETO_LAUNCH;
    if (foreign_is(category, "python_function") && starts(name, "nn.Module: ")) return KINETO_MODULE;
    return KINETO_KINDS;
}

static bool add_event(struct kineto *k, const struct event *event)
{
    const enum kineto_kind kind = kind_of(event);
    int64_t number = 0;
    const bool sane = event->ts_ns < TIME_MOST && event->ts_ns > -TIME_MOST && event->dur_ns < DURATION_MOST;
    if (kind == KINETO_KINDS || !event->has_ts || !sane || (event->has_dur && event->dur_ns < 0))
        return k->skipped++, true;
    struct kineto_event found = {.begun_ns = event->ts_ns,
                                 .ended_ns = event->ts_ns + (event->has_dur ? event->dur_ns : 0),
                                 .kind = (uint8_t)kind};
    const bool on_gpu = kind == KINETO_KERNEL || kind == KINETO_NCCL || kind == KINETO_COPY;
    const uint32_t name = name_of(k, event->name);
    found.thread = thread_of(k, event, on_gpu);
    if (name == UINT32_MAX || found.thread == UINT32_MAX) return false;
    if (name >= NAMES_MOST) return k->skipped++, true;
    found.name = name;
    if (kind == KINETO_STEP) found.number = (uint32_t)strtoul(k->names[found.name] + strlen("ProfilerStep#"), NULL, 10);
    if (on_gpu || kind == KINETO_LAUNCH) {
        k->gpu |= on_gpu;
        if (event_arg_int64(event, "correlation", &number) && number > 0) found.number = (uint32_t)number;
        else if (kind == KINETO_LAUNCH) return k->skipped++, true;
    }
    if (kind == KINETO_ISSUE || kind == KINETO_GLOO || kind == KINETO_NCCL)
        found.collective = add_collective(k, event, k->names[found.name]);
    if (found.collective == UINT32_MAX) return false;
    if (!array_grow((void **)&k->events, k->event_count, &k->event_room, sizeof *k->events)) return false;
    k->events[k->event_count++] = found;
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
    if (!array_grow((void **)&k->memory, k->memory_count, &k->memory_room, sizeof *k->memory)) return false;
    k->memory[k->memory_count++] =
        (struct kineto_memory){event->ts_ns, (uint64_t)allocated, reserved > 0 ? (uint64_t)reserved : 0, device == 1};
    return true;
}

static bool add(struct kineto *k, const struct event *event)
{
    if (event->phase == 'X') return add_event(k, event);
    if (event->phase == 'i' && event->name.at && foreign_is(event->name, "[memory]")) return add_memory(k, event);
    k->skipped++;
    return true;
}

static void read_top(struct kineto *k, const struct event_reader *reader)
{
    const char *distributed = event_reader_top(reader, "distributedInfo"),
               *host = event_reader_top(reader, "host_name");
    const char *base = event_reader_top(reader, "baseTimeNanoseconds");
    cJSON *info = distributed ? cJSON_Parse(distributed) : NULL;
    k->rank = (int)json_get_number(info, "rank", JOB_RANKS_MAX - 1, -1);
    k->world = (int)json_get_number(info, "world_size", 1 << 20, -1);
    cJSON_Delete(info);
    if (host) { /* a JSON string */
        cJSON *text = cJSON_Parse(host);
        if (cJSON_IsString(text)) snprintf(k->host, sizeof k->host, "%s", text->valuestring);
        cJSON_Delete(text);
    }
    int64_t base_ns = base ? strtoll(base, NULL, 10) : 0;
    if (base_ns < 0 || base_ns > TIME_MOST) base_ns = 0;
    for (int i = 0; i < k->event_count && base_ns; i++) {
        k->events[i].begun_ns += base_ns;
        k->events[i].ended_ns += base_ns;
    }
    for (int i = 0; i < k->memory_count && base_ns; i++) k->memory[i].time_ns += base_ns;
    snprintf(k->program, sizeof k->program, "PyTorch profiler");
}

int kineto_read(struct kineto *out, const char *path, char cut[256], struct error *err)
{
    struct event_reader *reader;
    struct event event;
    enum event_result result;
    bool memory = true;
    *out = (struct kineto){.rank = -1, .world = -1};
    cut[0] = '\0';
    int status = event_reader_open(&reader, path, err);
    if (status) return status;
    while (memory && (result = event_reader_next(reader, &event)) == EVENT) memory = add(out, &event);
    if (!memory) status = error_set(err, STATUS_RUN, "no memory for the events of %s", path);
    else if (result == EVENT_BAD && !out->event_count)
        status = error_set(err, STATUS_INPUT, "%s", event_reader_error(reader));
    else if (result == EVENT_BAD) snprintf(cut, 256, "%s", event_reader_error(reader));
    if (!status) read_top(out, reader);
    out->bytes = event_reader_bytes(reader);
    event_reader_close(reader);
    return status;
}

void kineto_release(struct kineto *k)
{
    for (int i = 0; i < k->name_count; i++) free(k->names[i]);
    for (int i = 0; i < k->thread_count; i++) free(k->threads[i]);
    free(k->names);
    free(k->threads);
    free(k->events);
    free(k->collectives);
    free(k->memory);
    free(k->name_table);
    free(k->thread_table);
    *k = (struct kineto){0};
}
