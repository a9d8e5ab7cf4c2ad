/* Communication between ranks that are threads: every collective against a scalar reference, failures, waiting. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/resource.h>
#include <time.h>

#include <cmocka.h>

#include "engine/base/clock.h"
#include "engine/comm/internal.h"
#include "tests/support/comm_scenarios.h"
#include "tests/support/effort.h"

/* Of random collectives; five times as many come to the one that is larger than the caches. */
static uint64_t rounds(void)
{
    return (uint64_t)effort(30, 30, 250);
}

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
    *result = scenario_random(comm, memory, rounds(), true);
}

static void test_random_collectives(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 8; ranks++) run_ranks(ranks, 0, random_rounds);
}

static void more_rounds(struct comm *comm, struct memory *memory, uint64_t *result)
{
    *result = scenario_random(comm, memory, 5 * rounds(), true);
}

/* Where the nodes' borders lie changes what is counted as what, and no bit. */
static void test_nodes_change_no_bit(void **state)
{
    (void)state;
    uint64_t one = run_ranks(4, 0, more_rounds);
    assert_int_equal(run_ranks(4, 2, more_rounds), one);
    assert_int_equal(run_ranks(4, 1, more_rounds), one);
    assert_int_equal(run_ranks(4, 3, more_rounds), one); /* the last node is smaller */
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

static _Atomic int thread_of[8]; /* by rank, once it goes where the others are to wait */

static bool sleeps(int thread)
{
    char path[64], text[256], *end = NULL;
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
    FILE *file = fopen(path, "re");
    if (file && fgets(text, sizeof text, file)) end = strrchr(text, ')');
    if (file) fclose(file);
    return end && end[2] == 'S';
}

/* Until all other ranks have come to the collective that this one enters next, and sleep there. */
static void wait_for_the_others(const struct comm *comm)
{
    const int ranks = comm_layout(comm)->ranks;
    while (atomic_load(&comm->node->all.arrived) + 1 < (uint32_t)ranks) usleep(1000);
    for (int r = 0; r < ranks; r++)
        while (r != comm_layout(comm)->rank && !sleeps(thread_of[r])) usleep(1000);
}

static _Atomic uint64_t aborted_ns, longest_ns; /* longest: from then until a rank knew of it */

/* Rank 2 gives up while the others wait in a collective. */
static void one_aborts(struct comm *comm, struct memory *memory, uint64_t *result)
{
    (void)result;
    struct trial trial;
    struct error err = {0};
    trial_draw(&trial, comm, memory, 3);
    thread_of[comm_layout(comm)->rank] = gettid();
    if (comm_layout(comm)->rank == 2) {
        wait_for_the_others(comm);
        aborted_ns = clock_ns();
        comm_abort(comm, &(struct error){STATUS_INPUT, "the disk is full"});
        comm_abort(comm, &(struct error){STATUS_RUN, "and again"});
    }
    for (int again = 0; again < 2; again++) {
        CHECK(trial_run(&trial, comm, true, NULL, &err) == STATUS_INPUT, "an aborted node goes on");
        CHECK(strcmp(err.text, "rank 2: the disk is full") == 0, "%s", err.text);
        const uint64_t took_ns = clock_ns() - aborted_ns;
        uint64_t was_ns = longest_ns;
        while (took_ns > was_ns && !atomic_compare_exchange_weak(&longest_ns, &was_ns, took_ns)) continue;
    }
}

static void test_abort(void **state)
{
    (void)state;
    uint64_t best_ns = UINT64_MAX;
    for (int attempt = 0; attempt < 20 && best_ns > WATCH_NS / 4; attempt++) { /* a machine may be busy for once */
        longest_ns = 0;
        run_ranks(4, 0, one_aborts);
        if (longest_ns < best_ns) best_ns = longest_ns;
    }
    assert_true(best_ns <= WATCH_NS / 4); /* woken, not found out by looking */
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
    trial.ranges[0].elems += comm_layout(comm)->rank == 1;
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

/* While rank 0 thinks (a pause), the others sleep: they use next to no processor, and the wait is told. */
static void long_pause(struct comm *comm, struct memory *memory, uint64_t *result)
{
    (void)memory, (void)result;
    struct error err = {0};
    int word = comm_layout(comm)->rank;
    thread_of[word] = gettid();
    if (word == 0) wait_for_the_others(comm), usleep(700000);
    uint64_t wall = clock_ns(), cpu = clock_worked_ns();
    CHECK(!comm_broadcast_control(comm, &word, sizeof word, &err) && word == 0, "%s", err.text);
    wall = clock_ns() - wall;
    cpu = clock_worked_ns() - cpu;
    if (comm_layout(comm)->rank)
        CHECK(wall >= 700000000 && cpu < wall / 50, "%llu of %llu ns", (unsigned long long)cpu,
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
    trial_fill(&trial, comm_layout(comm)->rank, memory_symmetric(memory)->base);
    thread_of[comm_layout(comm)->rank] = gettid();
    if (comm_layout(comm)->rank == 1) wait_for_the_others(comm), usleep(50000);
    CHECK(!trial_run(&trial, comm, true, &stat, NULL), "failed");
    CHECK(comm_layout(comm)->rank == 1 ? stat.arrival_ns == 0 : stat.arrival_ns >= 50000000, "%llu ns",
          (unsigned long long)stat.arrival_ns);
    CHECK(stat.peers_ns >= stat.arrival_ns, "%llu ns", (unsigned long long)stat.peers_ns);
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
