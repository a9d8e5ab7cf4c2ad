/* Collectives of ranks that pass what they have, because none can read another's memory: the bits of ranks that can, with a room for
 * what arrives that is as small as may be or large, and an end for everyone when one of them fails in the midst. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "engine/plan/buckets.h"
#include "engine/plan/checker.h"
#include "engine/plan/setup.h"
#include "kernels/kernels.h"
#include "tests/support/comm_scenarios.h"
#include "tests/support/effort.h"

enum { RANKS_MOST = 5, EVEN_ELEMS = 1000 };

/* What ranks have sent and nobody has taken: a list for each pair. */
struct letter {
    struct letter *next;
    uint64_t bytes;
    unsigned char content[];
};

struct post {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct letter *first[RANKS_MOST][RANKS_MOST]; /* from, to */
    bool given_up;
    int gathers; /* by the transfer of that name */
    int fails;   /* rank whose third go fails; -1: none */
};

struct rank {
    struct post *post;
    struct comm_group *group;
    int number, ranks, goes;
    uint64_t room_bytes; /* for each other rank; 0: ranks read each other's memory */
    void (*body)(struct comm *comm, struct memory *memory, uint64_t *result);
    uint64_t result;
    struct comm_device_ops device_ops;
    pthread_t thread;
};

static void send_to(struct rank *rank, int to, const struct transfer *t)
{
    struct letter *letter = malloc(sizeof *letter + t->bytes), **end = &rank->post->first[rank->number][to];
    *letter = (struct letter){.bytes = t->bytes};
    memcpy(letter->content, t->from, t->bytes);
    while (*end) end = &(*end)->next;
    *end = letter;
    pthread_cond_broadcast(&rank->post->changed);
}

static bool receive_from(struct rank *rank, int from, void *to, const struct transfer *t)
{
    struct letter **first = &rank->post->first[from][rank->number], *letter;
    while (!*first && !rank->post->given_up) pthread_cond_wait(&rank->post->changed, &rank->post->lock);
    if (rank->post->given_up) return false;
    letter = *first;
    CHECK(letter->bytes == t->bytes, "rank %d expects %d bytes of %d", rank->number, (int)t->bytes, from);
    memcpy(to, letter->content, letter->bytes);
    *first = letter->next;
    free(letter);
    return true;
}

static void give(struct rank *rank, const struct transfer *t)
{
    const bool to_all = t->way == TRANSFER_GATHER || (t->way == TRANSFER_BROADCAST && t->peer == rank->number);
    unsigned char *own = t->way == TRANSFER_GATHER ? (unsigned char *)t->to + rank->number * t->bytes : t->to;
    if (t->way == TRANSFER_SEND) send_to(rank, t->peer, t);
    for (int r = 0; to_all && r < rank->ranks; r++)
        if (r != rank->number) send_to(rank, r, t);
    if (to_all) memmove(own, t->from, t->bytes);
    rank->post->gathers += t->way == TRANSFER_GATHER;
}

static bool take(struct rank *rank, const struct transfer *t)
{
    bool good = true;
    if (t->way == TRANSFER_RECEIVE || (t->way == TRANSFER_BROADCAST && t->peer != rank->number))
        return receive_from(rank, t->peer, t->to, t);
    for (int r = 0; good && t->way == TRANSFER_GATHER && r < rank->ranks; r++)
        if (r != rank->number) good = receive_from(rank, r, (unsigned char *)t->to + r * t->bytes, t);
    return good;
}

static int pass(void *user, const struct transfer *transfers, int count, struct error *err)
{
    struct rank *rank = user;
    bool good = true;
    if (rank->post->fails == rank->number && ++rank->goes == 3) return error_set(err, STATUS_RUN, "the link is gone");
    pthread_mutex_lock(&rank->post->lock);
    for (int t = 0; t < count; t++) give(rank, &transfers[t]);
    for (int t = 0; t < count && good; t++) good = take(rank, &transfers[t]);
    pthread_mutex_unlock(&rank->post->lock);
    return good ? STATUS_OK : error_set(err, STATUS_RUN, "given up");
}

static void give_up(void *user)
{
    struct rank *rank = user;
    pthread_mutex_lock(&rank->post->lock);
    rank->post->given_up = true;
    pthread_cond_broadcast(&rank->post->changed);
    pthread_mutex_unlock(&rank->post->lock);
}

static int reduce(void *user, enum dtype dtype, enum dtype to, void *destination, const void *const *sources, int count,
                  const struct reduce_factors *factors, int64_t elems, bool accumulate, struct error *err)
{
    (void)user, (void)err;
    kernels_reduce(dtype, to, destination, sources, count, factors, elems, accumulate);
    return STATUS_OK;
}

static void *run_rank(void *user)
{
    struct rank *rank = user;
    struct comm *comm;
    struct error err = {0};
    struct memory *memory = scenario_memory();
    const uint64_t room_bytes = rank->room_bytes * (uint64_t)(rank->ranks - 1);
    void *room = malloc(room_bytes + 1);
    CHECK(!comm_open_thread(&comm, rank->group, rank->number, &err), "%s", err.text);
    rank->device_ops = (struct comm_device_ops){.user = rank, .reduce = reduce, .pass = pass, .give_up = give_up};
    if (rank->room_bytes) comm_use(comm, &rank->device_ops);
    comm_room(comm, room, room_bytes);
    CHECK(!comm_attach(comm, memory, &err), "%s", err.text);
    rank->body(comm, memory, &rank->result);
    comm_close(comm);
    memory_destroy(memory);
    free(room);
    return NULL;
}

static void post_clear(struct post *post)
{
    for (int from = 0; from < RANKS_MOST; from++)
        for (int to = 0; to < RANKS_MOST; to++)
            for (struct letter *letter = post->first[from][to], *next; letter; letter = next)
                next = letter->next, free(letter);
}

/* Runs body on every rank; returns rank 0's result. */
static uint64_t run_ranks(struct post *post, int ranks, uint64_t room_bytes,
                          void (*body)(struct comm *, struct memory *, uint64_t *))
{
    struct comm_group *group;
    struct rank rank[RANKS_MOST];
    pthread_mutex_init(&post->lock, NULL);
    pthread_cond_init(&post->changed, NULL);
    assert_int_equal(comm_group_create(&group, ranks, 0, NULL), 0);
    for (int r = 0; r < ranks; r++) {
        rank[r] = (struct rank){
            .post = post, .group = group, .number = r, .ranks = ranks, .room_bytes = room_bytes, .body = body};
        assert_int_equal(pthread_create(&rank[r].thread, NULL, run_rank, &rank[r]), 0);
    }
    for (int r = 0; r < ranks; r++) pthread_join(rank[r].thread, NULL);
    comm_group_free(group);
    post_clear(post);
    return rank[0].result;
}

static void random_rounds(struct comm *comm, struct memory *memory, uint64_t *result)
{
    *result = scenario_random(comm, memory, (uint64_t)effort(30, 30, 150), false);
}

static void the_bits_of_ranks_that_read_each_other(void **state)
{
    (void)state;
    static const uint64_t rooms[] = {64, 4096, 1 << 20}; /* hundreds of rounds, some, one */
    for (int ranks = 1; ranks <= RANKS_MOST; ranks++) {
        struct post post = {.fails = -1};
        const uint64_t expected = run_ranks(&post, ranks, 0, random_rounds);
        for (size_t r = 0; r < sizeof rooms / sizeof *rooms; r++)
            assert_int_equal(run_ranks(&post, ranks, rooms[r], random_rounds), expected);
    }
}

/* A shard of every rank, to where the whole stands. */
static void even_gather(struct comm *comm, struct memory *memory, uint64_t *result)
{
    const struct comm_layout *layout = comm_layout(comm);
    struct comm_range ranges[RANKS_MOST];
    struct error err = {0};
    const uint64_t source = memory_symmetric(memory)->offset[CATEGORY_BUCKETS];
    float *own = (float *)((char *)memory_symmetric(memory)->base + source);
    float *whole = memory_at(memory, TIER_DEVICE, CATEGORY_GATHERED, 0);
    for (int i = 0; i < EVEN_ELEMS; i++) own[i] = (float)(layout->rank * EVEN_ELEMS + i);
    for (int r = 0; r < layout->ranks; r++)
        ranges[r] = (struct comm_range){r, EVEN_ELEMS, source, whole + r * EVEN_ELEMS};
    CHECK(!comm_all_gather(comm, DTYPE_F32, ranges, layout->ranks, true, NULL, &err), "%s", err.text);
    for (int i = 0; i < layout->ranks * EVEN_ELEMS; i++) CHECK(whole[i] == (float)i, "element %d", i);
    *result = 1;
}

static void equal_shards_are_one_gather(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 4; ranks += 3) {
        struct post post = {.fails = -1};
        assert_int_equal(run_ranks(&post, ranks, 64, even_gather), 1);
        assert_int_equal(post.gathers, ranks);
    }
}

/* Until rank 2's third go; the others wait for it by then, inside of theirs. */
static void until_one_fails(struct comm *comm, struct memory *memory, uint64_t *result)
{
    struct trial trial;
    struct error err = {0};
    int status = 0;
    for (uint64_t round = 0; !status; round++) {
        CHECK(round < 20, "nobody noticed");
        trial_draw(&trial, comm, memory, 3);
        trial_fill(&trial, comm_layout(comm)->rank, memory_symmetric(memory)->base);
        trial.kind = TRIAL_ALL_REDUCE;
        status = trial_run(&trial, comm, true, NULL, &err);
    }
    CHECK(status == STATUS_RUN && !strcmp(err.text, "rank 2: the link is gone"), "%s", err.text);
    *result = 1;
}

static void one_that_fails_ends_all_waits(void **state)
{
    (void)state;
    struct post post = {.fails = 2};
    assert_int_equal(run_ranks(&post, 4, 1 << 20, until_one_fails), 1);
    assert_true(post.given_up);
}

static void without_room(struct comm *comm, struct memory *memory, uint64_t *result)
{
    struct trial trial;
    struct error err = {0};
    trial_draw(&trial, comm, memory, 3);
    trial.kind = TRIAL_ALL_REDUCE;
    CHECK(trial_run(&trial, comm, true, NULL, &err) == STATUS_RUN && strstr(err.text, "no room"), "%s", err.text);
    *result = 1;
}

static void no_room_is_refused(void **state)
{
    (void)state;
    struct post post = {.fails = -1};
    assert_int_equal(run_ranks(&post, 3, 63, without_room), 1);
}

/* ---- the plan ------------------------------------------------------------------------------------------------------------- */

/* The room of every reduction: a whole strip for each other rank, at most so much; returns the largest. */
static int64_t check_rooms(const struct schedule *schedule)
{
    int64_t most = 0;
    for (int i = 0; i < schedule->op_count; i++) {
        const struct op *op = &schedule->ops[i];
        if (op->kind != OP_REDUCE_SCATTER && op->kind != OP_ALL_REDUCE) continue;
        const int room = op->buffer[ROLE_SCRATCH];
        assert_int_equal(room >= 0, schedule->ranks > 1);
        if (room < 0) continue;
        const int64_t bytes = schedule->buffers[room].bytes, strip = bytes / (schedule->ranks - 1);
        assert_true(bytes > 0 && bytes <= ARRIVALS_BYTES && bytes % (schedule->ranks - 1) == 0 && strip % 64 == 0);
        assert_int_equal(schedule->buffers[room].category, CATEGORY_BUCKETS);
        if (bytes > most) most = bytes;
    }
    return most;
}

/* Every schedule is proved, as it is without; and where the peak of a step is a reduction, it has grown by the room alone. */
static void the_plan_has_room(void **state)
{
    (void)state;
    static const char *const models[] = {"nano", "gpt2"};
    for (int stage = 0; stage <= 3; stage++)
        for (int ranks = 1; ranks <= 8; ranks += ranks == 1 ? 1 : 3)
            for (int m = 0; m < 2; m++) {
                char texts[3][64];
                snprintf(texts[0], sizeof texts[0], "zero_optimization.stage=%d", stage);
                snprintf(texts[1], sizeof texts[1], "topology.ranks=%d", ranks);
                snprintf(texts[2], sizeof texts[2], "model.name=%s", models[m]);
                const char *sets[] = {texts[0],
                                      texts[1],
                                      texts[2],
                                      "topology.backend=cuda",
                                      "train_batch_size=null",
                                      "topology.collectives=nccl"};
                int64_t peak[2], room = 0;
                for (int passes = 0; passes < 2; passes++) {
                    struct config config;
                    struct setup setup;
                    struct error err = {0};
                    if (config_load(&config, "configs/nano.json", sets, 5 + passes, &err) ||
                        setup_init(&setup, &config, &err) || schedule_check(&setup.schedule, &setup.model, &err))
                        fail_msg("%s", err.text);
                    peak[passes] = setup.footprint.peak_bytes[TIER_DEVICE];
                    if (passes) room = check_rooms(&setup.schedule);
                    setup_release(&setup);
                    config_release(&config);
                }
                assert_true(peak[1] >= peak[0] && peak[1] <= peak[0] + room);
                assert_int_equal(room > 0, ranks > 1);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bits_of_ranks_that_read_each_other),
        cmocka_unit_test(equal_shards_are_one_gather),
        cmocka_unit_test(one_that_fails_ends_all_waits),
        cmocka_unit_test(no_room_is_refused),
        cmocka_unit_test(the_plan_has_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
