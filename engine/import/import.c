#include "engine/import/import.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/import/kineto.h"
#include "engine/trace/file.h"

/* ---- which files ---- */

/* What a file begins with. */
enum format { FORMAT_NONE, FORMAT_JSON, FORMAT_PICKLE };

/* JSON begins with a brace or a bracket, gzip with 1f 8b, a pickle with 80 and its protocol. */
static enum format format_of(const char *path)
{
    char head[64] = "";
    FILE *file = fopen(path, "rb");
    const size_t bytes = file ? fread(head, 1, sizeof head - 1, file) : 0;
    if (file) fclose(file);
    if (bytes >= 2 && !memcmp(head, "\x1f\x8b", 2)) return FORMAT_JSON;
    if (bytes >= 2 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5) return FORMAT_PICKLE;
    const char *at = head + (!strncmp(head, "\xef\xbb\xbf", 3) ? 3 : 0);
    at += strspn(at, " \n\r\t");
    return *at == '{' || *at == '[' ? FORMAT_JSON : FORMAT_NONE;
}

static int is_trace_name(const struct dirent *entry)
{
    const char *name = entry->d_name;
    return file_ends_in(name, ".json") || file_ends_in(name, ".json.gz") || file_ends_in(name, ".pickle") ||
           file_ends_in(name, ".pkl");
}

/* What is done with a file; in_folder: one of several. */
typedef int taker(struct import *out, const char *file, bool in_folder, struct error *err);

/* Calls `take` with the path, or if it is a folder, with each file in it that has a trace's name, in their order, until one gives a
 * status, which is returned. */
static int each_file(const char *path, taker *take, struct import *out, struct error *err)
{
    struct dirent **list;
    char file[4096];
    int status = STATUS_OK;
    const int count = scandir(path, &list, is_trace_name, alphasort);
    if (count < 0) return take(out, path, false, err);
    for (int i = 0; i < count; i++) {
        snprintf(file, sizeof file, "%s/%s", path, list[i]->d_name);
        if (!status) status = take(out, file, true, err);
        free(list[i]);
    }
    free(list);
    return status;
}

static int has_format(struct import *out, const char *file, bool in_folder, struct error *err)
{
    (void)out, (void)in_folder, (void)err;
    return format_of(file) != FORMAT_NONE;
}

bool import_is_foreign(const char *path)
{
    return stream_is(path) || each_file(path, has_format, NULL, NULL);
}

/* ---- one file: a rank ---- */

static int free_rank(const struct job *job)
{
    int rank = 0;
    while (rank < job->rank_count && job->ranks[rank].present) rank++;
    return rank;
}

static void note(struct import *out, const struct kineto *k, const char *cut)
{
    out->files++;
    out->bytes += k->bytes;
    out->operators += k->by_kind[KINETO_OPERATOR];
    out->kernels += k->by_kind[KINETO_KERNEL];
    out->collectives += k->gpu ? k->by_kind[KINETO_NCCL] : k->by_kind[KINETO_GLOO];
    out->memory += (uint64_t)(k->memory[0].count + k->memory[1].count);
    out->skipped += k->skipped;
    out->has_steps |= k->by_kind[KINETO_STEP] > 0;
    for (int c = 0; c < k->collective_count; c++) out->has_shapes |= k->collectives[c].bytes > 0;
    if (*cut && !out->cut[0]) snprintf(out->cut, sizeof out->cut, "%s", cut);
}

/* On an error nothing of the file has become part of the job. */
static int import_trace(struct import *out, const char *path, struct error *err)
{
    struct kineto kineto;
    char cut[256];
    int status = kineto_read(&kineto, path, cut, err);
    const int rank = kineto.rank >= 0 ? kineto.rank : free_rank(&out->job);
    if (!status && !kineto.event_count && !kineto.memory[0].count && !kineto.memory[1].count)
        status = error_set(
            err, STATUS_INPUT,
            "%s is Chrome JSON without an event of a training job (steps, operators, kernels, collectives)", path);
    if (!status && rank < out->job.rank_count && out->job.ranks[rank].present)
        status = error_set(err, STATUS_INPUT, "%s is of rank %d, as another file before it", path, rank);
    if (!status) {
        note(out, &kineto, cut);
        kineto_to_job(&out->job, &kineto, rank);
    }
    kineto_release(&kineto);
    return status;
}

static int take_file(struct import *out, const char *file, bool in_folder, struct error *err)
{
    struct error why;
    uint64_t changes = 0;
    int status = format_of(file) != FORMAT_PICKLE
                     ? import_trace(out, file, &why)
                     : snapshot_to_job(&out->job, file, free_rank(&out->job), &changes, &why);
    if (!status) out->memory += changes, out->files += changes > 0;
    if (status == STATUS_INPUT && in_folder) { /* JSON of other kinds lies beside traces */
        if (out->beside_count++ < BESIDE_MAX)
            snprintf(out->beside[out->beside_count - 1], sizeof out->beside[0], "%.255s", why.text);
        return STATUS_OK;
    }
    return status ? error_set(err, status, "%s", why.text) : STATUS_OK;
}

int import_write(struct import *import, const char *path, struct error *err)
{
    struct trace_file *file = NULL;
    struct source *source;
    struct trace_record record;
    enum source_result result;
    if (!import->stream) return path ? job_write(&import->job, path, err) : STATUS_OK;
    int status = stream_open(&source, import->stream, false, err);
    if (status) return status;
    if (path) status = trace_file_create(&file, path, err);
    while (!status && (result = source_next(source, &record)) == SOURCE_RECORD)
        if (file) status = trace_file_put_encoded(file, source_encoded(source), err);
    if (!status && result == SOURCE_BAD) status = error_set(err, STATUS_INPUT, "%s", source_error(source));
    stream_told(source, &import->told);
    if (!status && !import->told.ranks)
        status = error_set(err, STATUS_INPUT, "%s: %.160s", import->stream, import->told.first_wrong);
    source_close(source);
    const int closed = file ? trace_file_close(file, status ? NULL : err) : STATUS_OK;
    return status ? status : closed;
}

int import_files(struct import *out, const char *const *paths, int count, struct error *err)
{
    int status = STATUS_OK;
    *out = (struct import){.job.parameters = -1};
    if (stream_is(paths[0])) {
        out->stream = paths[0];
        if (count == 1) return STATUS_OK;
        return error_set(err, STATUS_USAGE, "%s is a stream of a job; give the folder of all its ranks", paths[0]);
    }
    for (int i = 0; i < count && !status; i++) {
        const int before = out->files;
        status = each_file(paths[i], take_file, out, err);
        if (!status && out->files == before)
            status = error_set(err, STATUS_INPUT, "%s holds no trace of a rank; the first file: %.200s", paths[i],
                               out->beside[0]);
    }
    if (!status) {
        job_settle(&out->job);
        job_recognise(&out->job);
        if (out->job.failed) status = error_set(err, STATUS_RUN, "no memory for what was read from %s", paths[0]);
    }
    if (status) import_release(out);
    return status;
}

void import_release(struct import *import)
{
    job_release(&import->job);
    *import = (struct import){0};
}

int import_to_unnamed(const char *const *paths, int count, char path[64], int *fd, struct error *err)
{
    struct import import;
    char name[4096];
    const char *set = getenv("TMPDIR"), *folder = set && *set ? set : "/tmp";
    int status = import_files(&import, paths, count, err);
    if (status) return status;
    snprintf(name, sizeof name, "%s/zerolab-import-XXXXXX", folder);
    *fd = mkstemp(name);
    if (*fd < 0) status = error_set(err, STATUS_RUN, "cannot make a file in %s: %s", folder, strerror(errno));
    else {
        unlink(name);
        snprintf(path, 64, "/proc/self/fd/%d", *fd);
        status = import_write(&import, path, err);
        if (status) close(*fd), *fd = -1;
    }
    import_release(&import);
    return status;
}

/* ---- what it is ---- */

/* What a profiler's call has to say so that the trace holds it. */
static const struct {
    const char *lacks, *argument;
} wishes[] = {
    {"steps: there is no ProfilerStep, so a step ends where the optimizer's does",
     "prof.step() after each optimizer.step()"},
    {"bytes of collectives", "record_shapes=True"},
    {"memory", "profile_memory=True"},
    {"units of the model", "with_stack=True (or FSDP2, which names them)"},
};

const char import_page[] =
    "recognised: {recognised|unknown}\n"
    "{?lines}  the job says so: a stream of docs/STREAM.md\n"
    "found\n  {ranks} rank{ranks:s} of {world}, {lines} lines\n"
    "{+lines_lost}missing\n  {lines_lost} lines, which the job dropped because they were not read fast enough\n{/}"
    "{+lines_wrong}damaged\n  {lines_wrong} lines; the first: {.first_wrong}\n{/}{/}"

    "{?files}{#evidence}  {}\n{/}"
    "found\n  {ranks} rank{ranks:s} of {?world}{world}{/}{!world}{ranks}{/}, {.steps} step{.steps:s}, {bytes} bytes of "
    "{files} file{files:s}\n"
    "  {operators} operators, {kernels} kernels, {collectives} collectives, {memory} changes of memory; {not_shown} "
    "other events are not shown\n"
    "{#.lanes}  lane {lane:-8} {name:-20|} {count} operations{+left_out}; {left_out} that overlap another one are left "
    "out{/}\n{/}"
    "{+.asked_before}  {.asked_before} collectives were asked for before the recording began and are left out\n{/}"
    "{+matched}  {matched} collectives on several ranks, which end at most {apart_ns/.ns_per_ms:.6g} ms apart\n{/}"
    "{#.clocks}  clock of rank {rank}: {ahead_ns/.ns_per_ms:+.6g} ms, taken out; by when collectives end\n{/}"

    "{?.wishes}missing\n{#.wishes}  {lacks}: record with {argument}\n{/}"
    "to record it all\n"
    "  with torch.profiler.profile(record_shapes=True, profile_memory=True, with_stack=True,\n"
    "          schedule=torch.profiler.schedule(wait=1, warmup=1, active=3),\n"
    "          on_trace_ready=lambda p: p.export_chrome_trace(f\"trace/rank{rank}.json.gz\")) as prof:\n"
    "      for batch in data: step(batch); prof.step()\n{/}"
    "{!.works}missing\n  all but memory: record torch.profiler.profile(profile_memory=True) for steps, operations and "
    "collectives\n{/}"
    "{+.absent}  {.absent} of {world} ranks: give the folder with all files\n{/}"
    "{?.beside}left out\n{#.beside}  {}\n{/}{/}{+.beside_more}  and {.beside_more} more\n{/}"
    "{?damage}damaged\n  {damage}; what came before is shown\n{/}{/}";

static void put_lanes_and_clocks(cJSON *facts, const struct job *job)
{
    cJSON *lanes = cJSON_AddArrayToObject(facts, ".lanes"), *clocks = cJSON_AddArrayToObject(facts, ".clocks");
    for (int l = 0; l < LANES; l++) {
        int count = 0, left_out = 0;
        const char *name = "";
        for (int r = 0; r < job->rank_count; r++) {
            count += job->ranks[r].lane[l].count;
            left_out += job->ranks[r].lane[l].left_out;
            if (!*name) name = job->ranks[r].lane[l].name;
        }
        if (count)
            json_put(json_item(lanes), TEXT("lane", lane_name((enum lane)l)), TEXT("name", name),
                     NUMBER("count", count), NUMBER("left_out", left_out));
    }
    for (int r = 0; r < job->rank_count; r++)
        if (job->ranks[r].offset_ns)
            json_put(json_item(clocks), NUMBER("rank", r), NUMBER("ahead_ns", job->ranks[r].offset_ns));
}

static void put_missing(cJSON *facts, const struct import *import, bool works)
{
    const bool has[] = {import->has_steps, import->has_shapes || !import->collectives, import->memory > 0,
                        import->job.unit_count > 0};
    cJSON *missing = cJSON_AddArrayToObject(facts, "missing"), *list = cJSON_AddArrayToObject(facts, ".wishes");
    for (size_t w = 0; w < sizeof wishes / sizeof wishes[0]; w++) {
        if (has[w] || !works) continue; /* a snapshot holds memory alone */
        cJSON_AddItemToArray(missing, cJSON_CreateString(wishes[w].lacks));
        json_put(json_item(list), TEXT("lacks", wishes[w].lacks), TEXT("argument", wishes[w].argument));
    }
}

static void put_texts(cJSON *facts, const char *name, const char *at, size_t room, int count)
{
    cJSON *list = cJSON_AddArrayToObject(facts, name);
    for (int i = 0; i < count; i++) cJSON_AddItemToArray(list, cJSON_CreateString(at + room * (size_t)i));
}

cJSON *import_facts(const struct import *import)
{
    const struct job *job = &import->job;
    const struct stream_found *told = &import->told;
    if (import->stream)
        return json_object(TEXT("recognised", told->recognised), NUMBER("ranks", told->ranks),
                           NUMBER("world", told->world), NUMBER("lines", told->lines),
                           NUMBER("lines_wrong", told->wrong), NUMBER("lines_lost", told->lost),
                           TEXT(".first_wrong", told->first_wrong));
    const struct job_rank *first = job_first(job);
    const bool works = import->operators || import->kernels;
    const int recorded = job_recorded(job), absent = (int)job->world - recorded,
              more = import->beside_count - BESIDE_MAX;
    cJSON *facts = json_object(
        TEXT("program", job->program), TEXT("recognised", *job->recognised ? job->recognised : "unknown"),
        NUMBER("ranks", recorded), NUMBER_IF("world", job->world, job->world), NUMBER("files", import->files),
        NUMBER("bytes", import->bytes), NUMBER("operators", import->operators), NUMBER("kernels", import->kernels),
        NUMBER("collectives", import->collectives), NUMBER("memory", import->memory),
        NUMBER("not_shown", import->skipped), NUMBER("matched", job->matched), NUMBER("apart_ns", job->apart_ns),
        TEXT_IF("damage", import->cut), NUMBER(".steps", first ? first->lane[JOB_STEPS].count : 0),
        NUMBER(".asked_before", job->asked_before), NUMBER(".ns_per_ms", 1e6), TRUTH(".works", works),
        NUMBER(".absent", absent > 0 ? absent : 0), NUMBER(".beside_more", more > 0 ? more : 0));
    put_texts(facts, "evidence", job->evidence[0], sizeof job->evidence[0], job->evidence_count);
    put_texts(facts, ".beside", import->beside[0], sizeof import->beside[0],
              more > 0 ? BESIDE_MAX : import->beside_count);
    put_missing(facts, import, works);
    put_lanes_and_clocks(facts, job);
    return facts;
}
