#include "engine/import/import.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/grouped.h"
#include "engine/base/json.h"
#include "engine/base/words.h"
#include "engine/import/kineto.h"
#include "engine/import/snapshot.h"
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

/* Calls `take` with the path, or if it is a folder, with each file in it that has a trace's name, in their order, until that fails. */
static int each_file(const char *path, int (*take)(void *user, const char *file), void *user)
{
    struct dirent **list;
    char file[4096];
    int status = STATUS_OK;
    const int count = scandir(path, &list, is_trace_name, alphasort);
    if (count < 0) return take(user, path);
    for (int i = 0; i < count; i++) {
        snprintf(file, sizeof file, "%s/%s", path, list[i]->d_name);
        if (!status) status = take(user, file);
        free(list[i]);
    }
    free(list);
    return status;
}

static int look_at_format(void *found, const char *file)
{
    *(bool *)found |= format_of(file) != FORMAT_NONE;
    return STATUS_OK;
}

bool import_is_foreign(const char *path)
{
    bool found = stream_is(path);
    if (!found) each_file(path, look_at_format, &found);
    return found;
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
    const int rank = kineto.rank >= 0 ? kineto.rank : free_rank(out->job);
    if (!status && !kineto.event_count && !kineto.memory[0].count && !kineto.memory[1].count)
        status = error_set(
            err, STATUS_INPUT,
            "%s is Chrome JSON without an event of a training job (steps, operators, kernels, collectives)", path);
    if (!status && rank < out->job->rank_count && out->job->ranks[rank].present)
        status = error_set(err, STATUS_INPUT, "%s is of rank %d, as another file before it", path, rank);
    if (!status) {
        note(out, &kineto, cut);
        kineto_to_job(out->job, &kineto, rank);
    }
    kineto_release(&kineto);
    return status;
}

struct taking {
    struct import *out;
    const char *path; /* a file, or the folder of it */
    struct error *err;
};

static int take_file(void *user, const char *file)
{
    const struct taking *taking = user;
    struct import *out = taking->out;
    struct error why;
    uint64_t changes = 0;
    int status = format_of(file) != FORMAT_PICKLE
                     ? import_trace(out, file, &why)
                     : snapshot_to_job(out->job, file, free_rank(out->job), &changes, &why);
    if (!status) out->memory += changes, out->files += changes > 0;
    if (status == STATUS_INPUT && file != taking->path) { /* JSON of other kinds lies beside traces */
        if (out->beside_count++ < BESIDE_MAX)
            snprintf(out->beside[out->beside_count - 1], sizeof out->beside[0], "%.255s", why.text);
        return STATUS_OK;
    }
    return status ? error_set(taking->err, status, "%s", why.text) : STATUS_OK;
}

/* The lines of a job, put into `file` as records; NULL: only looked at. */
static int pump(struct stream_found *told, const char *path, struct trace_file *file, struct error *err)
{
    struct source *source;
    struct trace_record record;
    enum source_result result;
    int status = stream_open(&source, path, false, err);
    if (status) return status;
    while (!status && (result = source_next(source, &record)) == SOURCE_RECORD)
        if (file) status = trace_file_put_encoded(file, source_encoded(source), err);
    if (!status && result == SOURCE_BAD) status = error_set(err, STATUS_INPUT, "%s", source_error(source));
    stream_told(source, told);
    if (!status && !told->ranks) status = error_set(err, STATUS_INPUT, "%s: %.160s", path, told->first_wrong);
    source_close(source);
    return status;
}

int import_write(struct import *import, const char *path, struct error *err)
{
    struct trace_file *file;
    if (!import->stream) return job_write(import->job, path, err);
    int status = trace_file_create(&file, path, err);
    if (status) return status;
    status = pump(&import->told, import->stream, file, err);
    const int closed = trace_file_close(file, status ? NULL : err);
    return status ? status : closed;
}

int import_look(struct import *import, struct error *err)
{
    return import->stream ? pump(&import->told, import->stream, NULL, err) : STATUS_OK;
}

int import_files(struct import *out, const char *const *paths, int count, struct error *err)
{
    int status = STATUS_OK;
    *out = (struct import){0};
    if (stream_is(paths[0])) {
        out->stream = paths[0];
        if (count == 1) return STATUS_OK;
        return error_set(err, STATUS_USAGE, "%s is a stream of a job; give the folder of all its ranks", paths[0]);
    }
    if (!(out->job = job_new())) return error_set(err, STATUS_RUN, "no memory to read %s", paths[0]);
    for (int i = 0; i < count && !status; i++) {
        const int before = out->files;
        status = each_file(paths[i], take_file, &(struct taking){out, paths[i], err});
        if (!status && out->files == before)
            status = error_set(err, STATUS_INPUT, "%s holds no trace of a rank; the first file: %.200s", paths[i],
                               out->beside[0]);
    }
    if (!status) {
        job_settle(out->job);
        job_recognise(out->job);
        out->has_units = out->job->unit_count > 0;
        if (job_failed(out->job)) status = error_set(err, STATUS_RUN, "no memory for what was read from %s", paths[0]);
    }
    if (status) import_release(out);
    return status;
}

void import_release(struct import *import)
{
    job_free(import->job);
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

/* ---- what it is, in words ---- */

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

static bool lacks(const struct import *import, size_t wish)
{
    if (!import->operators && !import->kernels) return false; /* a snapshot: it holds memory alone */
    const bool has[] = {import->has_steps, import->has_shapes || !import->collectives, import->memory > 0,
                        import->has_units};
    return !has[wish];
}

static const char *recognised(const struct job *job)
{
    return *job->recognised ? job->recognised : "unknown";
}

static void print_found(const struct import *import, FILE *out)
{
    const struct job *job = import->job;
    const struct job_rank *first = job_first(job);
    const int recorded = job_recorded(job), steps = first ? first->lane[JOB_STEPS].count : 0;
    fprintf(out, "found\n  %d rank%s of %u, %d step%s, %" PRIu64 " bytes of %d file%s\n", recorded,
            plural((uint64_t)recorded), job->world ? job->world : (uint32_t)recorded, steps, plural((uint64_t)steps),
            import->bytes, import->files, plural((uint64_t)import->files));
    fprintf(out,
            "  %" PRIu64 " operators, %" PRIu64 " kernels, %" PRIu64 " collectives, %" PRIu64
            " changes of memory; %" PRIu64 " other events are not shown\n",
            import->operators, import->kernels, import->collectives, import->memory, import->skipped);
    for (int l = 0; first && l < LANES; l++) {
        int count = 0, left_out = 0;
        const char *name = "";
        for (int r = 0; r < job->rank_count; r++) {
            count += job->ranks[r].lane[l].count;
            left_out += job->ranks[r].lane[l].left_out;
            if (!*name) name = job->ranks[r].lane[l].name;
        }
        if (count) fprintf(out, "  lane %-8s %-20s %d operations", lane_name((enum lane)l), name, count);
        if (count && left_out) fprintf(out, "; %d that overlap another one are left out", left_out);
        if (count) fputc('\n', out);
    }
    if (job->asked_before)
        fprintf(out, "  %" PRId64 " collectives were asked for before the recording began and are left out\n",
                job->asked_before);
    if (job->matched)
        fprintf(out, "  %" PRId64 " collectives on several ranks, which end at most %.6g ms apart\n", job->matched,
                (double)job->apart_ns / 1e6);
    for (int r = 0; r < job->rank_count; r++)
        if (job->ranks[r].offset_ns)
            fprintf(out, "  clock of rank %d: %+.6g ms, taken out; by when collectives end\n", r,
                    (double)job->ranks[r].offset_ns / 1e6);
}

static void print_missing(const struct import *import, FILE *out)
{
    const struct job *job = import->job;
    bool any = false;
    for (size_t w = 0; w < sizeof wishes / sizeof wishes[0]; w++) any |= lacks(import, w);
    if (any) fputs("missing\n", out);
    for (size_t w = 0; w < sizeof wishes / sizeof wishes[0]; w++)
        if (lacks(import, w)) fprintf(out, "  %s: record with %s\n", wishes[w].lacks, wishes[w].argument);
    if (any)
        fputs("to record it all\n"
              "  with torch.profiler.profile(record_shapes=True, profile_memory=True, with_stack=True,\n"
              "          schedule=torch.profiler.schedule(wait=1, warmup=1, active=3),\n"
              "          on_trace_ready=lambda p: p.export_chrome_trace(f\"trace/rank{rank}.json.gz\")) as prof:\n"
              "      for batch in data: step(batch); prof.step()\n",
              out);
    if (!import->operators && !import->kernels)
        fputs("missing\n  all but memory: record torch.profiler.profile(profile_memory=True) for steps, operations and "
              "collectives\n",
              out);
    if (job->world > (uint32_t)job_recorded(job))
        fprintf(out, "  %u of %u ranks: give the folder with all files\n", job->world - (uint32_t)job_recorded(job),
                job->world);
    for (int i = 0; i < import->beside_count && i < BESIDE_MAX; i++)
        fprintf(out, "%s  %s\n", i ? "" : "left out\n", import->beside[i]);
    if (import->beside_count > BESIDE_MAX) fprintf(out, "  and %d more\n", import->beside_count - BESIDE_MAX);
    if (import->cut[0]) fprintf(out, "damaged\n  %s; what came before is shown\n", import->cut);
}

static void print_stream(const struct import *import, FILE *out)
{
    const struct stream_found *told = &import->told;
    fprintf(out, "recognised: %s\n  the job says so: a stream of docs/STREAM.md\n",
            told->recognised[0] ? told->recognised : "unknown");
    fprintf(out, "found\n  %u rank%s of %u, %" PRIu64 " lines\n", told->ranks, plural(told->ranks), told->world,
            told->lines);
    if (told->lost)
        fprintf(out, "missing\n  %" PRIu64 " lines, which the job dropped because they were not read fast enough\n",
                told->lost);
    if (told->wrong) fprintf(out, "damaged\n  %" PRIu64 " lines; the first: %s\n", told->wrong, told->first_wrong);
}

void import_print(const struct import *import, FILE *out)
{
    if (import->stream) {
        print_stream(import, out);
        return;
    }
    fprintf(out, "recognised: %s\n", recognised(import->job));
    for (int i = 0; i < import->job->evidence_count; i++) fprintf(out, "  %s\n", import->job->evidence[i]);
    print_found(import, out);
    print_missing(import, out);
}

char *import_json(const struct import *import)
{
    const struct job *job = import->job;
    if (import->stream)
        return json_lines(json_object(TEXT("recognised", import->told.recognised), NUMBER("ranks", import->told.ranks),
                                      NUMBER("world", import->told.world), NUMBER("lines", import->told.lines),
                                      NUMBER("lines_wrong", import->told.wrong),
                                      NUMBER("lines_lost", import->told.lost)));
    cJSON *json = json_object(TEXT("program", job->program), TEXT("recognised", recognised(job)),
                              NUMBER("ranks", job_recorded(job)), NUMBER_IF("world", job->world, job->world),
                              NUMBER("files", import->files), NUMBER("bytes", import->bytes),
                              NUMBER("operators", import->operators), NUMBER("kernels", import->kernels),
                              NUMBER("collectives", import->collectives), NUMBER("memory", import->memory),
                              NUMBER("not_shown", import->skipped), NUMBER("matched", job->matched),
                              NUMBER("apart_ns", job->apart_ns), TEXT_IF("damage", import->cut));
    cJSON *evidence = cJSON_AddArrayToObject(json, "evidence"), *missing = cJSON_AddArrayToObject(json, "missing");
    for (int i = 0; i < job->evidence_count; i++) cJSON_AddItemToArray(evidence, cJSON_CreateString(job->evidence[i]));
    for (size_t w = 0; w < sizeof wishes / sizeof wishes[0]; w++)
        if (lacks(import, w)) cJSON_AddItemToArray(missing, cJSON_CreateString(wishes[w].lacks));
    return json_lines(json);
}
