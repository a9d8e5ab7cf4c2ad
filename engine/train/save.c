#include "engine/train/save.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/json.h"
#include "engine/checkpoint/convert.h"
#include "engine/launch/capacity.h"
#include "kernels/kernels.h"

struct saver {
    struct rank *rank;
    struct trace_ring *ring; /* rank 0 */
    int64_t saved_step;      /* rank 0: the last that was committed; -1: none */

    /* Of the save under way, or the last. */
    pthread_t thread;
    bool has_thread, stands; /* stands: the checkpoint's folder is in `dir`, which is then claimed */
    _Atomic bool done, cancelled;
    char dir[sizeof((struct config *)0)->checkpoint.path], tag[CHECKPOINT_TAG_BYTES];
    struct checkpoint_target target;
    struct checkpoint_info info;  /* config_json: rank 0 */
    struct checkpoint_save *save; /* rank 0 */
    struct checkpoint_writer *writer;
    struct zero_snapshot *snapshot; /* the copy that is written; NULL: in the foreground */
    bool has_buffers, background;
    bool weights_too;        /* rank 0: as it was when the save began */
    void *weights_buffers;   /* rank 0, if weights are written beside the checkpoint; NULL: no memory, */
    struct error no_weights; /* ... with this error */
    char why[152];           /* why the save is not in the background; "": it is, or was asked not to be */
    uint64_t begun_ns;
};

/* ---- what the trace is told ---- */

static cJSON *detail_of(const char *state, const char *folder, const char *tag)
{
    return json_object(TEXT("state", state), TEXT("tag", tag), TEXT("folder", folder));
}

static void tell_failed(struct trace_ring *ring, const char *folder, const char *tag, int64_t step, const char *why)
{
    char text[640];
    snprintf(text, sizeof text, "%s was not saved: %s", tag, why);
    record_event(ring, step, "checkpoint", json_put(detail_of("failed", folder, tag), TEXT("text", text)));
}

static void tell_saved(const struct saver *saver)
{
    char text[320];
    const uint64_t bytes = checkpoint_writer_bytes(saver->writer) * (uint64_t)saver->rank->ranks;
    const double seconds = (double)(clock_ns() - saver->begun_ns) * 1e-9;
    cJSON *detail = detail_of("saved", saver->dir, saver->tag);
    snprintf(text, sizeof text, "saved %s: %.1f MiB in %.2f s, %s%s", saver->tag, (double)bytes / (1 << 20), seconds,
             saver->background ? "background" : "foreground", saver->why);
    json_put(detail, TRUTH("background", saver->background), NUMBER("bytes", bytes), NUMBER("seconds", seconds),
             TEXT("text", text));
    record_event(saver->ring, saver->info.progress.steps_done, "checkpoint", detail);
}

/* Reads with the buffers with which the shard was written, and writes with a second set. */
static int write_beside(const struct saver *saver, struct error *err)
{
    const struct convert_buffers buffers = {saver->target.buffers, saver->weights_buffers};
    if (!buffers.out) return *err = saver->no_weights, err->status;
    return convert_beside(saver->dir, saver->tag, &buffers, err);
}

/* zero_optimization.stage3_gather_16bit_weights_on_model_save. */
static void write_weights_too(const struct saver *saver)
{
    struct error err;
    char text[640];
    if (!saver->weights_too) return;
    if (write_beside(saver, &err)) {
        snprintf(text, sizeof text, "%s stands, but its weights could not be written beside it: %s", saver->tag,
                 err.text);
        record_log(saver->ring, 1, text);
        return;
    }
    snprintf(text, sizeof text, "wrote the weights of %s in %s beside it, as model.safetensors", saver->tag,
             dtype_name(saver->rank->config.dtype));
    record_log(saver->ring, 0, text);
}

/* ---- the work, on the saver's thread or the rank's ---- */

int save_shard(const struct rank *rank, struct checkpoint_writer *writer, const bool has[STATE_ARRAYS],
               const struct state_source *source, struct error *err)
{
    for (int u = 0; u < rank->model.unit_count; u++) {
        int64_t first, elems;
        zero_own(rank->zero, source->slice, u, &first, &elems);
        for (int a = 0; a < STATE_ARRAYS && elems; a++) {
            int status =
                has[a] ? checkpoint_writer_take(writer, u, (enum state_array)a, first, elems, source, err) : STATUS_OK;
            if (status) return status;
        }
    }
    return checkpoint_writer_end(writer, err);
}

static void give_up_memory(struct saver *saver)
{
    checkpoint_writer_close(saver->writer);
    zero_snapshot_give(saver->snapshot);
    if (saver->has_buffers) zero_buffers_give(saver->rank->zero, LOT_OF_CHECKPOINT);
    if (saver->weights_buffers) zero_buffers_give(saver->rank->zero, LOT_OF_WEIGHTS);
    free(saver->info.config_json);
    checkpoint_end(saver->save);
    saver->writer = NULL;
    saver->snapshot = NULL;
    saver->weights_buffers = NULL;
    saver->has_buffers = false;
    saver->info.config_json = NULL;
    saver->save = NULL;
}

/* Whether to stop waiting for the other ranks' shards: the save is cancelled, or it is in the foreground and a rank
 * has died. */
static bool is_over(void *user)
{
    const struct saver *saver = user;
    return atomic_load(&saver->cancelled) || (!saver->background && comm_check(saver->rank->comm, NULL));
}

static void *work(void *user)
{
    struct saver *saver = user;
    struct error err;
    const struct state_source source =
        saver->snapshot ? zero_snapshot_source(saver->snapshot) : zero_source(saver->rank->zero);
    int status = save_shard(saver->rank, saver->writer, saver->info.has, &source, &err);
    if (saver->save) { /* rank 0; its wait also detects that another rank's shard failed */
        if (!status) status = checkpoint_gather(saver->save, is_over, saver, &err);
        if (!status) status = checkpoint_commit(saver->save, &saver->info, &err);
        saver->stands = checkpoint_stands(saver->save);
        if (status) tell_failed(saver->ring, saver->dir, saver->tag, saver->info.progress.steps_done, err.text);
        else saver->saved_step = saver->info.progress.steps_done, tell_saved(saver), write_weights_too(saver);
    }
    give_up_memory(saver);
    atomic_store(&saver->done, true);
    return NULL;
}

/* Adds the folder to the run's own only once a checkpoint of this run is there: another run may have come first. */
static void join(struct saver *saver)
{
    if (saver->has_thread) pthread_join(saver->thread, NULL);
    if (saver->stands) save_claims_add(&saver->rank->rank0.claims, saver->dir);
    saver->has_thread = saver->stands = false;
}

/* ---- beginning ---- */

/* One rank's wish, and then that of all ranks. */
struct verdict {
    int32_t in_foreground;
    char why[152];
};

/* Collective: all ranks get the error of the first rank that has one. If one rank cannot save in the background, none
 * does. */
static int agree(struct saver *saver, struct verdict *verdict, int status, struct error *err)
{
    struct verdict all[saver->rank->ranks];
    status = rank_agree(saver->rank, status, err);
    if (!status) status = comm_exchange(saver->rank->comm, verdict, all, sizeof *verdict, NULL, err);
    for (int r = saver->rank->ranks; r-- > 0 && !status;)
        if (all[r].in_foreground) *verdict = all[r];
    return status;
}

struct checkpoint_info save_info(const struct rank *rank)
{
    struct checkpoint_info info = {.progress = zero_progress(rank->zero),
                                   .ranks = rank->ranks,
                                   .stage = rank->config.zero.stage,
                                   .threads = rank->config.topology.threads_per_rank};
    info.data = *data_fingerprint(rank->data);
    snprintf(info.isa, sizeof info.isa, "%s", kernels_widest_isa());
    for (int a = 0; a < STATE_ARRAYS; a++) info.has[a] = zero_has_array(rank->zero, (enum state_array)a);
    return info;
}

static void describe(struct saver *saver, const char *tag)
{
    const struct rank *rank = saver->rank;
    join(saver);
    saver->info = save_info(rank);
    snprintf(saver->dir, sizeof saver->dir, "%s", rank->config.checkpoint.path);
    if (*tag) snprintf(saver->tag, sizeof saver->tag, "%.63s", tag);
    else checkpoint_step_tag(saver->tag, rank->steps_done);
    saver->target = (struct checkpoint_target){
        .dir = saver->dir,
        .tag = saver->tag,
        .shards = rank->ranks,
        .fresh = rank->rank == 0 && !save_claims_has(&rank->rank0.claims, saver->dir),
        .keep = rank->updated_at == rank->steps_done ? rank->config.checkpoint.keep : 0, /* 0: the last step overflowed */
    };
    saver->begun_ns = clock_ns();
    atomic_store(&saver->done, false);
}

/* Rank 0, before the others: checks that the last save has ended, claims and makes the folder, and prepares the
 * manifest. (Rank 0 waits for all shards, so when its save has ended, the other ranks' saves have ended or nearly
 * so.) */
static int open_save(struct saver *saver, const struct saver_request *request, struct error *err)
{
    if (saver->has_thread && !request->waits && !atomic_load(&saver->done))
        return error_set(err, STATUS_RUN, "%s is still being saved", saver->tag);
    describe(saver, request->tag);
    int status = save_claims_take(saver->rank->dir, saver->dir, err);
    if (!status) status = checkpoint_begin(&saver->save, &saver->target, err);
    if (status) return status;
    saver->info.config_json = config_to_json(&saver->rank->config);
    return saver->info.config_json ? STATUS_OK : error_set(err, STATUS_RUN, "no memory for a checkpoint's manifest");
}

/* Copies the state, if a copy is wanted and the machine and the budget have room for it. */
static int try_snapshot(struct saver *saver, struct verdict *verdict, struct error *err)
{
    struct rank *rank = saver->rank;
    const enum background wanted = rank->config.checkpoint.background;
    const uint64_t bytes = zero_snapshot_bytes(rank->zero);
    const char *why = NULL;
    if (wanted == BACKGROUND_OFF) why = "";
    else if (bytes > capacity_available_bytes() / 2 / (uint64_t)rank_count_here(rank))
        why = ": the machine has no room for a copy of the state";
    else if (zero_snapshot_take(rank->zero, &saver->snapshot, NULL))
        why = ": memory.host_budget has no room for a copy of the state";
    if (!why) return STATUS_OK;
    verdict->in_foreground = true;
    snprintf(verdict->why, sizeof verdict->why, "%s", why);
    return wanted == BACKGROUND_ON ? error_set(err, STATUS_RUN, "checkpoint.background is on%s", why) : STATUS_OK;
}

/* All memory of a save is taken between steps, because a running step counts on the memory that its update will find.
 * Without memory for the weights, the checkpoint is written without them. */
static void make_room_for_weights(struct saver *saver)
{
    saver->weights_too = saver->save && saver->rank->config.checkpoint.weights_too;
    if (!saver->weights_too) return;
    if (zero_buffers_take(saver->rank->zero, LOT_OF_WEIGHTS, &saver->weights_buffers, &saver->no_weights))
        saver->weights_buffers = NULL;
}

static int open_shard(struct saver *saver, const struct saver_request *request, struct verdict *verdict,
                      struct error *err)
{
    const struct rank *rank = saver->rank;
    if (rank->rank != 0) describe(saver, request->tag);
    int status = zero_buffers_take(rank->zero, LOT_OF_CHECKPOINT, &saver->target.buffers, err);
    saver->has_buffers = !status;
    if (!status)
        status =
            checkpoint_writer_open(&saver->writer, &saver->target, rank->rank, zero_snapshot_bytes(rank->zero), err);
    verdict->in_foreground = request->at_once;
    if (!status && !request->at_once) status = try_snapshot(saver, verdict, err);
    if (!status) make_room_for_weights(saver);
    return status;
}

static void start(struct saver *saver, const struct verdict *verdict)
{
    saver->background = !verdict->in_foreground;
    memcpy(saver->why, verdict->why, sizeof saver->why);
    if (!saver->background) zero_snapshot_give(saver->snapshot), saver->snapshot = NULL;
    if (saver->rank->rank == 0)
        record_event(saver->rank->ring, saver->info.progress.steps_done, "checkpoint",
                     json_put(detail_of("saving", saver->dir, saver->tag), TRUTH("background", saver->background)));
    saver->has_thread = saver->background && pthread_create(&saver->thread, NULL, work, saver) == 0;
    if (saver->has_thread) return;
    saver->background = false;
    work(saver);
}

/* Collective. A state that is not finite is not written, so it gets no tag, does not become `latest`, and removes nothing. */
static int save(struct saver *saver, const struct saver_request *request, struct error *err)
{
    struct verdict verdict = {0};
    if (!*saver->rank->config.checkpoint.path)
        return error_set(err, STATUS_USAGE, "there is no folder for checkpoints; set checkpoint.path=DIR first");
    struct zero_divergence found;
    bool finite;
    int status = zero_check_state(saver->rank->zero, &finite, &found, err);
    if (status || !finite) return status ? status : error_set(err, STATUS_RUN, "%s", found.text);
    status = rank_agree(saver->rank, saver->rank->rank == 0 ? open_save(saver, request, err) : STATUS_OK, err);
    if (!status) status = shared_check_folder(saver->rank, saver->rank->config.checkpoint.path, err);
    if (!status) status = agree(saver, &verdict, open_shard(saver, request, &verdict, err), err);
    if (status) {
        if (!saver->has_thread) give_up_memory(saver); /* else the last save is still in progress and uses it */
        return status;
    }
    if (request->began) request->began(request->user);
    start(saver, &verdict);
    return STATUS_OK;
}

/* The time for which the save delays training counts as waiting, in the record of the next step. */
int saver_save(struct saver *saver, const struct saver_request *request, struct error *err)
{
    const uint64_t since_ns = clock_ns();
    int status = save(saver, request, err);
    zero_waited(saver->rank->zero, clock_ns() - since_ns);
    return status;
}

void saver_failed(const struct saver *saver, const char *tag, const char *why)
{
    const struct rank *rank = saver->rank;
    char of_step[CHECKPOINT_TAG_BYTES];
    checkpoint_step_tag(of_step, rank->steps_done);
    if (rank->rank == 0)
        tell_failed(rank->ring, rank->config.checkpoint.path, *tag ? tag : of_step, rank->steps_done, why);
}

/* A save in progress has already claimed its folder, so that folder needs no check. */
static int check_folder(struct saver *saver, const char *dir, struct error *err)
{
    const bool under_way = saver->has_thread && !atomic_load(&saver->done);
    if (!under_way) join(saver);
    if (under_way && save_claims_is_same(saver->dir, dir)) return STATUS_OK;
    int status = save_claims_check_others(saver->rank->dir, dir, err);
    if (!status) status = save_claims_check(&saver->rank->rank0.claims, dir, err);
    if (!status && *dir) status = checkpoint_try(dir, err);
    return status ? status : save_claims_take(saver->rank->dir, dir, err);
}

int saver_check_folder(struct saver *saver, const char *dir, struct error *err)
{
    int status = rank_agree(saver->rank, saver->rank->rank == 0 ? check_folder(saver, dir, err) : STATUS_OK, err);
    return status ? status : shared_check_folder(saver->rank, dir, err);
}

/* ---- opening and closing ---- */

int saver_new(struct saver **out, struct rank *rank, struct trace_ring *ring, struct error *err)
{
    struct saver *saver = *out = calloc(1, sizeof *saver);
    if (!saver) return error_set(err, STATUS_RUN, "no memory to save checkpoints");
    saver->rank = rank;
    saver->ring = ring;
    saver->saved_step = -1;
    return STATUS_OK;
}

int saver_finish(struct saver *saver, bool *is_saved, struct error *err)
{
    const int ranks = saver->rank->ranks;
    int64_t all[ranks];
    join(saver);
    int status = comm_exchange(saver->rank->comm, &saver->saved_step, all, sizeof *all, NULL, err);
    *is_saved = !status && all[0] == saver->rank->steps_done;
    return status;
}

void saver_free(struct saver *saver)
{
    if (!saver) return;
    atomic_store(&saver->cancelled, true);
    join(saver);
    free(saver);
}
