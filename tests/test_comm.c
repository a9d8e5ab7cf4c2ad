/* Communication between ranks that are threads: every collective against a scalar reference, failures, waiting. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/resource.h>
#include <time.h>

#include <cmocka.h>

#include "engine/base/clock.h"
#include "engine/comm/copy.h"
#include "tests/comm_scenarios.h"

#ifdef __SANITIZE_THREAD__
enum { ROUNDS = 60 };
#else
enum { ROUNDS = 250 };
#endif

struct rank {
    struct comm_group *group;
    int number;
    void (*body)(struct comm *comm, struct memory *memory, uint64_t *result);
    uint64_t result;
    pthread_t thread;
};

static void *run_rank(void *user)
{
    struct rank *rank = user;
    struct comm *comm;
    struct error err = {0};
    struct memory *memory = scenario_memory();
    CHECK(!comm_open_thread(&comm, rank->group, rank->number, &err), "%s", err.text);
    CHECK(!comm_attach(comm, memory, &err), "%s", err.text);
    rank->body(comm, memory, &rank->result);
    comm_close(comm);
    memory_destroy(memory);
    return NULL;
}

/* Runs body on every rank; returns rank 0's result. */
static uint64_t run_ranks(int ranks, int ranks_per_node, void (*body)(struct comm *, struct memory *, uint64_t *))
{
    struct comm_group *group;
    struct rank rank[16];
    assert_int_equal(comm_group_create(&group, ranks, ranks_per_node, NULL), 0);
    for (int r = 0; r < ranks; r++) {
        rank[r] = (struct rank){.group = group, .number = r, .body = body};
        assert_int_equal(pthread_create(&rank[r].thread, NULL, run_rank, &rank[r]), 0);
    }
    for (int r = 0; r < ranks; r++) pthread_join(rank[r].thread, NULL);
    comm_group_free(group);
    return rank[0].result;
}

static void random_rounds(struct comm *comm, struct memory *memory, uint64_t *result)
{
    *result = scenario_random(comm, memory, ROUNDS);
}

static void test_random_collectives(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 8; ranks++) run_ranks(ranks, 0, random_rounds);
}

static void thousand_rounds(struct comm *comm, struct memory *memory, uint64_t *result)
{
    *result = scenario_random(comm, memory, 5 * ROUNDS);
}

/* Where the nodes' borders lie changes what is counted as what, and no bit. */
static void test_nodes_change_no_bit(void **state)
{
    (void)state;
    uint64_t one = run_ranks(4, 0, thousand_rounds);
    assert_int_equal(run_ranks(4, 2, thousand_rounds), one);
    assert_int_equal(run_ranks(4, 1, thousand_rounds), one);
    assert_int_equal(run_ranks(4, 3, thousand_rounds), one); /* the last node is smaller */
}

static void unhealthy(struct comm *comm, struct memory *memory, uint64_t *result)
{
    (void)result;
    scenario_unhealthy(comm, memory);
}

static void test_unhealthy(void **state)
{
    (void)state;
    run_ranks(3, 0, unhealthy);
}

static void control(struct comm *comm, struct memory *memory, uint64_t *result)
{
    (void)memory, (void)result;
    scenario_control(comm);
    scenario_share(comm);
}

static void test_control(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 5; ranks += 2) run_ranks(ranks, 2, control);
}

/* Rank 2 gives up while the others wait in a collective. */
static void one_aborts(struct comm *comm, struct memory *memory, uint64_t *result)
{
    (void)result;
    struct trial trial;
    struct error err = {0};
    trial_draw(&trial, comm, memory, 3);
    if (comm_layout(comm)->rank == 2) {
        comm_abort(comm, &(struct error){STATUS_INPUT, "the disk is full"});
        comm_abort(comm, &(struct error){STATUS_RUN, "and again"});
    }
    for (int again = 0; again < 2; again++) {
        CHECK(trial_run(&trial, comm, true, NULL, &err) == STATUS_INPUT, "an aborted node goes on");
        CHECK(strcmp(err.text, "rank 2: the disk is full") == 0, "%s", err.text);
    }
}

static void test_abort(void **state)
{
    (void)state;
    uint64_t start = clock_ns();
    run_ranks(4, 0, one_aborts);
    assert_true(clock_ns() - start < 400000000); /* woken, not found out by looking */
}

static void ranks_disagree(struct comm *comm, struct memory *memory, uint64_t *result)
{
    (void)result;
    struct trial trial;
    struct error err = {0};
    trial_draw(&trial, comm, memory, 3);
    trial.kind = comm_layout(comm)->rank == 1 ? TRIAL_REDUCE : TRIAL_GATHER;
    CHECK(trial_run(&trial, comm, true, NULL, &err) == STATUS_RUN, "nobody noticed");
    CHECK(strstr(err.text, "disagree") && strstr(err.text, "reduce-scatter"), "%s", err.text);
}

static void parts_disagree(struct comm *comm, struct memory *memory, uint64_t *result)
{
    (void)result;
    struct trial trial;
    trial_draw(&trial, comm, memory, 3);
    trial.parts[0].elems += comm_layout(comm)->rank == 1;
    CHECK(trial_run(&trial, comm, true, NULL, NULL) == STATUS_RUN, "nobody noticed");
}

/* A rank that leaves early must not leave the others waiting. */
static void one_leaves(struct comm *comm, struct memory *memory, uint64_t *result)
{
    (void)result;
    struct trial trial;
    struct error err = {0};
    if (comm_layout(comm)->rank == 0) return;
    trial_draw(&trial, comm, memory, 3);
    CHECK(trial_run(&trial, comm, true, NULL, &err) == STATUS_RUN && strstr(err.text, "close"), "%s", err.text);
}

static void test_disagreement(void **state)
{
    (void)state;
    run_ranks(3, 0, ranks_disagree);
    run_ranks(3, 0, parts_disagree);
    run_ranks(3, 0, one_leaves);
}

/* Every alignment and length copies what it should, and nothing beside it. */
static void test_copy_stream(void **state)
{
    (void)state;
    enum { ROOM = 1500 };
    unsigned char from[ROOM], to[ROOM];
    for (int i = 0; i < ROOM; i++) from[i] = (unsigned char)(i * 7 + i / 256);
    for (size_t at = 0; at < 130; at += 3) {
        for (size_t bytes = 0; bytes < 1300; bytes += 1 + bytes / 16) {
            memset(to, 0xee, sizeof to);
            copy_stream(to + at, from + at / 2, bytes);
            assert_memory_equal(to + at, from + at / 2, bytes);
            for (size_t i = 0; i < ROOM; i++)
                if (i < at || i >= at + bytes) assert_int_equal(to[i], 0xee);
        }
    }
}

static uint64_t thread_cpu_ns(void)
{
    struct timespec used;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
}

/* While rank 0 thinks (a pause), the others sleep: they use next to no processor, and the wait is told. */
static void long_pause(struct comm *comm, struct memory *memory, uint64_t *result)
{
    (void)memory, (void)result;
    struct error err = {0};
    int word = comm_layout(comm)->rank;
    if (word == 0) nanosleep(&(struct timespec){.tv_nsec = 700000000}, NULL);
    uint64_t wall = clock_ns(), cpu = thread_cpu_ns();
    CHECK(!comm_broadcast_control(comm, &word, sizeof word, &err) && word == 0, "%s", err.text);
    wall = clock_ns() - wall;
    cpu = thread_cpu_ns() - cpu;
    if (comm_layout(comm)->rank)
        CHECK(wall > 300000000 && cpu < wall / 50, "%llu of %llu ns", (unsigned long long)cpu,
              (unsigned long long)wall);
}

static void test_pause_sleeps(void **state)
{
    (void)state;
    run_ranks(4, 0, long_pause);
}

static void late_rank(struct comm *comm, struct memory *memory, uint64_t *result)
{
    (void)result;
    struct trial trial;
    struct comm_stat stat;
    trial_draw(&trial, comm, memory, 3);
    trial_fill(&trial, comm_layout(comm)->rank, memory_symmetric_base(memory));
    if (comm_layout(comm)->rank == 1) nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
    CHECK(!trial_run(&trial, comm, true, &stat, NULL), "failed");
    bool waited = stat.peers_ns > 200000000;
    CHECK(waited == (comm_layout(comm)->rank != 1), "%llu ns", (unsigned long long)stat.peers_ns);
}

static void test_waiting_is_measured(void **state)
{
    (void)state;
    run_ranks(3, 0, late_rank);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_collectives),
        cmocka_unit_test(test_nodes_change_no_bit),
        cmocka_unit_test(test_unhealthy),
        cmocka_unit_test(test_control),
        cmocka_unit_test(test_abort),
        cmocka_unit_test(test_disagreement),
        cmocka_unit_test(test_copy_stream),
        cmocka_unit_test(test_pause_sleeps),
        cmocka_unit_test(test_waiting_is_measured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
