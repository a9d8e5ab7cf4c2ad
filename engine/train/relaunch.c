#include "engine/train/relaunch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/json.h"
#include "engine/train/save.h"

enum { SAID_EVERY_NS = 100000000 };

/* ---- how far it is ---- */

static void say(struct rank *rank, const char *reason)
{
    if (rank->rank == 0) record_state(rank->ring, rank->steps_done, RUN_RELAUNCHING, reason);
}

/* Rank 0 records its own progress for all ranks, because all shards have one size. */
static void advance(struct rank *rank, int64_t elems)
{
    struct rank_progress *progress = &rank->relaunch.moved;
    char reason[64];
    uint64_t now_ns = clock_ns();
    progress->elems += elems;
    if (now_ns - progress->said_ns < SAID_EVERY_NS) return;
    progress->said_ns = now_ns;
    int64_t all = progress->all ? progress->all : 1;
    snprintf(reason, sizeof reason, "%s %" PRId64 " %%", progress->doing, 100 * progress->elems / all);
    say(rank, reason);
}

/* Computes how much a rank has to move: a shard of each array. */
static void begin_moving(struct rank *rank, const char *doing)
{
    const int arrays = 1 + optimizer_table[rank->model.optimizer].states;
    rank->relaunch.moved = (struct rank_progress){.doing = doing};
    for (int unit = 0; unit < rank->model.unit_count; unit++)
        rank->relaunch.moved.all += shard_elems(rank->model.units[unit].elems, rank->ranks) * arrays;
    advance(rank, 0);
}

static int read_watched(void *user, int unit, enum state_array array, int64_t first, int64_t elems, float *out,
                        struct error *err)
{
    struct rank *rank = user;
    advance(rank, elems);
    return rank->relaunch.watched.read(rank->relaunch.watched.user, unit, array, first, elems, out, err);
}

static void lend_watched(void *user, void *buffers)
{
    const struct rank *rank = user;
    if (rank->relaunch.watched.lend) rank->relaunch.watched.lend(rank->relaunch.watched.user, buffers);
}

/* Wraps a source, so that reads from it are recorded as progress. */
static void watch(struct rank *rank, struct state_source *source)
{
    rank->relaunch.watched = *source;
    source->user = rank;
    source->read = read_watched;
    source->lend = lend_watched;
}

/* ---- saving ---- */

static int write_shard(struct rank *rank, struct checkpoint_target *target, struct error *err)
{
    struct checkpoint_writer *writer;
    const struct checkpoint_info info = save_info(rank);
    struct state_source own = zero_source(rank->zero);
    watch(rank, &own);
    int status = zero_buffers_take(rank->zero, LOT_OF_LEAVING, &target->buffers, err);
    if (status) return status;
    status = checkpoint_writer_open(&writer, target, rank->rank, zero_snapshot_bytes(rank->zero), err);
    if (!status) {
        status = save_shard(rank, writer, info.has, &own, err);
        checkpoint_writer_close(writer);
    }
    zero_buffers_give(rank->zero, LOT_OF_LEAVING);
    return status;
}

static int commit(struct rank *rank, struct checkpoint_save *save, struct error *err)
{
    struct checkpoint_info info = save_info(rank);
    info.config_json = config_to_json(&rank->config);
    int status = info.config_json ? checkpoint_commit(save, &info, err)
                                  : error_set(err, STATUS_RUN, "no memory to save the state");
    free(info.config_json);
    return status;
}

static int save_state(struct rank *rank, struct error *err)
{
    struct checkpoint_save *save = NULL;
    char dir[96], tag[24];
    rundir_path(rank->dir, "state", dir, sizeof dir);
    snprintf(tag, sizeof tag, "part-%d", rank->spec->part.number + 1);
    struct checkpoint_target target = {.dir = dir, .tag = tag, .shards = rank->ranks};
    int status = rank->rank == 0 ? checkpoint_begin(&save, &target, err) : STATUS_OK;
    status = rank_agree(rank, status, err); /* the folder exists now */
    if (!status) status = rank_agree(rank, write_shard(rank, &target, err), err);
    if (!status && rank->rank == 0) status = commit(rank, save, err);
    if (rank->rank == 0) checkpoint_end(save);
    return rank_agree(rank, status, err);
}

/* ---- applying ---- */

/* Another number of ranks changes either the batch of a step or the micro-batch. The log says which, because that
 * explains the new loss curve or the new memory. */
static void tell_batch(struct rank *rank)
{
    const int batch = rank->config.train_batch_size, micro = rank->config.micro_batch_size;
    char text[120];
    if (rank->rank != 0 || (rank->relaunch.batch == batch && rank->relaunch.micro_batch == micro)) return;
    if (rank->relaunch.batch == batch)
        snprintf(text, sizeof text, "micro-batch %d -> %d from step %" PRId64 " on, so that a step keeps %d samples",
                 micro, rank->relaunch.micro_batch, rank->steps_done + 1, batch);
    else
        snprintf(text, sizeof text, "from step %" PRId64 " on a step is %d samples, not %d", rank->steps_done + 1,
                 rank->relaunch.batch, batch);
    record_log(rank->ring, 0, text);
}

int relaunch_apply(struct rank *rank, const struct command *command, struct error *err)
{
    const char *key = command->id == COMMAND_RANKS ? "topology.ranks" : command->key;
    struct error why;
    const int own = rank->rank == 0 ? relaunch_check(rank, key, command->value, err) : STATUS_OK;
    int status = rank_agree(rank, own, err);
    if (status) return status;
    rank->relaunch.applied_ns = clock_ns();
    if (rank->rank == 0) director_applied(rank->rank0.director, command, NULL);
    config_path(rank->relaunch.key, key);
    snprintf(rank->relaunch.value, sizeof rank->relaunch.value, "%s", command->value);
    tell_batch(rank);
    begin_moving(rank, "saving");
    const bool nothing_to_save = !zero_ready(rank->zero);
    rank->relaunch.leaves = nothing_to_save || save_state(rank, &why) == STATUS_OK;
    if (rank->relaunch.leaves || rank->rank != 0) return STATUS_OK;
    char text[600];
    snprintf(text, sizeof text, "the state could not be saved, so the run goes on as it was: %.500s", why.text);
    record_log(rank->ring, 2, text);
    record_state(rank->ring, rank->steps_done, director_state(rank->rank0.director), "");
    return STATUS_OK;
}

/* ---- handing over ---- */

static void call_and_send(struct rank *rank, const struct handover *handover)
{
    struct error err;
    int fd;
    if (home_call(rank->dir, &fd, &err)) return; /* the front end is gone, so no engine will follow */
    handover_send(fd, handover, &err);
    close(fd);
}

static void write_spec(struct rank *rank, const struct run_spec *spec, const char *file)
{
    struct error err;
    if (spec_write(spec, rank->dir, file, &err)) fprintf(stderr, "zerolab: %s\n", err.text);
}

/* Writes run.json for the next engine, and back.json for the way back. */
static void write_specs(struct rank *rank, bool trace_is_whole)
{
    struct run_spec spec = *rank->spec;
    char state[128], from[160], wanted[320];
    snprintf(state, sizeof state, "%s/state/part-%d", rank->dir->path, rank->spec->part.number + 1);
    config_show(&rank->config, rank->relaunch.key, from, sizeof from);
    spec.part.number++;
    spec.part.steps_done = rank->steps_done;
    if (zero_ready(rank->zero)) { /* else the next engine begins with the same source as this one */
        spec.resume = spec.part.state = state;
        spec.weights_only = false;
    }
    spec.part.paused = director_state(rank->rank0.director) == RUN_PAUSED;
    spec.part.key = rank->relaunch.key;
    spec.part.from = from;
    spec.part.wanted = spec.part.failure = NULL;
    spec.part.since_ns = rank->relaunch.applied_ns;
    spec.own = rank->rank0.claims;
    if (!trace_is_whole) spec.trace = NULL;
    director_rest(rank->rank0.director, &spec.at, &spec.part.lines);

    snprintf(wanted, sizeof wanted, "%s=%s", rank->relaunch.key, rank->relaunch.value);
    struct run_spec back = spec;
    back.part.number++;
    back.part.key = back.part.from = NULL;
    back.part.wanted = wanted;
    back.sets = rank->relaunch.next.sets;
    write_spec(rank, &back, SPEC_BACK_FILE);
    relaunch_config_change(&rank->relaunch.next, &rank->config, rank->relaunch.key, rank->relaunch.value);
    spec.sets = rank->relaunch.next.sets;
    write_spec(rank, &spec, SPEC_FILE);
}

/* Records "starting 3 ranks" as the last state of this engine. */
void relaunch_hand_over(struct rank *rank)
{
    struct handover handover;
    char reason[64];
    bool count = strcmp(rank->relaunch.key, "topology.ranks") == 0;
    snprintf(reason, sizeof reason, count ? "starting %s rank%s" : "starting", rank->relaunch.value,
             strcmp(rank->relaunch.value, "1") == 0 ? "" : "s");
    say(rank, reason);
    bool whole = trace_writer_hand_over(rank->rank0.writer, &handover); /* from here on no commands are received */
    rank->rank0.writer = NULL;
    write_specs(rank, whole || !rank->spec->trace);
    call_and_send(rank, &handover);
    handover_release(&handover);
}

bool relaunch_go_back(struct rank *rank, const char *why)
{
    struct run_spec back;
    struct handover handover;
    struct error err;
    char path[96];
    rundir_path(rank->dir, SPEC_BACK_FILE, path, sizeof path);
    if (!rank->rank0.writer || access(path, F_OK) != 0 || spec_read(&back, rank->dir, SPEC_BACK_FILE, &err))
        return false;
    say(rank, "going back");
    if (!trace_writer_hand_over(rank->rank0.writer, &handover)) back.trace = NULL;
    rank->rank0.writer = NULL;
    back.part.failure = why;
    director_rest(rank->rank0.director, &back.at, &back.part.lines);
    write_spec(rank, &back, SPEC_FILE);
    unlink(path);
    call_and_send(rank, &handover);
    handover_release(&handover);
    spec_release(&back);
    return true;
}

/* ---- opening ---- */

void relaunch_watch_loading(struct rank *rank)
{
    begin_moving(rank, "loading");
    watch(rank, &rank->source);
}

/* Records what changed and how long it took, for the list of events. */
static void tell(struct rank *rank)
{
    const char *key = rank->spec->part.key, *from = rank->spec->part.from, *failure = rank->spec->part.failure;
    char text[600], now[160];
    if (rank->spec->part.paused) record_state(rank->ring, rank->steps_done, RUN_PAUSED, "as before");
    if (failure) {
        snprintf(text, sizeof text, "%.100s could not be started, so the run goes on as before: %.400s",
                 rank->spec->part.wanted, failure);
        record_log(rank->ring, 2, text);
        return;
    }
    if (!key) return;
    const bool count = strcmp(key, "topology.ranks") == 0;
    config_show(&rank->config, key, now, sizeof now);
    cJSON *detail = count ? json_object(NUMBER("from", atoi(from)), NUMBER("to", rank->ranks))
                          : json_object(TEXT("key", key), /* first: the writer finds it there */
                                        TEXT("from", from), TEXT("to", now));
    json_put(detail, NUMBER("seconds", (double)((clock_ns() - rank->spec->part.since_ns) / 1000000) / 1000));
    record_event(rank->ring, rank->steps_done + 1, count ? "ranks" : "set", detail);
}

void relaunch_opened(struct rank *rank)
{
    if (rank->rank != 0 || rank->relaunch.settled || !rank->spec->part.number) return;
    if (!rank->relaunch.told) tell(rank);
    rank->relaunch.told = true;
    if (!zero_ready(rank->zero)) return; /* no memory for the state yet */
    char path[96]; /* the saved state has been loaded, and there is no way back */
    rundir_path(rank->dir, SPEC_BACK_FILE, path, sizeof path);
    unlink(path);
    if (rank->spec->part.state) rundir_remove(rank->dir, "state");
    rank->relaunch.settled = true;
}
