#include "engine/train/relauncher.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/trace/writer.h"
#include "engine/train/records.h"

enum { END_PATIENCE_MS = 30000, CALL_PATIENCE_MS = 120000, TICK_MS = 25, HANDOVER_PATIENCE_S = 10 };

static void enter(struct relauncher *relauncher, enum relauncher_state state)
{
    relauncher->state = state;
    relauncher->since_ns = clock_ns();
}

static bool is_late(const struct relauncher *relauncher, int patience_ms)
{
    return clock_ns() - relauncher->since_ns > (uint64_t)patience_ms * 1000000;
}

/* Empties the log, because engines append to it. A missing file or a pipe needs no emptying. */
static void empty(const char *log)
{
    struct stat about;
    int fd = log && stat(log, &about) == 0 && S_ISREG(about.st_mode) ? file_open_named(log, O_WRONLY | O_TRUNC) : -1;
    if (fd >= 0) close(fd);
}

int relauncher_begin(struct relauncher *relauncher, const struct rundir *dir, const struct run_spec *spec,
                     const struct config *config, const char *log, struct error *err)
{
    *relauncher = (struct relauncher){.dir = dir, .log.path = log, .held.listen_fd = -1};
    empty(log);
    return engine_start(&relauncher->engine, dir, spec, config, &relauncher->log, err);
}

int relauncher_fd(const struct relauncher *relauncher)
{
    bool listens = relauncher->state == RELAUNCHER_WATCHES || relauncher->state == RELAUNCHER_AWAITS_CALL;
    return listens && relauncher->engine ? engine_home(relauncher->engine) : -1;
}

/* ---- when no engine can continue ---- */

/* The front end itself ends the trace: it holds the file and the viewers. */
static void end_trace(struct relauncher *relauncher, const struct run_spec *spec, const char *text)
{
    enum { RING_BYTES = 16 << 10 };
    struct trace_writer *writer;
    struct trace_writer_options options = {.file = spec->trace,
                                           .file_limit_bytes = (uint64_t)spec->trace_limit_bytes,
                                           .handed = &relauncher->held,
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

static void fail(struct relauncher *relauncher, const char *why)
{
    struct run_spec spec = {0};
    struct error err;
    char kept[160], text[800];
    bool known = spec_read(&spec, relauncher->dir, SPEC_FILE, &err) == STATUS_OK, was_back = known && spec.part.failure;
    int at = snprintf(text, sizeof text, "the engine could not be started again: %.200s%s%.200s",
                      was_back ? spec.part.failure : why, was_back ? "; nor as before: " : "", was_back ? why : "");
    if (known && spec.part.state && rundir_keep(relauncher->dir, "state", kept, sizeof kept, &err) == STATUS_OK)
        snprintf(text + at, sizeof text - (size_t)at, "; go on after step %lld with: zerolab train --resume %s",
                 (long long)spec.part.steps_done, kept);
    end_trace(relauncher, &spec, text);
    handover_release(&relauncher->held);
    if (known) spec_release(&spec);
    enter(relauncher, RELAUNCHER_FAILED);
}

/* ---- starting ---- */

static int start(struct relauncher *relauncher, struct error *err)
{
    struct run_spec spec;
    struct config config;
    int status = spec_read(&spec, relauncher->dir, SPEC_FILE, err);
    if (status) return status;
    status = spec_load_config(&spec, &config, err);
    if (!status) {
        status = engine_start(&relauncher->engine, relauncher->dir, &spec, &config, &relauncher->log, err);
        config_release(&config);
    }
    spec_release(&spec);
    if (!status) enter(relauncher, RELAUNCHER_AWAITS_CALL);
    return status;
}

/* Makes back.json the order for the next engine. Works only once, because it removes back.json. */
static bool take_way_back(struct relauncher *relauncher, const char *why)
{
    struct run_spec back;
    struct error err;
    char path[96];
    rundir_path(relauncher->dir, SPEC_BACK_FILE, path, sizeof path);
    if (access(path, F_OK) != 0 || spec_read(&back, relauncher->dir, SPEC_BACK_FILE, &err)) return false;
    unlink(path);
    back.part.failure = why;
    bool written = spec_write(&back, relauncher->dir, SPEC_FILE, &err) == STATUS_OK;
    spec_release(&back);
    return written;
}

static void go_back(struct relauncher *relauncher, const char *why)
{
    struct error err;
    if (!take_way_back(relauncher, why)) fail(relauncher, why);
    else if (start(relauncher, &err)) fail(relauncher, err.text);
}

/* ---- calls of engines ---- */

static void take_handover(struct relauncher *relauncher, int fd)
{
    struct error err;
    const struct timeval patience = {.tv_sec = HANDOVER_PATIENCE_S};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    handover_receive(fd, &relauncher->held, &err); /* a descriptor that is lost is closed: its viewer sees an end */
    close(fd);
    enter(relauncher, RELAUNCHER_AWAITS_END);
}

static void give_handover(struct relauncher *relauncher, int fd)
{
    struct error err;
    handover_send(fd, &relauncher->held, &err);
    close(fd);
    handover_release(&relauncher->held);
    enter(relauncher, RELAUNCHER_WATCHES);
}

static void await_end(struct relauncher *relauncher)
{
    struct error err;
    if (!engine_wait(relauncher->engine, 0) && !is_late(relauncher, END_PATIENCE_MS)) return;
    engine_end(relauncher->engine, 0, NULL, &err); /* all of its records have been read */
    relauncher->engine = NULL;
    if (start(relauncher, &err)) go_back(relauncher, err.text);
}

static void await_call(struct relauncher *relauncher)
{
    struct error err;
    int fd = engine_answer(relauncher->engine);
    if (fd >= 0) {
        give_handover(relauncher, fd);
    } else if (engine_wait(relauncher->engine, 0) || is_late(relauncher, CALL_PATIENCE_MS)) {
        bool silent = engine_end(relauncher->engine, 0, NULL, &err) == STATUS_OK;
        relauncher->engine = NULL;
        go_back(relauncher, silent ? "it ended before it began" : err.text);
    }
}

int relauncher_advance(struct relauncher *relauncher)
{
    if (relauncher->state == RELAUNCHER_WATCHES && relauncher->engine) {
        int fd = engine_answer(relauncher->engine);
        if (fd >= 0) take_handover(relauncher, fd);
    }
    if (relauncher->state == RELAUNCHER_AWAITS_END) await_end(relauncher);
    if (relauncher->state == RELAUNCHER_AWAITS_CALL) await_call(relauncher);
    return relauncher->state == RELAUNCHER_AWAITS_END || relauncher->state == RELAUNCHER_AWAITS_CALL ? TICK_MS : -1;
}

bool relauncher_is_over(struct relauncher *relauncher, int timeout_ms)
{
    bool waits = relauncher_advance(relauncher) >= 0; /* first receives what the engine handed over before its end */
    if (waits) usleep((unsigned)(timeout_ms < TICK_MS ? timeout_ms : TICK_MS) * 1000);
    if (waits || relauncher->state != RELAUNCHER_WATCHES) return relauncher->state == RELAUNCHER_FAILED;
    return engine_wait(relauncher->engine, timeout_ms) && relauncher_advance(relauncher) < 0 && relauncher->state == RELAUNCHER_WATCHES;
}

void relauncher_kill(struct relauncher *relauncher)
{
    if (relauncher->engine) engine_kill(relauncher->engine);
    if (relauncher->state == RELAUNCHER_AWAITS_END || relauncher->state == RELAUNCHER_AWAITS_CALL) fail(relauncher, "it was interrupted");
}

int relauncher_end(struct relauncher *relauncher, int grace_ms, struct error *err)
{
    int status = relauncher->engine ? engine_end(relauncher->engine, grace_ms, NULL, err) : STATUS_OK;
    if (relauncher->state == RELAUNCHER_FAILED) status = STATUS_OK; /* the trace has said why */
    relauncher->engine = NULL;
    handover_release(&relauncher->held);
    return status;
}
