/* Our all-gather and reduce-scatter between processes of one machine against Open MPI's own, in the same run, on four ranks:
 * once with 16 MiB in all (a unit) and once with 16 MiB a rank (how MPI benchmarks count). The two are taken in turn; medians
 * of what the slowest rank needed and of the ratio. */
#include <stdio.h>

#ifndef HAVE_MPI
int main(void)
{
    puts("comm: built without MPI, nothing to compare with");
    return 0;
}
#else
#include <fcntl.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/comm/comm.h"
#include "engine/memory/memory.h"

enum { RANKS = 4, REPEATS = 31, WARM_UP = 3, LARGEST_BYTES = 64 << 20 };

struct bench {
    struct comm *comm;
    int unit_bytes, shard_bytes;
    struct memory *memory;
    int rank;
    struct comm_range ranges[RANKS];
    unsigned char *source, *result; /* ours: the unit in the symmetric segment, and a private unit */
    unsigned char *send, *receive;  /* MPI's */
};

static void stop(const char *what)
{
    fprintf(stderr, "bench_comm: %s\n", what);
    exit(1);
}

static void ours_gather(struct bench *b, enum dtype dtype)
{
    for (int r = 0; r < RANKS; r++) b->ranges[r].elems = b->shard_bytes / dtype_bytes(dtype);
    for (int r = 0; r < RANKS; r++) b->ranges[r].destination = b->result + r * b->shard_bytes;
    if (comm_all_gather(b->comm, dtype, b->ranges, RANKS, true, NULL, NULL)) stop("all-gather failed");
}

static void ours_reduce(struct bench *b, enum dtype dtype)
{
    for (int r = 0; r < RANKS; r++) b->ranges[r].elems = b->shard_bytes / dtype_bytes(dtype);
    b->ranges[b->rank].destination = b->result;
    if (comm_reduce_scatter(b->comm, dtype, dtype, b->ranges, RANKS, 0, true, NULL, NULL)) stop("reduce-scatter failed");
}

static void mpi_gather(struct bench *b, enum dtype dtype)
{
    (void)dtype;
    MPI_Allgather(b->send, b->shard_bytes, MPI_BYTE, b->receive, b->shard_bytes, MPI_BYTE, MPI_COMM_WORLD);
}

static void mpi_reduce(struct bench *b, enum dtype dtype)
{
    (void)dtype;
    MPI_Reduce_scatter_block(b->receive, b->send, b->shard_bytes / 4, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

typedef void collective(struct bench *b, enum dtype dtype);

/* What the slowest rank needed, all beginning together. */
static double seconds(struct bench *b, collective *run, enum dtype dtype)
{
    double all[RANKS], mine, slowest = 0;
    comm_exchange(b->comm, NULL, NULL, 0, NULL, NULL);
    uint64_t start = clock_ns();
    run(b, dtype);
    mine = 1e-9 * (double)(clock_ns() - start);
    if (comm_exchange(b->comm, &mine, all, sizeof mine, NULL, NULL)) stop("exchange failed");
    for (int r = 0; r < RANKS; r++) slowest = all[r] > slowest ? all[r] : slowest;
    return slowest;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values)
{
    qsort(values, REPEATS, sizeof *values, by_value);
    return values[REPEATS / 2];
}

static void compare(struct bench *b, const char *name, collective *ours, collective *theirs, enum dtype dtype,
                    double target)
{
    double own[REPEATS], mpi[REPEATS], ratio[REPEATS];
    for (int i = -WARM_UP; i < REPEATS; i++) {
        double own_s = seconds(b, ours, dtype), mpi_s = seconds(b, theirs, DTYPE_F32);
        if (i < 0) continue;
        own[i] = own_s, mpi[i] = mpi_s, ratio[i] = mpi_s / own_s;
    }
    double moved = b->unit_bytes * (RANKS - 1.0); /* bytes sent by all ranks together */
    double times = median(ratio);
    if (b->rank) return;
    printf("%-14s %s  ours %6.2f ms (%5.2f GB/s)  Open MPI %6.2f ms (%5.2f GB/s)  %.2fx", name, dtype_name(dtype),
           1e3 * median(own), 1e-9 * moved / median(own), 1e3 * median(mpi), 1e-9 * moved / median(mpi), times);
    if (target > 0) printf("  (target %.1fx: %s)", target, times >= target ? "met" : "missed");
    putchar('\n');
}

static void open_bench(struct bench *b)
{
    struct error err = {0};
    struct memory_ranges ranges = {0};
    ranges.bytes[TIER_DEVICE][CATEGORY_PARAMETERS] = ranges.bytes[TIER_DEVICE][CATEGORY_GATHERED] = LARGEST_BYTES;
    ranges.bytes[TIER_DEVICE][CATEGORY_STAGING] = 2 * LARGEST_BYTES;
    if (comm_open_mpi(&b->comm, 0, &err) || memory_create(&b->memory, &ranges, (uint64_t[TIERS]){0}, NULL, &err) ||
        memory_take(b->memory, TIER_DEVICE, CATEGORY_PARAMETERS, 0, LARGEST_BYTES, &err) ||
        memory_take(b->memory, TIER_DEVICE, CATEGORY_GATHERED, 0, LARGEST_BYTES, &err) ||
        memory_take(b->memory, TIER_DEVICE, CATEGORY_STAGING, 0, 2 * LARGEST_BYTES, &err) ||
        comm_attach(b->comm, b->memory, &err))
        stop(err.text);
    b->rank = comm_layout(b->comm)->rank;
    b->source = memory_at(b->memory, TIER_DEVICE, CATEGORY_PARAMETERS, 0);
    b->result = memory_at(b->memory, TIER_DEVICE, CATEGORY_GATHERED, 0);
    b->send = memory_at(b->memory, TIER_DEVICE, CATEGORY_STAGING, 0);
    b->receive = b->send + LARGEST_BYTES;
    memset(b->source, 1, LARGEST_BYTES);
    memset(b->send, 1, 2 * LARGEST_BYTES);
}

static void compare_all(struct bench *b, int unit_bytes)
{
    const uint64_t at = memory_symmetric(b->memory)->offset[CATEGORY_PARAMETERS];
    b->unit_bytes = unit_bytes;
    b->shard_bytes = unit_bytes / RANKS;
    for (int r = 0; r < RANKS; r++)
        b->ranges[r] = (struct comm_range){.owner = r, .source = at + (uint64_t)r * (uint64_t)b->shard_bytes};
    if (b->rank == 0)
        printf("%d MiB in all, %d MiB a rank, %d ranks, median of %d\n", b->unit_bytes >> 20, b->shard_bytes >> 20,
               RANKS, REPEATS);
    compare(b, "all-gather", ours_gather, mpi_gather, DTYPE_F32, 1.5);
    compare(b, "reduce-scatter", ours_reduce, mpi_reduce, DTYPE_F32, 4);
    compare(b, "reduce-scatter", ours_reduce, mpi_reduce, DTYPE_BF16, 0);
}

static int run_rank(void)
{
    struct bench b = {0};
    open_bench(&b);
    if (comm_layout(b.comm)->ranks != RANKS) stop("started with another number of ranks");
    compare_all(&b, 16 << 20);
    compare_all(&b, LARGEST_BYTES);
    comm_close(b.comm);
    memory_destroy(b.memory);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--rank") == 0) return run_rank();
    char self[4096], count[16];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length < 0) stop("/proc is needed");
    self[length] = 0;
    snprintf(count, sizeof count, "%d", RANKS);
    pid_t child = fork();
    if (child == 0) {
        dup2(open("/dev/null", O_RDWR), STDIN_FILENO);
        execlp("mpirun", "mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", count, self,
               "--rank", NULL);
        _exit(127);
    }
    int status;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
#endif
