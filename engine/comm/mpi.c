/* Opens and closes ranks that mpirun started. They find each other by MPI; the ranks of a (virtual) node share memory. */
#include "engine/comm/internal.h"

#ifndef HAVE_MPI

bool comm_have_mpi(void)
{
    return false;
}

void comm_mpi_version(char *text, size_t room)
{
    if (room) *text = '\0';
}

bool comm_left_mpi(void)
{
    return false;
}

int comm_open_mpi(struct comm **out, int ranks_per_node, struct error *err)
{
    (void)ranks_per_node;
    *out = NULL;
    return error_set(err, STATUS_USAGE,
                     "built without MPI; install Open MPI (libopenmpi-dev) and build again, or run ranks as threads");
}

#else

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/version.h"
#include "engine/comm/wire.h"
#include "engine/memory/pages.h"

bool comm_have_mpi(void)
{
    return true;
}

bool comm_left_mpi(void)
{
    int left = 0;
    MPI_Finalized(&left);
    return left;
}

void comm_mpi_version(char *text, size_t room)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(version, &length); /* permitted before MPI_Init */
    snprintf(text, room, "%.*s", (int)strcspn(version, ",\n"), version);
}

/* Equal for processes that can open each other's /proc/PID: the same boot of a kernel and the same PID namespace. */
static uint64_t machine_id(void)
{
    unsigned char text[256] = "";
    ssize_t used = 0, length;
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) used = read(fd, text, 64);
    if (fd >= 0) close(fd);
    if (used < 0) used = 0;
    length = readlink("/proc/self/ns/pid", (char *)text + used, sizeof text - (size_t)used);
    if (length > 0) used += length;
    uint64_t id = 14695981039346656037u; /* FNV-1a */
    for (ssize_t i = 0; i < used; i++) id = (id ^ text[i]) * 1099511628211u;
    return id;
}

/* Collective: returns the error of the lowest rank that has one, on all ranks; 0 if no rank has one. */
static int agree(MPI_Comm world, const struct error *failure, struct error *err)
{
    int rank, ranks;
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &ranks);
    int mine = failure->status ? rank : ranks, first;
    MPI_Allreduce(&mine, &first, 1, MPI_INT, MPI_MIN, world);
    if (first == ranks) return 0;
    struct error theirs = *failure;
    MPI_Bcast(&theirs, sizeof theirs, MPI_BYTE, first, world);
    return error_set(err, theirs.status, "rank %d: %.400s", first, theirs.text);
}

struct hello {
    uint64_t machine;
    int pid, ranks_per_node;
    char version[24], host[64];
};

/* Ranks of two versions would not understand each other. */
static int check_versions(const struct hello *hello, int ranks, struct error *err)
{
    for (int r = 1; r < ranks; r++)
        if (strncmp(hello[r].version, hello[0].version, sizeof hello->version) != 0)
            return error_set(err, STATUS_USAGE,
                             "host %.63s has zerolab %.23s, host %.63s has %.23s; install one version on all",
                             hello[r].host, hello[r].version, hello[0].host, hello[0].version);
    return 0;
}

/* Numbers machines and nodes in rank order. The ranks of a machine must be consecutive. */
static int number_nodes(struct comm *comm, const struct hello *hello, int ranks_per_node, struct error *err)
{
    int machine = 0, node = 0, on_machine = 0, most = 0;
    for (int r = 0; r < comm->layout.ranks; r++, on_machine++) {
        if (r && hello[r].machine != hello[r - 1].machine) {
            machine++, node++, on_machine = 0;
            for (int s = 0; s < r - 1; s++)
                if (hello[s].machine == hello[r].machine)
                    return error_set(
                        err, STATUS_USAGE,
                        "ranks %d and %d are on one machine, others between them are not; start with --map-by slot", s,
                        r);
        } else if (r && ranks_per_node > 0 && on_machine % ranks_per_node == 0) {
            node++;
        }
        comm->peer[r] = (struct comm_peer){node, machine, hello[r].pid, ""};
        memcpy(comm->peer[r].host, hello[r].host, sizeof hello->host);
        if (on_machine + 1 > most) most = on_machine + 1;
    }
    comm->layout.nodes = node + 1;
    comm->layout.node = comm->peer[comm->layout.rank].node;
    comm->layout.ranks_per_node = ranks_per_node > 0 && ranks_per_node < most ? ranks_per_node : most;
    while (comm->peer[comm->node_first].node != comm->layout.node) comm->node_first++;
    return 0;
}

static int meet_peers(struct comm *comm, int ranks_per_node, struct error *err)
{
    struct hello mine = {machine_id(), getpid(), ranks_per_node, ZEROLAB_VERSION, ""};
    struct hello *hello = calloc((size_t)comm->layout.ranks, sizeof *hello);
    if (!hello) return error_set(err, STATUS_RUN, "no memory for %d ranks", comm->layout.ranks);
    gethostname(mine.host, sizeof mine.host - 1);
    MPI_Allgather(&mine, sizeof mine, MPI_BYTE, hello, sizeof mine, MPI_BYTE, comm->wire_state->world);
    int status = check_versions(hello, comm->layout.ranks, err);
    if (!status) status = number_nodes(comm, hello, hello[0].ranks_per_node, err);
    free(hello);
    if (status) return status;
    const struct comm_peer *self = &comm->peer[comm->layout.rank];
    for (int r = 0; r < comm->layout.ranks; r++)
        if (r != comm->layout.rank && comm->peer[r].node == self->node) watch_add(&comm->watch, r, comm->peer[r].pid);
    return 0;
}

/* The node's first rank makes the node block, the others map it. Each step ends in agree(), so all ranks fail together. */
static int make_node(struct comm *comm, struct error *err)
{
    MPI_Comm world = comm->wire_state->world;
    struct error failure = {0};
    int ranks = comm->layout.ranks, rank = comm->layout.rank, first = comm->node_first, fd = -1, fds[ranks];
    size_t bytes = node_bytes(ranks);
    if (rank == first) fd = pages_file("zerolab-node", bytes, &failure);
    MPI_Allgather(&fd, 1, MPI_INT, fds, 1, MPI_INT, world);
    int status = agree(world, &failure, err);
    if (!status) {
        comm->node_bytes = bytes;
        comm->node = rank == first ? pages_reserve(bytes, fd, &failure)
                                   : comm_map_of_process(comm->peer[first].pid, fds[first], bytes, &failure);
        if (comm->node && rank == first) comm->node->seats = ranks;
        if (comm->node && rank == first)
            for (int r = first; r < ranks && comm->peer[r].node == comm->layout.node; r++) comm->node->members++;
        status = agree(world, &failure, err);
    }
    if (fd >= 0) close(fd);
    if (!status || !comm->node) return status;
    pages_unreserve(comm->node,
                    bytes); /* a rank has no node block: then comm_close() must not use it for its barrier */
    comm->node = NULL;
    return status;
}

/* Whether all ranks close their communicators within two seconds. After most failures they do, because all hear of it. */
static bool all_close(struct comm *comm, struct wire *wire)
{
    const struct timespec millisecond = {.tv_nsec = 1000000};
    MPI_Request request;
    int done = 0;
    if (MPI_Ibarrier(wire->world, &request)) return false;
    for (int waited_ms = 0; waited_ms < 2000; waited_ms++) {
        if (watch_dead(&comm->watch) || watch_dead(&wire->far_watch)) return false;
        if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) || done) return done;
        nanosleep(&millisecond, NULL);
    }
    return false;
}

/* MPI_Finalize waits for all ranks and keeps a core busy, so it is called only if all of them close. */
static void close_process(struct comm *comm, bool healthy)
{
    struct wire *wire = comm->wire_state;
    comm->wire_state = NULL;
    const bool all_come = healthy || all_close(comm, wire);
    side_close(wire, all_come);
    if (all_come) MPI_Comm_free(&wire->world);
    if (all_come && wire->owns_mpi) MPI_Finalize();
    wire_release(wire);
}

static int start_mpi(struct wire *wire, struct error *err)
{
    int there, level;
    MPI_Initialized(&there);
    wire->owns_mpi = !there;
    if (!there && MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level) != MPI_SUCCESS)
        return error_set(err, STATUS_RUN, "MPI does not start");
    MPI_Query_thread(&level);
    if (level < MPI_THREAD_SERIALIZED)
        return error_set(err, STATUS_RUN,
                         "this MPI lets only the main thread call it; MPI_THREAD_SERIALIZED is needed");
    MPI_Comm_dup(MPI_COMM_WORLD, &wire->world);
    MPI_Comm_set_errhandler(wire->world, MPI_ERRORS_RETURN);
    return 0;
}

int comm_open_mpi(struct comm **out, int ranks_per_node, struct error *err)
{
    *out = NULL;
    struct wire *wire = calloc(1, sizeof *wire);
    if (!wire) return error_set(err, STATUS_RUN, "no memory for the communicator");
    struct comm_layout layout = {0};
    struct comm *comm;
    struct error failure = {0};
    int status = start_mpi(wire, err);
    if (!status) {
        MPI_Comm_rank(wire->world, &layout.rank);
        MPI_Comm_size(wire->world, &layout.ranks);
        status = comm_new(&comm, &layout, err);
    }
    if (status) return wire_release(wire), status;
    comm->wire_state = wire;
    comm->close_backend = close_process;
    meet_peers(comm, ranks_per_node, &failure);
    const bool is_far = !failure.status && comm_machines(comm) > 1; /* equal on all ranks */
    if (!failure.status && comm->layout.nodes > 1) wire_open(comm, &failure);
    if (is_far) side_open(comm, &failure);
    comm_set_group(comm, NULL); /* with the wire, some ranks are far */
    status = agree(wire->world, &failure, err);
    if (!status) status = make_node(comm, err);
    if (status) comm_close(comm);
    else *out = comm;
    return status;
}

#endif
