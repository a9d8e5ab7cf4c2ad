/* Ranks that pass bytes by NCCL (kernels/cuda/clique.h), one for each GPU that is here: what arrives where, and that nobody waits for
 * one that will not come. With one GPU one rank passes to itself. */
#include <pthread.h>
#include <unistd.h>

#include "kernels/cuda/clique.h"
#include "tests/support/gpu_check.h"

enum { RANKS_MOST = 4, BYTES = 100003 }; /* an odd length */

struct rank {
    struct clique *clique;
    int number, ranks, gpu;
    void (*body)(struct rank *rank);
    struct device *device;
    struct device_stream *stream;
    struct device_range range; /* two places for every rank's bytes */
    struct communicator *communicator;
    struct error error; /* the first */
    pthread_t thread;
};

static bool good(const struct rank *rank)
{
    return rank->error.status == STATUS_OK;
}

/* The value of a rank's bytes, for each of a few fills. */
static unsigned char value_of(int rank, int fill)
{
    return (unsigned char)(17 * rank + 5 * fill + 1);
}

static unsigned char *mine(const struct rank *rank)
{
    return rank->range.base + rank->number * BYTES;
}

static unsigned char *others(const struct rank *rank, int from)
{
    return rank->range.base + (rank->ranks + from) * BYTES;
}

static void must(struct rank *rank, int status, const struct error *err)
{
    if (status && good(rank)) rank->error = *err;
}

static void pass(struct rank *rank, const struct transfer *transfers, int count)
{
    struct error err;
    if (good(rank)) must(rank, communicator_pass(rank->communicator, transfers, count, &err), &err);
}

static void fill(struct rank *rank, int number)
{
    struct error err;
    must(rank, device_set(rank->stream, rank->range.base, 0, (uint64_t)(2 * rank->ranks * BYTES), &err), &err);
    must(rank, device_set(rank->stream, mine(rank), value_of(rank->number, number), BYTES, &err), &err);
}

static void expect(struct rank *rank, const unsigned char *at, int from, int number, const char *what)
{
    struct error err;
    unsigned char *down = malloc(BYTES);
    must(rank, device_copy(rank->stream, down, at, BYTES, &err), &err);
    must(rank, device_stream_wait(rank->stream, &err), &err);
    for (int i = 0; i < BYTES && good(rank); i++)
        if (down[i] != value_of(from, number))
            error_set(&rank->error, STATUS_RUN, "%s: byte %d of rank %d on rank %d is %d", what, i, from, rank->number,
                      down[i]);
    free(down);
}

/* ---- sums ----------------------------------------------------------------------------------------------------------------- */

/* Small integers, whose sums are exact in each type. */
static unsigned element_of(enum dtype dtype, int value)
{
    const float number = (float)value;
    unsigned bits;
    memcpy(&bits, &number, sizeof bits);
    if (dtype == DTYPE_F32) return bits;
    if (dtype == DTYPE_BF16) return bits >> 16;
    return value ? (bits >> 13 & 0x3ff) | ((bits >> 23) - 112) << 10 : 0;
}

static void sum_of(struct rank *rank, enum dtype dtype)
{
    enum { EACH = 96 };
    struct error err;
    const int ranks = rank->ranks, width = dtype_bytes(dtype), all = EACH * ranks;
    const uint64_t bytes = (uint64_t)(all * width);
    unsigned char *up = malloc(bytes), *down = malloc(bytes), *at = rank->range.base;
    for (int i = 0; i < all; i++) {
        const unsigned element = element_of(dtype, i % 7 + rank->number);
        memcpy(up + i * width, &element, (size_t)width);
    }
    for (int parts = 0; parts < 2; parts++) {
        must(rank, device_copy(rank->stream, at, up, bytes, &err), &err);
        if (parts)
            pass(rank, &(struct transfer){TRANSFER_SUM_RANGES, 0, at, at + rank->number * EACH * width, EACH * (uint64_t)width, dtype}, 1);
        else pass(rank, &(struct transfer){TRANSFER_SUM, ranks - 1, at, at, bytes, dtype}, 1);
        must(rank, device_copy(rank->stream, down, at, bytes, &err), &err);
        must(rank, device_stream_wait(rank->stream, &err), &err);
        const int first = parts ? rank->number * EACH : 0, end = parts ? first + EACH : rank->number == ranks - 1 ? all : 0;
        for (int i = first; i < end && good(rank); i++) {
            const unsigned element = element_of(dtype, ranks * (i % 7) + ranks * (ranks - 1) / 2);
            if (memcmp(down + i * width, &element, (size_t)width))
                error_set(&rank->error, STATUS_RUN, "%s, %s: element %d is wrong", dtype_name(dtype), parts ? "parts" : "whole", i);
        }
    }
    free(up), free(down);
}

static void sums(struct rank *rank)
{
    struct error err;
    sum_of(rank, DTYPE_F32);
    sum_of(rank, DTYPE_BF16);
    sum_of(rank, DTYPE_F16);
    if (good(rank)) must(rank, communicator_meet(rank->communicator, &err), &err);
    if (good(rank)) must(rank, device_stream_wait(rank->stream, &err), &err);
    if (good(rank)) must(rank, clique_look(rank->clique, &err), &err);
}

/* ---- ranks -------------------------------------------------------------------------------------------------------------- */

static void open_gpu(struct rank *rank)
{
    struct error err;
    must(rank, device_open(&rank->device, rank->gpu, &err), &err);
    if (good(rank)) must(rank, device_stream_create(&rank->stream, rank->device, "comm", &err), &err);
    if (!good(rank)) return;
    must(rank, device_range_reserve(&rank->range, rank->device, (uint64_t)(2 * rank->ranks * BYTES), &err), &err);
    must(rank, device_range_commit(&rank->range, 0, rank->range.bytes, &err), &err);
}

static void *run_rank(void *user)
{
    struct rank *rank = user;
    struct error err;
    open_gpu(rank);
    if (good(rank))
        must(rank, communicator_open(&rank->communicator, rank->clique, rank->number, rank->stream, &err), &err);
    if (!good(rank)) clique_break(rank->clique);
    else rank->body(rank);
    communicator_close(rank->communicator);
    device_range_release(&rank->range);
    device_stream_destroy(rank->stream);
    device_close(rank->device);
    return NULL;
}

static void run_ranks(struct rank *rank, int ranks, int gpus, void (*body)(struct rank *))
{
    struct clique *clique;
    struct clique_id id;
    struct error err;
    if (clique_make_id(&id, &err) || clique_open(&clique, ranks, &id, &err)) gpu_die(&err);
    for (int r = 0; r < ranks; r++) {
        rank[r] = (struct rank){.clique = clique, .number = r, .ranks = ranks, .gpu = r % gpus, .body = body};
        pthread_create(&rank[r].thread, NULL, run_rank, &rank[r]);
    }
    for (int r = 0; r < ranks; r++) pthread_join(rank[r].thread, NULL);
    clique_close(clique);
}

/* ---- what is passed ----------------------------------------------------------------------------------------------------- */

static void ring(struct rank *rank)
{
    const int next = (rank->number + 1) % rank->ranks, before = (rank->number + rank->ranks - 1) % rank->ranks;
    for (int round = 0; round < 3; round++) {
        fill(rank, round);
        pass(rank,
             (struct transfer[]){{TRANSFER_SEND, next, mine(rank), NULL, BYTES, DTYPE_F32},
                                 {TRANSFER_RECEIVE, before, NULL, others(rank, before), BYTES, DTYPE_F32}},
             2);
        expect(rank, others(rank, before), before, round, "a ring");
    }
}

static void broadcasts(struct rank *rank)
{
    struct transfer transfers[RANKS_MOST];
    fill(rank, 3);
    for (int root = 0; root < rank->ranks; root++)
        transfers[root] = (struct transfer){TRANSFER_BROADCAST, root, mine(rank), others(rank, root), BYTES, DTYPE_F32};
    pass(rank, transfers, rank->ranks);
    for (int root = 0; root < rank->ranks; root++) expect(rank, others(rank, root), root, 3, "a broadcast");
}

static void gathers(struct rank *rank)
{
    fill(rank, 4);
    pass(rank, &(struct transfer){TRANSFER_GATHER, 0, mine(rank), others(rank, 0), BYTES, DTYPE_F32}, 1);
    for (int from = 0; from < rank->ranks; from++) expect(rank, others(rank, from), from, 4, "a gather");
    fill(rank, 5);
    pass(rank, &(struct transfer){TRANSFER_GATHER, 0, mine(rank), rank->range.base, BYTES, DTYPE_F32}, 1);
    for (int from = 0; from < rank->ranks; from++)
        expect(rank, rank->range.base + from * BYTES, from, 5, "a gather in place");
}

static void check_passing(int ranks, const char *name, void (*body)(struct rank *))
{
    struct rank rank[RANKS_MOST];
    run_ranks(rank, ranks, ranks, body);
    for (int r = 0; r < ranks; r++)
        if (!good(&rank[r])) fault("%s", rank[r].error.text);
    tested("%s of %d rank%s", name, ranks, ranks == 1 ? "" : "s");
}

/* ---- who will not come -------------------------------------------------------------------------------------------------- */

static pthread_barrier_t met;

/* All have met; then rank 0 waits on its GPU for bytes that nobody sends. The last rank gives up before or while it does. */
static void waits_in_vain(struct rank *rank)
{
    struct error err = {0};
    gathers(rank);
    pthread_barrier_wait(&met);
    if (rank->number == rank->ranks - 1) clique_break(rank->clique);
    if (rank->number > 0) return;
    const struct transfer transfer = {TRANSFER_RECEIVE, 1, NULL, others(rank, 1), BYTES, DTYPE_F32};
    communicator_pass(rank->communicator, &transfer, 1, NULL);
    must(rank, device_stream_wait(rank->stream, &err), &err);
    if (!communicator_pass(rank->communicator, &transfer, 1, &err) || !strstr(err.text, "given up"))
        error_set(&rank->error, STATUS_RUN, "it says \"%s\"", err.text);
}

static void check_given_up(int ranks)
{
    struct rank rank[RANKS_MOST];
    pthread_barrier_init(&met, NULL, (unsigned)ranks);
    run_ranks(rank, ranks, ranks, waits_in_vain);
    pthread_barrier_destroy(&met);
    if (!good(&rank[0])) fault("%s", rank[0].error.text);
    tested("a wait on the GPU for a rank that gives up comes to an end");
}

static void *break_it(void *user)
{
    clique_break(user);
    return NULL;
}

static void *break_held(void *user)
{
    while (!fake_is_held()) usleep(100);
    clique_break(user);
    fake_let_go();
    return NULL;
}

/* Two are to join, and one does. On the emulated device the other gives up before the one is within NCCL, too. */
static void check_join_alone(bool early)
{
    struct rank rank = {.ranks = 2};
    struct clique_id id;
    struct error err;
    pthread_t breaker;
    if (clique_make_id(&id, &err) || clique_open(&rank.clique, 2, &id, &err)) gpu_die(&err);
    open_gpu(&rank);
    if (early) fake_hold_choice();
    pthread_create(&breaker, NULL, early ? break_held : break_it, rank.clique);
    if (good(&rank) && !communicator_open(&rank.communicator, rank.clique, 0, rank.stream, &err)) fault("it joined");
    else if (good(&rank) && !strstr(err.text, "given up")) fault("it says \"%s\"", err.text);
    if (!good(&rank)) fault("%s", rank.error.text);
    pthread_join(breaker, NULL);
    clique_close(rank.clique);
    device_range_release(&rank.range);
    device_stream_destroy(rank.stream);
    device_close(rank.device);
    tested("a rank that waits to join others is let go%s", early ? ", also if it comes late" : "");
}

static void nothing(struct rank *rank)
{
    (void)rank;
}

static void check_one_gpu_each(void)
{
    struct rank rank[2];
    run_ranks(rank, 2, 1, nothing);
    if (good(&rank[0]) && good(&rank[1])) fault("nobody was refused");
    for (int r = 0; r < 2; r++)
        if (!good(&rank[r]) && !strstr(rank[r].error.text, "NCCL")) fault("%s", rank[r].error.text);
    tested("two ranks on one GPU are refused");
}

int main(void)
{
    char version[32];
    struct error err;
    setenv("FAKE_GPUS", "4", 1);
    alarm(120); /* or ranks that wait for each other would wait for ever */
    const int gpus = device_count(), ranks = gpus < RANKS_MOST ? gpus : RANKS_MOST;
    if (gpus == 0 || clique_library_text(version, sizeof version, &err)) {
        printf("1..0 # SKIP %s\n", gpus ? err.text : "there is no GPU here");
        return 0;
    }
    printf("# %s, %d GPU%s\n", version, gpus, gpus == 1 ? "" : "s");
    check_passing(ranks, "a ring", ring);
    check_passing(ranks, "broadcasts in one go", broadcasts);
    check_passing(ranks, "gathers", gathers);
    if (ranks > 1) check_passing(1, "gathers", gathers);
    check_passing(ranks, "sums, and a meeting", sums);
    if (ranks > 1) check_given_up(ranks);
    check_join_alone(false);
    if (gpu_is_fake()) check_join_alone(true);
    check_one_gpu_each();
    return tests_end();
}
