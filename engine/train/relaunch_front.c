#include "engine/train/relaunch_front.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/trace/writer.h"
#include "engine/train/records.h"

enum { END_PATIENCE_MS = 30000, CALL_PATIENCE_MS = 120000, TICK_MS = 25, HANDOVER_PATIENCE_S = 10 };

static void enter(struct keeper *keeper, enum keeper_state state)
{
    keeper->state = state;
    keeper->since_ns = clock_ns();
}

static bool is_late(const struct keeper *keeper, int patience_ms)
{
    return clock_ns() - keeper->since_ns > (uint64_t)patience_ms * 1000000;
}

/* The engines add to the log. What is no file yet, or a pipe, is empty already. */
static void empty(const char *log)
{
    struct stat about;
    int fd = log && stat(log, &about) == 0 && S_ISREG(about.st_mode) ? file_open_named(log, O_WRONLY | O_TRUNC) : -1;
    if (fd >= 0) close(fd);
}

int keeper_begin(struct keeper *keeper, const struct rundir *dir, const struct config *config, const char *log,
                 struct error *err)
{
    *keeper = (struct keeper){.dir = dir, .log.path = log, .held.listen_fd = -1};
    empty(log);
    return engine_start(&keeper->engine, dir, config, &keeper->log, err);
}

int keeper_fd(const struct keeper *keeper)
{
    bool listens = keeper->state == KEEPER_WATCHES || keeper->state == KEEPER_AWAITS_CALL;
    return listens && keeper->engine ? engine_home(keeper->engine) : -1;
}

/* ---- when nothing can go on ---- */

/* The front end itself ends the trace: file and viewers are in its hands. */
static void end_trace(struct keeper *keeper, const struct run_spec *spec, const char *text)
{
    enum { RING_BYTES = 16 << 10 };
    struct trace_writer *writer;
    struct trace_writer_options options = {.file = spec->trace,
                                           .file_limit_bytes = (uint64_t)spec->trace_limit_bytes,
                                           .handed = &keeper->held,
                                           .adopted_fd = -1};
    struct error err;
    void *memory = NULL;
    if (posix_memalign(&memory, 64, RING_BYTES)) return;
    struct trace_ring *ring = trace_ring_init(memory, RING_BYTES);
    if (trace_writer_start(&writer, &options, &err) == STATUS_OK) {
        trace_writer_add_ring(writer, ring);
        record_state(ring, spec->part.steps_done, RUN_ENDED, text);
        record_end(ring, OUTCOME_FAILED, text);
        trace_writer_stop(writer);
    }
    free(memory);
}

static void fail(struct keeper *keeper, const char *why)
{
    struct run_spec spec = {0};
    struct error err;
    char kept[160], text[800];
    bool known = spec_read(&spec, keeper->dir, SPEC_FILE, &err) == STATUS_OK, was_back = known && spec.part.failure;
    int at = snprintf(text, sizeof text, "the engine could not be started again: %.200s%s%.200s",
                      was_back ? spec.part.failure : why, was_back ? "; nor as before: " : "", was_back ? why : "");
    if (known && spec.part.state && rundir_keep(keeper->dir, "state", kept, sizeof kept, &err) == STATUS_OK)
        snprintf(text + at, sizeof text - (size_t)at, "; go on after step %lld with: zerolab train --resume %s",
                 (long long)spec.part.steps_done, kept);
    end_trace(keeper, &spec, text);
    handover_release(&keeper->held);
    if (known) spec_release(&spec);
    enter(keeper, KEEPER_FAILED);
}

/* ---- starting ---- */

static int start(struct keeper *keeper, struct error *err)
{
    struct run_spec spec;
    struct config config;
    int status = spec_read(&spec, keeper->dir, SPEC_FILE, err);
    if (status) return status;
    status = spec_load_config(&spec, &config, err);
    if (!status) {
        status = engine_start(&keeper->engine, keeper->dir, &config, &keeper->log, err);
        config_release(&config);
    }
    spec_release(&spec);
    if (!status) enter(keeper, KEEPER_AWAITS_CALL);
    return status;
}

/* Once: back.json is gone then. */
static bool take_way_back(struct keeper *keeper, const char *why)
{
    struct run_spec back;
    struct error err;
    char path[96];
    rundir_path(keeper->dir, SPEC_BACK_FILE, path, sizeof path);
    if (access(path, F_OK) != 0 || spec_read(&back, keeper->dir, SPEC_BACK_FILE, &err)) return false;
    unlink(path);
    back.part.failure = why;
    bool written = spec_write(&back, keeper->dir, SPEC_FILE, &err) == STATUS_OK;
    spec_release(&back);
    return written;
}

static void go_back(struct keeper *keeper, const char *why)
{
    struct error err;
    if (!take_way_back(keeper, why)) fail(keeper, why);
    else if (start(keeper, &err)) fail(keeper, err.text);
}

static void start_next(struct keeper *keeper)
{
    struct error err;
    if (start(keeper, &err)) go_back(keeper, err.text);
}

/* ---- what has come ---- */

static void take_handover(struct keeper *keeper, int fd)
{
    struct error err;
    const struct timeval patience = {.tv_sec = HANDOVER_PATIENCE_S};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    handover_receive(fd, &keeper->held, &err); /* what did not come is closed: those viewers see an end */
    close(fd);
    enter(keeper, KEEPER_AWAITS_END);
}

static void give_handover(struct keeper *keeper, int fd)
{
    struct error err;
    handover_send(fd, &keeper->held, &err);
    close(fd);
    handover_release(&keeper->held);
    enter(keeper, KEEPER_WATCHES);
}

static void await_end(struct keeper *keeper)
{
    struct error err;
    if (!engine_wait(keeper->engine, 0) && !is_late(keeper, END_PATIENCE_MS)) return;
    engine_end(keeper->engine, 0, &err); /* all it had to say is in our hands */
    keeper->engine = NULL;
    start_next(keeper);
}

static void await_call(struct keeper *keeper)
{
    struct error err;
    int fd = engine_answer(keeper->engine);
    if (fd >= 0) {
        give_handover(keeper, fd);
    } else if (engine_wait(keeper->engine, 0) || is_late(keeper, CALL_PATIENCE_MS)) {
        bool silent = engine_end(keeper->engine, 0, &err) == STATUS_OK;
        keeper->engine = NULL;
        go_back(keeper, silent ? "it ended before it began" : err.text);
    }
}

int keeper_tend(struct keeper *keeper)
{
    if (keeper->state == KEEPER_WATCHES && keeper->engine) {
        int fd = engine_answer(keeper->engine);
        if (fd >= 0) take_handover(keeper, fd);
    }
    if (keeper->state == KEEPER_AWAITS_END) await_end(keeper);
    if (keeper->state == KEEPER_AWAITS_CALL) await_call(keeper);
    return keeper->state == KEEPER_AWAITS_END || keeper->state == KEEPER_AWAITS_CALL ? TICK_MS : -1;
}

bool keeper_is_over(struct keeper *keeper, int timeout_ms)
{
    bool waits = keeper_tend(keeper) >= 0; /* what was handed over before the end is taken first */
    if (waits) usleep((unsigned)(timeout_ms < TICK_MS ? timeout_ms : TICK_MS) * 1000);
    if (waits || keeper->state != KEEPER_WATCHES) return keeper->state == KEEPER_FAILED;
    return engine_wait(keeper->engine, timeout_ms) && keeper_tend(keeper) < 0 && keeper->state == KEEPER_WATCHES;
}

void keeper_kill(struct keeper *keeper)
{
    if (keeper->engine) engine_kill(keeper->engine);
    if (keeper->state == KEEPER_AWAITS_END || keeper->state == KEEPER_AWAITS_CALL) fail(keeper, "it was interrupted");
}

int keeper_end(struct keeper *keeper, int grace_ms, struct error *err)
{
    int status = keeper->engine ? engine_end(keeper->engine, grace_ms, err) : STATUS_OK;
    if (keeper->state == KEEPER_FAILED) status = STATUS_OK; /* the trace has said why */
    keeper->engine = NULL;
    handover_release(&keeper->held);
    return status;
}
