/* Opens and closes a rank's side of the trace: its rings in shared memory; on rank 0 also the writer that drains
 * them, and the director that receives the viewers' commands. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/base/json.h"
#include "engine/train/relaunch.h"

/* A schedule is one record, of 6 KiB for four layers and a micro-batch, so rank 0's ring for them is large. It lies in memory of rank 0's
 * own, which the kernel provides as far as records have come. */
enum { RING_BYTES = 512 << 10, SCHEDULES_RING_BYTES = 32 << 20 };
static const uint64_t owner_grace_ns = 10000000000u;

/* ---- the director ---- */

static void on_line(void *user, const char *line)
{
    director_push(user, line);
}

static void on_owner(void *user)
{
    director_owner_here(user);
}

static void on_owner_gone(void *user)
{
    director_owner_gone(user);
}

/* A pause between two steps is an event of the run; waiting within a step is only a state. */
static void on_state(void *user, enum run_state state, const char *reason, bool in_step)
{
    struct rank *rank = user;
    record_state(rank->ring, rank->steps_done, state, reason);
    if (state != RUN_PAUSED || in_step) return;
    record_event(rank->ring, rank->steps_done, "pause", json_object(TEXT("text", reason))); /* after that step */
}

static void on_answer(void *user, const char *line, const char *refusal)
{
    struct rank *rank = user;
    record_command(rank->ring, rank->steps_done, line, refusal);
}

static void on_note(void *user, const char *text)
{
    struct rank *rank = user;
    record_log(rank->ring, 0, text);
}

static bool reader_lags(void *user)
{
    const struct rank *rank = user;
    return rank->rank0.writer && trace_writer_lags(rank->rank0.writer);
}

static int start_director(struct rank *rank, struct error *err)
{
    struct director_options options = {
        .steps = rank->spec->steps,
        .at = rank->spec->at,
        .lines = rank->spec->part.lines,
        .paused = rank->spec->part.paused,
        .interactive = rank->spec->interactive,
        .detached = rank->spec->detached,
        .grace_ns = owner_grace_ns,
        .signal_fd = rank->rank0.signal_fd,
        .on_state = on_state,
        .on_answer = on_answer,
        .on_note = on_note,
        .reader_lags = reader_lags,
        .gate = rank_count_here(rank) == rank->ranks ? rank->gate : NULL, /* all see it */
        .user = rank,
    };
    return director_new(&rank->rank0.director, &options, err);
}

/* ---- the writer ---- */

/* Calls the front end. In part 0 the call becomes the driver's connection; a detached run has none, and only tells
 * the front end that it is up (let_watch()). In later parts the front end sends the previous engine's socket and
 * viewers. */
static int call_home(struct rank *rank, struct handover *handed, int *driver_fd, struct error *err)
{
    const bool goes_on = rank->spec->part.number > 0;
    int fd, status = rank->spec->detached && !goes_on ? STATUS_OK : home_call(rank->dir, &fd, err);
    if (status || (rank->spec->detached && !goes_on)) return status;
    if (!goes_on) return *driver_fd = fd, STATUS_OK;
    status = handover_receive(fd, handed, err);
    close(fd);
    return status;
}

/* Tells the front end that the run is up, and waits until it closes the call: it may connect as a viewer first, to
 * see all records. */
static int let_watch(struct rank *rank, struct error *err)
{
    char none;
    int fd, status = home_call(rank->dir, &fd, err);
    if (status) return status;
    while (read(fd, &none, 1) < 0 && errno == EINTR) continue;
    close(fd);
    return status;
}

/* ---- other machines: the side channel as a port of the trace ---- */

_Static_assert((int)PORT_BYTES <= (int)COMM_SIDE_BYTES, "a message of the trace fits into one of the side channel");

static struct trace_port port_of(const struct rank *rank)
{
    return (struct trace_port){.comm = rank->comm,
                               .machines = comm_machines(rank->comm),
                               .send = comm_side_send,
                               .receive = comm_side_receive,
                               .sent = comm_side_sent,
                               .failed = comm_has_failed,
                               .leader = comm_leader_of,
                               .host = comm_host};
}

/* Whether this rank leads a machine other than rank 0's. */
static bool relays(const struct rank *rank)
{
    const int machine = comm_machine_of(rank->comm, rank->rank);
    return machine && comm_leader_of(rank->comm, machine) == rank->rank;
}

static int start_writer(struct rank *rank, struct error *err)
{
    char socket_path[96];
    struct handover handed = {.listen_fd = -1};
    const bool begins = rank->spec->part.number == 0;
    int home_fd = -1, status = call_home(rank, &handed, &home_fd, err);
    if (status) return status;
    rundir_path(rank->dir, "socket", socket_path, sizeof socket_path);
    const struct trace_port port = port_of(rank);
    struct trace_writer_options options = {
        .file = rank->spec->trace,
        .file_limit_bytes = (uint64_t)rank->spec->trace_limit_bytes,
        .tell_growth = rank->spec->trace_tells && begins,
        .port = port.machines > 1 ? &port : NULL,
        .socket = socket_path,
        .handed = begins ? NULL : &handed,
        .adopted_fd = home_fd,
        .on_command = on_line,
        .on_driver = on_owner,
        .on_driver_gone = on_owner_gone,
        .user = rank->rank0.director,
    };
    status = trace_writer_start(&rank->rank0.writer, &options, err);
    handover_release(&handed);
    if (!status && rank->spec->detached && begins) status = let_watch(rank, err);
    return status;
}

/* ---- the rings ---- */

static struct trace_ring *ring_of(struct rank *rank, int of, int lane)
{
    return (struct trace_ring *)((char *)comm_segment_of(rank->comm, of) + (size_t)lane * RING_BYTES);
}

static int open_rings(struct rank *rank, struct error *err)
{
    int status = comm_share(rank->comm, (size_t)ZERO_RINGS * RING_BYTES + sizeof *rank->gate, err);
    if (status) return status;
    char *segment = comm_segment_of(rank->comm, 0); /* NULL on another machine */
    rank->gate = segment ? (struct gate *)(segment + (size_t)ZERO_RINGS * RING_BYTES) : NULL; /* after rank 0's rings */
    if (rank->rank == 0) gate_close(rank->gate, GATE_OPEN);
    for (int lane = 0; lane < ZERO_RINGS; lane++)
        rank->rings[lane] = trace_ring_init(ring_of(rank, rank->rank, lane), RING_BYTES);
    if (rank->rank == 0) {
        rank->rank0.schedules_ring = aligned_alloc(64, SCHEDULES_RING_BYTES);
        if (!rank->rank0.schedules_ring) return error_set(err, STATUS_RUN, "no memory to record schedules");
        rank->rings[ZERO_RING_SCHEDULES] = trace_ring_init(rank->rank0.schedules_ring, SCHEDULES_RING_BYTES);
    }
    rank->ring = rank->rings[ZERO_RING_CONTROL];
    return STATUS_OK;
}

int rank_open_trace(struct rank *rank, struct error *err)
{
    int status = open_rings(rank, err);
    if (!status && rank->rank == 0) status = start_director(rank, err);
    if (!status && rank->rank == 0) status = start_writer(rank, err);
    const struct trace_port port = port_of(rank);
    if (!status && relays(rank)) status = relay_start(&rank->relay, &port, err);
    if (!status) status = comm_barrier(rank->comm, err); /* every ring is ready for the writer */
    for (int of = 0; !status && of < rank->ranks; of++) /* ranks of this machine, on any virtual node */
        for (int lane = 0; comm_segment_of(rank->comm, of) && lane < (of == 0 ? ZERO_RINGS : ZERO_RING_SCHEDULES); lane++) {
            struct trace_ring *ring = of == rank->rank ? rank->rings[lane] : ring_of(rank, of, lane);
            if (rank->rank == 0) trace_writer_add_ring(rank->rank0.writer, ring);
            if (rank->relay) relay_add_ring(rank->relay, ring);
        }
    return status;
}

void rank_close_trace(struct rank *rank, enum outcome outcome, const char *error)
{
    relay_stop(rank->relay);
    rank->relay = NULL;
    if (rank->rank != 0) return;
    if (rank->relaunch.leaves && outcome != OUTCOME_FAILED) relaunch_hand_over(rank);
    bool back = outcome == OUTCOME_FAILED && !rank->rank0.opened && relaunch_go_back(rank, error);
    if (rank->rank0.writer && !back) {
        record_state(rank->ring, rank->steps_done, RUN_ENDED, error);
        record_end(rank->ring, outcome, error);
        trace_writer_stop(rank->rank0.writer);
    }
    free(rank->rank0.saver_ring);
    free(rank->rank0.schedules_ring);
    director_free(rank->rank0.director);
}
