/* What checkpoints cost, against the disk they are on and the training they interrupt; everything in one run, in turn, so
 * that a slower machine or a busy moment weighs on all alike:
 *
 *   disk        plain sequential writes and reads past the page cache, a MiB at a time, and fsync
 *   save, load  the same bytes as a checkpoint of four shards, by four threads: begin to commit, and open to the last value
 *   background  a run of GPT-2 that is told to save now and then: ten steps from a save on against the ten before and after
 *
 *     bench_checkpoint [-d FOLDER] [-m MIB] [-r ROUNDS] [-z ZEROLAB] [-c CONFIG] [-k STEPS, 0: no training] */
#include <cjson/cJSON.h>
#include <pthread.h>

#include "engine/base/clock.h"
#include "tests/support/checkpoint_fixture.h"

enum { SHARDS = 4, PIECE_BYTES = 1 << 20, ROUNDS_MAX = 16 };

static void stop(const char *what)
{
    fprintf(stderr, "bench_checkpoint: %s\n", what);
    exit(1);
}

static double best(const double *values, int count)
{
    double most = 0;
    for (int i = 0; i < count; i++) most = values[i] > most ? values[i] : most;
    return most;
}

static double seconds_since(uint64_t since_ns)
{
    return (double)(clock_ns() - since_ns) * 1e-9;
}

/* ---- the disk ---- */

static double disk_rate(const char *path, int64_t bytes, bool writes)
{
    unsigned char *piece = aligned_alloc(4096, PIECE_BYTES);
    if (!piece) stop("no memory");
    memset(piece, 0x5a, PIECE_BYTES);
    int how = writes ? O_WRONLY | O_CREAT | O_TRUNC : O_RDONLY, fd = open(path, how | O_DIRECT, 0600);
    if (fd < 0) fd = open(path, how, 0600);
    if (fd < 0) stop("cannot open a file in the folder");
    const uint64_t since_ns = clock_ns();
    for (int64_t at = 0; at < bytes; at += PIECE_BYTES) {
        ssize_t moved = writes ? pwrite(fd, piece, PIECE_BYTES, at) : pread(fd, piece, PIECE_BYTES, at);
        if (moved != PIECE_BYTES) stop("the disk does not take so much");
    }
    if (writes) fsync(fd);
    double seconds = seconds_since(since_ns);
    close(fd);
    free(piece);
    return (double)bytes / seconds;
}

/* ---- a checkpoint of the same size ---- */

struct part {
    pthread_t thread;
    struct checkpoint_target target;
    const struct config *config;
    const struct model *model;
    int shard;
    float *values;
    struct checkpoint_writer *writer;
};

static void own(const struct part *part, int unit, int64_t *first, int64_t *elems)
{
    const int64_t all = part->model->units[unit].elems, share = shard_elems(all, SHARDS);
    *first = part->shard * share;
    *elems = *first >= all ? 0 : all - *first < share ? all - *first : share;
}

struct given {
    const float *values;
    int64_t first;
};

static int read_given(void *user, int unit, enum state_array array, int64_t first, int64_t elems, float *out,
                      struct error *err)
{
    const struct given *given = user;
    (void)unit, (void)array, (void)err;
    memcpy(out, given->values + (first - given->first), (size_t)elems * sizeof *out);
    return STATUS_OK;
}

static void *save_part(void *user)
{
    struct part *part = user;
    struct error err;
    int status = checkpoint_writer_open(&part->writer, &part->target, part->shard,
                                        (uint64_t)part->model->elems * 12 / SHARDS, &err);
    for (int u = 0; u < part->model->unit_count && !status; u++)
        for (int a = 0; a < STATE_PENDING && !status; a++) {
            int64_t first, elems;
            own(part, u, &first, &elems);
            status = checkpoint_writer_take(
                part->writer, u, (enum state_array)a, first, elems,
                &(struct state_source){.user = &(struct given){part->values, first}, .read = read_given}, &err);
        }
    if (!status) status = checkpoint_writer_end(part->writer, &err);
    if (status) stop(err.text);
    return NULL;
}

static void *load_part(void *user)
{
    struct part *part = user;
    struct checkpoint *checkpoint;
    struct error err;
    int status = checkpoint_open(&checkpoint, part->target.dir, part->target.tag, &err);
    if (!status) checkpoint_lend(checkpoint, lent(part->shard));
    for (int u = 0; u < part->model->unit_count && !status; u++)
        for (int a = 0; a < STATE_PENDING && !status; a++) {
            int64_t first, elems;
            own(part, u, &first, &elems);
            status = checkpoint_read(checkpoint, u, (enum state_array)a, first, elems, part->values, &err);
        }
    if (status) stop(err.text);
    checkpoint_close(checkpoint);
    return NULL;
}

static void run_parts(struct part parts[SHARDS], void *(*what)(void *))
{
    for (int s = 0; s < SHARDS; s++)
        if (pthread_create(&parts[s].thread, NULL, what, &parts[s])) stop("no thread");
    for (int s = 0; s < SHARDS; s++) pthread_join(parts[s].thread, NULL);
}

static double save_rate(struct part parts[SHARDS], int64_t bytes)
{
    const struct part *first = &parts[0];
    struct checkpoint_save *save;
    struct error err;
    char *json = config_to_json(first->config);
    const struct checkpoint_info info = info_of(first->config, json, 1);
    const uint64_t since_ns = clock_ns();
    int status = checkpoint_begin(&save, &first->target, &err);
    if (!status) run_parts(parts, save_part);
    if (!status) status = checkpoint_gather(save, NULL, NULL, &err);
    if (!status) status = checkpoint_commit(save, &info, &err);
    double seconds = seconds_since(since_ns);
    if (status) stop(err.text);
    for (int s = 0; s < SHARDS; s++) checkpoint_writer_close(parts[s].writer);
    checkpoint_end(save);
    free(json);
    return (double)bytes / seconds;
}

static double load_rate(struct part parts[SHARDS], int64_t bytes)
{
    const uint64_t since_ns = clock_ns();
    run_parts(parts, load_part);
    return (double)bytes / seconds_since(since_ns);
}

static void bench_disk(const char *dir, int mib, int rounds)
{
    char layers[48], file[128], checkpoints[128];
    const char *sets[] = {"model.hidden=768", "model.heads=12", layers, "model.name=gpt2", "topology.ranks=4"};
    double rate[4][ROUNDS_MAX];
    struct config config;
    struct model model;
    struct error err;
    snprintf(layers, sizeof layers, "model.layers=%d",
             mib > 600 ? (mib - 455) / 81 : 1); /* of 81 MiB, and embeddings */
    if (config_load(&config, "configs/nano.json", sets, 5, &err) || model_of(&model, &config, &err)) stop(err.text);
    snprintf(file, sizeof file, "%s/plain", dir);
    snprintf(checkpoints, sizeof checkpoints, "%s/checkpoints", dir);
    const int64_t bytes = model.elems * 12;
    const struct checkpoint_target target = {.dir = checkpoints, .tag = "step-1", .shards = SHARDS};
    struct part parts[SHARDS];
    for (int s = 0; s < SHARDS; s++) {
        parts[s] = (struct part){.target = target, .config = &config, .model = &model, .shard = s};
        parts[s].target.buffers = lent(s);
        parts[s].values = calloc((size_t)shard_elems(model.units[0].elems, SHARDS), sizeof(float));
        if (!parts[s].values) stop("no memory");
        for (int64_t i = 0; i < shard_elems(model.units[0].elems, SHARDS); i++) parts[s].values[i] = made_up(s, 0, i);
    }
    for (int r = 0; r < rounds; r++) { /* files anew each time: to free an old one's blocks is no part of a write */
        remove_tree(file);
        remove_tree(checkpoints);
        rate[0][r] = disk_rate(file, bytes / PIECE_BYTES * PIECE_BYTES, true);
        rate[1][r] = save_rate(parts, bytes);
        rate[2][r] = disk_rate(file, bytes / PIECE_BYTES * PIECE_BYTES, false);
        rate[3][r] = load_rate(parts, bytes);
    }
    double disk_write = best(rate[0], rounds), save = best(rate[1], rounds), disk_read = best(rate[2], rounds),
           load = best(rate[3], rounds);
    printf("%.0f MiB, best of %d\n", (double)bytes / (1 << 20), rounds);
    printf("  disk writes  %6.2f GB/s   sharded save %6.2f GB/s   %.0f %% (wanted: 80)\n", disk_write * 1e-9,
           save * 1e-9, 100 * save / disk_write);
    printf("  disk reads   %6.2f GB/s   sharded load %6.2f GB/s   %.0f %% (wanted: 80)\n", disk_read * 1e-9,
           load * 1e-9, 100 * load / disk_read);
    for (int s = 0; s < SHARDS; s++) free(parts[s].values);
    model_release(&model);
    config_release(&config);
}

/* ---- beside the training ---- */

/* Seconds of steps [from, from + count), with what they waited for the copy of the state. */
static double seconds_of(const cJSON *steps, int from, int count)
{
    double seconds = 0;
    for (int s = from; s < from + count; s++) {
        const cJSON *of = cJSON_GetObjectItem(cJSON_GetArrayItem(steps, s), "seconds");
        if (!of) stop("the run did not come to its end");
        seconds += cJSON_GetObjectItem(of, "total")->valuedouble + cJSON_GetObjectItem(of, "paused")->valuedouble;
    }
    return seconds;
}

static cJSON *read_report(const char *path)
{
    static char text[8 << 20];
    FILE *file = fopen(path, "rb");
    if (!file) stop("no report was written");
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return cJSON_Parse(text);
}

static void bench_background(const char *dir, const char *zerolab, const char *config, int steps)
{
    char command[1024], report[128];
    snprintf(report, sizeof report, "%s/report.json", dir);
    snprintf(command, sizeof command,
             "%s train %s --headless --steps %d --report %s --set checkpoint.path=%s/run --set checkpoint.at_end=false "
             "--set checkpoint.keep=1 --at %d:checkpoint --at %d:checkpoint >%s/out 2>&1",
             zerolab, config, 5 * steps, report, dir, steps + 1, 3 * steps + 1, dir);
    if (system(command) != 0) stop("the run failed; see its output in the folder");
    cJSON *json = read_report(report), *all = cJSON_GetObjectItem(json, "steps"), *event;
    cJSON_ArrayForEach(event, cJSON_GetObjectItem(json, "events"))
    {
        const cJSON *text = cJSON_GetObjectItem(cJSON_GetObjectItem(event, "detail"), "text");
        if (cJSON_IsString(text)) printf("  %s\n", text->valuestring);
    }
    for (int saved = 1; saved <= 3; saved += 2) {
        double with = seconds_of(all, saved * steps, steps), before = seconds_of(all, (saved - 1) * steps, steps),
               after = seconds_of(all, (saved + 1) * steps, steps);
        printf("  %d steps: %.2f s with a save, %.2f and %.2f s without: %+.1f %% (wanted: under 5)\n", steps, with,
               before, after, 100 * (with / ((before + after) / 2) - 1));
    }
    cJSON_Delete(json);
}

int main(int argc, char **argv)
{
    const char *parent = "/tmp", *zerolab = getenv("ZEROLAB"), *config = "configs/gpt2.json";
    int mib = 536, rounds = 3, steps = 10, option;
    char dir[96];
    while ((option = getopt(argc, argv, "d:m:r:z:c:k:")) != -1) {
        if (option == 'd') parent = optarg;
        else if (option == 'm') mib = atoi(optarg);
        else if (option == 'r') rounds = atoi(optarg) < ROUNDS_MAX ? atoi(optarg) : ROUNDS_MAX;
        else if (option == 'z') zerolab = optarg;
        else if (option == 'c') config = optarg;
        else if (option == 'k') steps = atoi(optarg);
        else return 2;
    }
    snprintf(dir, sizeof dir, "%.70s/zerolab-bench.XXXXXX", parent);
    if (!mkdtemp(dir)) stop("cannot make a folder");
    bench_disk(dir, mib, rounds);
    if (steps > 0) bench_background(dir, zerolab ? zerolab : "build/release/zerolab", config, steps);
    remove_tree(dir);
    return 0;
}
