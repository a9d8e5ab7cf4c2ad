/* Ranks that are processes read each other's GPU memory in place (comm.h: attach, reach). Each maps the pieces of the others' symmetric
 * segments, as they are committed and returned.
 *
 * A rank has a table that all can read: for each page of its segment the number of the piece that holds it, 0 for none; numbers are
 * never used again. Before a rank reads another's memory it compares the numbers with those of what it has mapped, and asks the other
 * for pieces that it lacks: a thread of the owner answers with the piece's borders and a file descriptor, which only a socket can pass
 * on. A piece that its owner has returned is unmapped at the next look.
 *
 * The sockets have names without files, and only processes of the same user are answered. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/rng.h"
#include "engine/comm/comm.h"
#include "engine/device/gpu_parts.h"

struct answer {
    uint64_t first, end;
    uint32_t number; /* 0: no piece is there */
};

/* ---- a rank's own table ---- */

void gpu_share_note(struct gpu_share *share, const struct device_range *range, uint64_t first, uint64_t end)
{
    const uint64_t unit = device_info(range->device)->granularity;
    if (!share->table || range != share->range) return;
    for (uint64_t at = first, piece_first, piece_end; at < end; at += unit) {
        const bool there = device_range_piece(range, at, &piece_first, &piece_end);
        _Atomic uint32_t *number = &share->table->number[at / unit];
        if (!there) atomic_store(number, 0);
        else if (!atomic_load(number))
            atomic_store(number, piece_first == at ? ++share->last_number : atomic_load(&share->table->number[at / unit - 1]));
    }
    atomic_fetch_add(&share->table->changes, 1);
}

static bool is_own_user(int fd)
{
    struct ucred who;
    socklen_t length = sizeof who;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &length) == 0 && who.uid == geteuid();
}

/* The question is an offset in the segment; UINT64_MAX asks for the table. */
static bool answer_one(struct gpu_share *share, int to, uint64_t at)
{
    struct answer answer = {0};
    struct error why;
    int fd = -1;
    if (at == UINT64_MAX) return file_send(to, &answer, sizeof answer, share->table_fd);
    pthread_mutex_lock(&share->lock);
    if (share->range && device_range_piece(share->range, at, &answer.first, &answer.end) &&
        device_range_export(share->range, answer.first, &fd, &why) == STATUS_OK)
        answer.number = atomic_load(&share->table->number[answer.first / device_info(share->range->device)->granularity]);
    pthread_mutex_unlock(&share->lock);
    const bool sent = file_send(to, &answer, sizeof answer, fd);
    if (fd >= 0) close(fd);
    return sent;
}

/* One connection at a time: a peer connects for each question. */
static void *answer_all(void *user)
{
    struct gpu_share *share = user;
    for (int from; (from = accept4(share->door, NULL, NULL, SOCK_CLOEXEC)) >= 0; close(from)) {
        uint64_t at;
        if (is_own_user(from) && recv(from, &at, sizeof at, MSG_WAITALL) == sizeof at) answer_one(share, from, at);
    }
    return NULL; /* gpu_share_close() has shut the door */
}

/* ---- other ranks' pieces ---- */

/* Returns the descriptor that comes with the answer; -1: none. */
static int ask(const struct sockaddr_un *door, uint64_t at, struct answer *answer)
{
    const int to = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    int fd = -1;
    if (to >= 0 && connect(to, (const struct sockaddr *)door, sizeof *door) == 0 && file_send(to, &at, sizeof at, -1) &&
        !file_receive(to, answer, sizeof *answer, &fd) && fd >= 0)
        close(fd), fd = -1; /* cut short */
    if (to >= 0) close(to);
    return fd;
}

static int lost(int rank, struct error *err)
{
    return error_set(err, STATUS_RUN, "rank %d does not give its GPU memory to other processes", rank);
}

/* Unmaps what the owner has returned since. */
static void drop_stale(struct gpu_peer *peer)
{
    const uint64_t unit = device_info(peer->range.device)->granularity, changes = atomic_load(&peer->table->changes);
    struct error why;
    if (changes == peer->seen_changes) return;
    peer->seen_changes = changes;
    for (uint64_t at = 0, first, end; at < peer->range.bytes; at += unit) {
        if (!peer->number[at / unit] || peer->number[at / unit] == atomic_load(&peer->table->number[at / unit]) ||
            !device_range_piece(&peer->range, at, &first, &end))
            continue;
        memset(&peer->number[first / unit], 0, (end - first) / unit * sizeof *peer->number);
        device_range_return(&peer->range, &first, &end, end - first, &why);
    }
}

static int reach(void *user, int rank, uint64_t from, uint64_t bytes, struct error *err)
{
    struct gpu_rank *own = user;
    struct gpu_peer *peer = &own->share.peers[rank];
    const uint64_t unit = device_info(own->on)->granularity;
    int status = STATUS_OK;
    drop_stale(peer);
    for (uint64_t at = from / unit * unit; at < from + bytes && !status; at += unit) {
        struct answer answer;
        if (peer->number[at / unit]) continue;
        const int fd = ask(&peer->door, at, &answer);
        if (fd < 0) return lost(rank, err);
        status = device_range_import(&peer->range, answer.first, answer.end, fd, err);
        close(fd);
        if (status) error_prefix(err, "without access between GPUs give topology.collectives=nccl, or topology.gpus=1");
        for (uint64_t page = answer.first / unit; page < answer.end / unit && !status; page++)
            peer->number[page] = answer.number;
    }
    return status;
}

/* ---- open and close ---- */

static int open_own(struct gpu_rank *own, void *base, uint64_t bytes, struct error *err)
{
    struct gpu_share *share = &own->share;
    const uint64_t unit = device_info(own->on)->granularity, table_bytes = sizeof *share->table + bytes / unit * sizeof(uint32_t);
    struct sockaddr_un *door = &share->peers[own->number].door;
    share->range = gpu_pages_range(&own->pages, base);
    share->table_fd = pages_file("zerolab-gpu", table_bytes, err);
    if (share->table_fd < 0) return STATUS_RUN;
    share->table_bytes = table_bytes;
    share->table = pages_reserve(table_bytes, share->table_fd, err);
    if (!share->table) return STATUS_RUN;
    door->sun_family = AF_UNIX; /* a name that begins with NUL has no file */
    snprintf(door->sun_path + 1, sizeof door->sun_path - 1, "zerolab-gpu-%d-%llx", getpid(),
             (unsigned long long)rng_mix((uint64_t)(uintptr_t)share ^ clock_ns()));
    share->door = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (share->door < 0 || bind(share->door, (const struct sockaddr *)door, sizeof *door) || listen(share->door, 64) ||
        pthread_create(&share->thread, NULL, answer_all, share))
        return error_set(err, STATUS_RUN, "cannot let other processes map GPU memory: %s", strerror(errno));
    share->answers = true;
    pthread_mutex_lock(&share->lock);
    gpu_share_note(share, share->range, 0, share->range->bytes);
    pthread_mutex_unlock(&share->lock);
    return STATUS_OK;
}

static int open_peer(struct gpu_rank *own, int rank, uint64_t bytes, struct error *err)
{
    struct gpu_peer *peer = &own->share.peers[rank];
    struct answer answer;
    int status = device_range_reserve(&peer->range, own->on, bytes, err);
    if (status) return status;
    peer->number = calloc(peer->range.bytes / device_info(own->on)->granularity, sizeof *peer->number);
    if (!peer->number) return error_set(err, STATUS_RUN, "no memory for a list of GPU pages");
    const int fd = ask(&peer->door, UINT64_MAX, &answer);
    if (fd < 0) return lost(rank, err);
    peer->table = pages_reserve(own->share.table_bytes, fd, err);
    close(fd);
    return peer->table ? STATUS_OK : STATUS_RUN;
}

static int attach(void *user, struct comm *comm, void *base, uint64_t bytes, unsigned char **peers, struct error *err)
{
    struct gpu_rank *own = user;
    struct gpu_share *share = &own->share;
    const int ranks = own->gpu->rank_count;
    struct sockaddr_un doors[ranks];
    share->peers = calloc((size_t)ranks, sizeof *share->peers);
    if (!share->peers) return error_set(err, STATUS_RUN, "no memory for peers");
    int status = open_own(own, base, bytes, err);
    if (!status) status = comm_exchange(comm, &share->peers[own->number].door, doors, sizeof *doors, NULL, err);
    for (int r = 0; r < ranks && !status; r++) {
        if (r == own->number) continue;
        share->peers[r].door = doors[r];
        status = open_peer(own, r, bytes, err);
        peers[r] = share->peers[r].range.base;
    }
    return status;
}

void gpu_share_open(struct gpu_rank *rank)
{
    pthread_mutex_init(&rank->share.lock, NULL);
    rank->share.door = rank->share.table_fd = -1;
    if (!rank->gpu->comm || rank->gpu->clique || rank->gpu->rank_count == 1) return;
    device_export(rank->on);
    rank->device_ops.attach = attach;
    rank->device_ops.reach = reach;
    rank->device_ops.come = NULL; /* events do not cross processes: threads wait for their GPU before they meet */
}

void gpu_share_close(struct gpu_rank *rank)
{
    struct gpu_share *share = &rank->share;
    if (share->door >= 0) shutdown(share->door, SHUT_RDWR);
    if (share->answers) pthread_join(share->thread, NULL);
    if (share->door >= 0) close(share->door);
    for (int r = 0; share->peers && r < rank->gpu->rank_count; r++) {
        device_range_release(&share->peers[r].range);
        if (share->peers[r].table) pages_unreserve(share->peers[r].table, share->table_bytes);
        free(share->peers[r].number);
    }
    if (share->table) pages_unreserve(share->table, share->table_bytes);
    if (share->table_fd >= 0) close(share->table_fd);
    free(share->peers);
    pthread_mutex_destroy(&share->lock);
}
