/* Collectives whose device operations meet by themselves (engine/comm/collective.c). Here a device is a thread with random delays. Results
 * must be bit-identical to ranks in memory; ThreadSanitizer sees a missing order. Reported waiting times are the device's. When a
 * rank fails, no other rank still reads its memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "engine/memory/mover.h"
#include "kernels/kernels.h"
#include "tests/support/comm_scenarios.h"
#include "tests/support/pretend_stream.h"

enum { RANKS_MOST = 5, ROUNDS = 40, MET = COMM_MEETINGS /* marks above: past a meeting */ };

struct work {
    int ranks, fails; /* fails: rank whose device refuses its third reduction; -1: none */
    bool forgets;     /* to wait for the devices of others */
    bool in_memory;   /* no device operations at all */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool held; /* device operations of rank 1 wait in wait_for_let_go() */
    int here;  /* ranks that stand there where here_am_i() is called */
    _Atomic int closed;
    struct rank *rank;
};

struct rank {
    struct work *work;
    struct comm_group *group;
    struct comm *comm;
    struct memory *memory;
    int number, reductions;
    uint64_t hash;
    struct pretend_stream *stream;
    struct mover mover;
    struct comm_device_ops device_ops;
    void (*body)(struct rank *rank);
    pthread_t thread;
};

/* ---- device operations ---- */

struct errand {
    void *to;
    const void *from[RANKS_MOST];
    uint64_t bytes; /* of a copy */
    enum dtype dtype, result;
    int64_t elems;
    int count;
    struct reduce_factors factors;
    bool accumulate;
};

static void copy_errand(void *user, int unused)
{
    struct errand *errand = user;
    (void)unused;
    memcpy(errand->to, errand->from[0], errand->bytes);
    free(errand);
}

static void reduce_errand(void *user, int unused)
{
    struct errand *errand = user;
    (void)unused;
    kernels_reduce(errand->dtype, errand->result, errand->to, errand->from, errand->count, &errand->factors,
                   errand->elems, errand->accumulate);
    free(errand);
}

static int send_errand(struct rank *rank, void (*call)(void *, int), const struct errand *errand)
{
    struct errand *kept = malloc(sizeof *kept);
    *kept = *errand;
    pretend_send(rank->stream, (struct pretend_task){.call = call, .user = kept});
    return STATUS_OK;
}

static int copy(void *user, void *to, const void *from, uint64_t bytes, struct error *err)
{
    (void)err;
    return send_errand(user, copy_errand, &(struct errand){.to = to, .from = {from}, .bytes = bytes});
}

static int reduce(void *user, enum dtype dtype, enum dtype to, void *destination, const void *const *sources, int count,
                  const struct reduce_factors *factors, int64_t elems, bool accumulate, struct error *err)
{
    struct rank *rank = user;
    struct errand errand = {.to = destination,
                            .dtype = dtype,
                            .result = to,
                            .elems = elems,
                            .count = count,
                            .factors = *factors,
                            .accumulate = accumulate};
    if (rank->work->fails == rank->number && ++rank->reductions == 3)
        return error_set(err, STATUS_RUN, "the device refuses");
    for (int r = 0; r < count; r++) errand.from[r] = sources[r];
    return send_errand(rank, reduce_errand, &errand);
}

static int finish(void *user, struct error *err)
{
    struct rank *rank = user;
    (void)err;
    pthread_mutex_lock(&rank->stream->lock);
    while (rank->stream->done < rank->stream->sent) pthread_cond_wait(&rank->stream->changed, &rank->stream->lock);
    pthread_mutex_unlock(&rank->stream->lock);
    return STATUS_OK;
}

static int come(void *user, int meeting, struct error *err)
{
    const struct rank *rank = user;
    return pretend_mark(rank->stream, meeting, err);
}

static int meet(void *user, int meeting, struct error *err)
{
    const struct rank *rank = user;
    for (int r = 0; r < rank->work->ranks; r++)
        if (r != rank->number) pretend_follow(rank->stream, &rank->work->rank[r].stream->stream, meeting, err);
    return pretend_mark(rank->stream, MET + meeting, err);
}

static int waited(void *user, int meeting, uint64_t *ns, struct error *err)
{
    const struct rank *rank = user;
    uint64_t came_ns, met_ns;
    pretend_reach(rank->stream, meeting, &came_ns, err);
    pretend_reach(rank->stream, MET + meeting, &met_ns, err);
    *ns = met_ns - came_ns;
    return STATUS_OK;
}

/* ---- ranks ---- */

static void *run_rank(void *user)
{
    struct rank *rank = user;
    struct error err = {0};
    rank->memory = scenario_memory();
    CHECK(!comm_open_thread(&rank->comm, rank->group, rank->number, &err), "%s", err.text);
    rank->mover = (struct mover){.user = rank, .copy = copy, .finish = finish};
    rank->device_ops = (struct comm_device_ops){
        .mover = &rank->mover, .user = rank, .come = come, .meet = meet, .waited = waited, .reduce = reduce};
    if (!rank->work->in_memory) comm_use(rank->comm, &rank->device_ops);
    CHECK(!comm_attach(rank->comm, rank->memory, &err), "%s", err.text);
    rank->body(rank);
    comm_close(rank->comm);
    rank->work->closed++;
    memory_destroy(rank->memory);
    return NULL;
}

/* Runs body on every rank, then `beside`, if any, on this thread; returns a hash of what all found. */
static uint64_t run_ranks(struct work *work, uint64_t seed, void (*body)(struct rank *), void (*beside)(struct work *))
{
    struct comm_group *group;
    struct rank ranks[RANKS_MOST];
    uint64_t hash = 0;
    pthread_mutex_init(&work->lock, NULL);
    pthread_cond_init(&work->changed, NULL);
    work->rank = ranks;
    assert_int_equal(comm_group_create(&group, work->ranks, 0, NULL), 0);
    for (int r = 0; r < work->ranks; r++) {
        ranks[r] = (struct rank){.work = work, .group = group, .number = r, .body = body};
        ranks[r].stream = malloc(sizeof *ranks[r].stream);
        pretend_open(ranks[r].stream);
        ranks[r].stream->seed = seed ? seed + (uint64_t)r : 0;
        ranks[r].stream->forgets = work->forgets;
    }
    for (int r = 0; r < work->ranks; r++)
        assert_int_equal(pthread_create(&ranks[r].thread, NULL, run_rank, &ranks[r]), 0);
    if (beside) beside(work);
    for (int r = 0; r < work->ranks; r++) {
        pthread_join(ranks[r].thread, NULL);
        pretend_end(ranks[r].stream);
        pretend_close(ranks[r].stream);
        free(ranks[r].stream);
        hash = rng_mix(hash ^ ranks[r].hash);
    }
    comm_group_free(group);
    pthread_cond_destroy(&work->changed);
    pthread_mutex_destroy(&work->lock);
    return hash;
}

/* ---- the bits ---- */

struct round {
    struct rank *rank;
    struct trial trial;
};

static void fill(void *user, int unused)
{
    const struct round *round = user;
    (void)unused;
    trial_fill(&round->trial, round->rank->number, memory_symmetric(round->rank->memory)->base);
}

/* Of what the rank holds now, right or wrong. */
static void look(void *user, int unused)
{
    struct round *round = user;
    const struct trial *trial = &round->trial;
    const unsigned char *own = memory_symmetric(round->rank->memory)->base;
    (void)unused;
    for (int p = 0; p < trial->count; p++) {
        const struct comm_range *range = &trial->ranges[p];
        const void *at = trial->kind == TRIAL_ALL_REDUCE ? own + range->source : range->destination;
        for (int64_t i = 0; i < range->elems; i++) {
            uint32_t bits;
            const float value = element_get(trial->dtype, at, i);
            memcpy(&bits, &value, sizeof bits);
            round->rank->hash = rng_mix(round->rank->hash ^ bits);
        }
    }
    free(round);
}

/* A round is sent when the one before has hardly begun; in memory it is done at once. */
static void rounds(struct rank *rank)
{
    struct error err = {0};
    for (uint64_t number = 0; number < ROUNDS; number++) {
        struct round *round = malloc(sizeof *round);
        struct comm_stat stat;
        const bool healthy = number % 9 != 4 || rank->number > 0;
        round->rank = rank;
        trial_draw(&round->trial, rank->comm, rank->memory, number);
        const struct trial trial = round->trial;
        if (rank->work->in_memory) fill(round, 0);
        else pretend_send(rank->stream, (struct pretend_task){.call = fill, .user = round});
        CHECK(!trial_run(&trial, rank->comm, healthy, &stat, &err), "%s", err.text);
        CHECK(stat.healthy == (number % 9 != 4), "round %d", (int)number);
        if (stat.healthy) trial_check_sent(&trial, comm_layout(rank->comm), &stat);
        if (rank->work->in_memory) look(round, 0);
        else pretend_send(rank->stream, (struct pretend_task){.call = look, .user = round});
    }
    if (!rank->work->in_memory) finish(rank, NULL);
}

static void the_bits_of_ranks_in_memory(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= RANKS_MOST; ranks++) {
        struct work memory = {.ranks = ranks, .fails = -1, .in_memory = true}, device_ops = {.ranks = ranks, .fails = -1};
        const uint64_t expected = run_ranks(&memory, 0, rounds, NULL);
        for (uint64_t seed = 1; seed <= 3; seed++) assert_int_equal(run_ranks(&device_ops, seed, rounds, NULL), expected);
    }
}

static void what_is_forgotten_is_seen(void **state)
{
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip(); /* it would be seen at once, and end the program */
#endif
    struct work memory = {.ranks = 3, .fails = -1, .in_memory = true},
                device_ops = {.ranks = 3, .fails = -1, .forgets = true};
    const uint64_t expected = run_ranks(&memory, 0, rounds, NULL);
    int seen = 0;
    for (uint64_t seed = 1; seed <= 5; seed++) seen += run_ranks(&device_ops, seed, rounds, NULL) != expected;
    assert_true(seen > 0);
}

/* ---- waiting ---- */

/* In a device operation of rank 1: waits for let_go(). */
static void wait_for_let_go(void *user, int unused)
{
    struct work *work = user;
    (void)unused;
    pthread_mutex_lock(&work->lock);
    while (work->held) pthread_cond_wait(&work->changed, &work->lock);
    pthread_mutex_unlock(&work->lock);
}

static void let_go(struct work *work)
{
    pthread_mutex_lock(&work->lock);
    work->held = false;
    pthread_cond_broadcast(&work->changed);
    pthread_mutex_unlock(&work->lock);
}

static void here_am_i(struct work *work)
{
    pthread_mutex_lock(&work->lock);
    work->here++;
    pthread_cond_broadcast(&work->changed);
    pthread_mutex_unlock(&work->lock);
}

static void until_here(struct work *work, int ranks)
{
    pthread_mutex_lock(&work->lock);
    while (work->here < ranks) pthread_cond_wait(&work->changed, &work->lock);
    pthread_mutex_unlock(&work->lock);
}

enum { LATE_NS = 20000000 };

/* The device of rank 1 comes late to a collective of three meetings. The threads of the ranks are past it long before. */
static void one_comes_late(struct rank *rank)
{
    struct trial trial;
    struct comm_stat stat;
    struct error err = {0};
    trial_draw(&trial, rank->comm, rank->memory, 3);
    trial_fill(&trial, rank->number, memory_symmetric(rank->memory)->base);
    trial.kind = TRIAL_ALL_REDUCE;
    if (rank->number == 1) pretend_send(rank->stream, (struct pretend_task){.call = wait_for_let_go, .user = rank->work});
    CHECK(!trial_run(&trial, rank->comm, true, &stat, &err), "%s", err.text);
    here_am_i(rank->work);
    finish(rank, NULL);
    CHECK(stat.meetings == COMM_MEETINGS_EACH, "%d meetings", stat.meetings);
    CHECK(!comm_waited(rank->comm, &stat, &err), "%s", err.text);
    CHECK(stat.arrival_ns <= stat.peers_ns, "%d", rank->number);
    CHECK(rank->number == 1 || stat.arrival_ns >= LATE_NS, "rank %d waited %d us", rank->number,
          (int)(stat.arrival_ns / 1000));
    rank->hash = stat.arrival_ns;
}

static void let_go_late(struct work *work)
{
    until_here(work, work->ranks);
    for (int r = 0; r < work->ranks; r++)
        if (r != 1) pretend_await(work->rank[r].stream, 0, 1); /* it has come to the first meeting */
    nanosleep(&(struct timespec){0, LATE_NS}, NULL);
    let_go(work);
}

static void waiting_is_what_device_ops_waited(void **state)
{
    (void)state;
    struct work work = {.ranks = 3, .fails = -1, .held = true};
    run_ranks(&work, 0, one_comes_late, let_go_late);
}

/* ---- failing ---- */

/* Until the device of rank 2 refuses. Devices of other ranks may be in the middle of an operation. */
static void until_one_fails(struct rank *rank)
{
    struct trial trial;
    struct error err = {0};
    int status = 0;
    for (uint64_t round = 0; !status; round++) {
        CHECK(round < 20, "nobody noticed");
        trial_draw(&trial, rank->comm, rank->memory, 3);
        trial.kind = TRIAL_ALL_REDUCE;
        status = trial_run(&trial, rank->comm, true, NULL, &err);
    }
    CHECK(status == STATUS_RUN && !strcmp(err.text, "rank 2: the device refuses"), "%s", err.text);
}

static void one_that_fails_ends_it_for_all(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        struct work work = {.ranks = 4, .fails = 2};
        run_ranks(&work, seed, until_one_fails, NULL);
    }
}

/* The device of rank 1 is held before it reads the memory of rank 0, which then fails, closes, and frees that memory. */
static void one_is_left_reading(struct rank *rank)
{
    struct trial trial;
    struct error err = {0};
    trial_draw(&trial, rank->comm, rank->memory, 3);
    trial.kind = TRIAL_GATHER;
    if (rank->number == 1) pretend_send(rank->stream, (struct pretend_task){.call = wait_for_let_go, .user = rank->work});
    CHECK(!trial_run(&trial, rank->comm, true, NULL, &err), "%s", err.text);
    here_am_i(rank->work);
    if (rank->number == 0) {
        until_here(rank->work, 2);
        error_set(&err, STATUS_RUN, "it has had enough");
        comm_abort(rank->comm, &err);
        here_am_i(rank->work);
    } else until_here(rank->work, 3);
}

static void let_go_unless_closed(struct work *work)
{
    until_here(work, 3);
    for (int look = 0; look < 20; look++) {
        CHECK(!work->closed, "a rank is gone whose memory is still to be read");
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    let_go(work);
}

static void nobody_is_left_reading(void **state)
{
    (void)state;
    struct work work = {.ranks = 2, .fails = -1, .held = true};
    run_ranks(&work, 0, one_is_left_reading, let_go_unless_closed);
    assert_int_equal(work.closed, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bits_of_ranks_in_memory),  cmocka_unit_test(what_is_forgotten_is_seen),
        cmocka_unit_test(waiting_is_what_device_ops_waited), cmocka_unit_test(one_that_fails_ends_it_for_all),
        cmocka_unit_test(nobody_is_left_reading),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
