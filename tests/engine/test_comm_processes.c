/* Communication between ranks that are processes: children of our supervisor, or started by mpirun on this program. A rank
 * runs one scenario and leaves what it found in a file, one line per rank, by a single write. */
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

#include <cmocka.h>

#include "engine/base/clock.h"
#include "engine/launch/supervise.h"
#include "tests/support/comm_scenarios.h"
#include "tests/support/effort.h"

#ifdef __SANITIZE_THREAD__
enum { THREAD_SANITIZED = 1 };
#else
enum { THREAD_SANITIZED = 0 };
#endif

enum { RESULT_BYTES = 8192 };

/* ---- the rank's side ---- */

static const char *result_path;
static char folder[] = "/tmp/zerolab-test-XXXXXX";

__attribute__((format(printf, 1, 2))) static void report(const char *format, ...)
{
    char line[600];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(line, sizeof line - 1, format, args);
    va_end(args);
    line[length++] = '\n';
    int fd = open(result_path, O_WRONLY | O_APPEND | O_CREAT, 0600);
    CHECK(fd >= 0 && write(fd, line, (size_t)length) == length, "%s", result_path);
    close(fd);
}

/* Every kind of call, also a collective that is larger than the caches; the hash covers the bits of all results. */
static void run_all(struct comm *comm, struct memory *memory)
{
    uint64_t hash = scenario_random(comm, memory, (uint64_t)effort(70, 70, 400), true);
    scenario_unhealthy(comm, memory);
    scenario_control(comm);
    scenario_share(comm);
    report("%016llx", (unsigned long long)hash);
}

/* Collectives of every kind until one fails, as it must. */
static void meet_until_failure(struct comm *comm, struct memory *memory)
{
    struct trial trial;
    struct error err = {0};
    int status = STATUS_OK;
    for (uint64_t round = 0; !status; round++) {
        trial_draw(&trial, comm, memory, round);
        status = trial_run(&trial, comm, true, NULL, &err);
    }
    report("%s", err.text);
}

static void die(int number)
{
    (void)number;
    kill(getpid(), SIGKILL);
}

/* Rank 2 dies wherever it happens to be. */
static void run_death(struct comm *comm, struct memory *memory)
{
    signal(SIGALRM, die);
    struct itimerval soon = {.it_value.tv_usec = 1 + getpid() % 40000};
    if (comm_layout(comm)->rank == 2) setitimer(ITIMER_REAL, &soon, NULL);
    meet_until_failure(comm, memory);
}

/* How long the others wait in a barrier for rank 2 after it is dead. */
static void run_seen(struct comm *comm, struct memory *memory)
{
    (void)memory;
    struct error err = {0};
    uint64_t *died_ns = comm_share(comm, 4096, &err) ? NULL : comm_segment_of(comm, 0);
    CHECK(died_ns, "%s", err.text);
    if (comm_layout(comm)->rank == 2) {
        nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL); /* by then the others wait */
        *died_ns = clock_ns();
        die(0);
    }
    CHECK(comm_barrier(comm, &err) == STATUS_RUN, "the barrier held");
    report("%d ms", (int)((clock_ns() - *died_ns) / 1000000));
}

static void run_abort(struct comm *comm, struct memory *memory)
{
    if (comm_layout(comm)->rank == 2) comm_abort(comm, &(struct error){STATUS_INPUT, "the disk is full"});
    meet_until_failure(comm, memory);
}

static void run_pause(struct comm *comm, struct memory *memory)
{
    (void)memory;
    int word = comm_layout(comm)->rank;
    struct timespec before, after;
    struct error err = {0};
    if (word == 0) nanosleep(&(struct timespec){.tv_nsec = 600000000}, NULL);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    CHECK(!comm_broadcast_control(comm, &word, sizeof word, &err) && word == 0, "%s", err.text);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    const double may_use_s = comm_layout(comm)->nodes == 1 ? 0.03 : 0.1; /* of 0.6: between nodes, messages are polled for */
    double used = (double)(after.tv_sec - before.tv_sec) + 1e-9 * (double)(after.tv_nsec - before.tv_nsec);
    report("%s", used < may_use_s ? "slept" : "burned the processor");
}

static int run_rank(struct comm *comm, const char *scenario)
{
    struct error err = {0};
    struct memory *memory = scenario_memory();
    if (comm_attach(comm, memory, &err)) report("%s", err.text); /* another may be past it and fail already */
    else if (!strcmp(scenario, "all")) run_all(comm, memory);
    else if (!strcmp(scenario, "death")) run_death(comm, memory);
    else if (!strcmp(scenario, "seen")) run_seen(comm, memory);
    else if (!strcmp(scenario, "abort")) run_abort(comm, memory);
    else if (!strcmp(scenario, "pause")) run_pause(comm, memory);
    comm_close(comm);
    memory_destroy(memory);
    return 0;
}

static int run_under_mpirun(const char *scenario, int ranks_per_node)
{
    struct comm *comm;
    struct error err = {0};
    CHECK(!comm_open_mpi(&comm, ranks_per_node, &err), "%s", err.text);
    return run_rank(comm, scenario);
}

static int run_supervised(void *user, struct comm_group *group, int rank)
{
    struct comm *comm;
    struct error err = {0};
    CHECK(!comm_open_process(&comm, group, rank, &err), "%s", err.text);
    comm_group_free(group);
    return run_rank(comm, user);
}

/* ---- the test's side ---- */

enum starter { SUPERVISOR, MPIRUN, STARTERS };

static void remove_tree(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        char name[4096];
        snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        if (unlink(name)) remove_tree(name);
    }
    if (dir) closedir(dir);
    rmdir(path);
}

/* Recovery on: mpirun must not kill the survivors of a death before they can say what they saw. */
static _Noreturn void become_mpirun(const char *scenario, int ranks, int ranks_per_node)
{
    char self[4096] = "", count[16], per_node[16];
    CHECK(readlink("/proc/self/exe", self, sizeof self - 1) > 0, "no file of this program");
    snprintf(count, sizeof count, "%d", ranks);
    snprintf(per_node, sizeof per_node, "%d", ranks_per_node);
    setenv("ASAN_OPTIONS", "detect_leaks=0", 1); /* Open MPI's own */
    execlp("mpirun", "mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--enable-recovery",
           "--mca", "orte_tmpdir_base", folder, "--mca", "btl_vader_backing_directory", folder, "--mca", "btl",
           "vader,self", "-n", count, self, "--rank", scenario, per_node, result_path, NULL);
    _exit(127);
}

/* Returns the lines the ranks left. */
static int start_ranks(enum starter starter, const char *scenario, int ranks, int ranks_per_node, char *result)
{
    char path[128], written[128];
    struct error err = {0};
    snprintf(written, sizeof written, "%s/result", folder);
    result_path = written;
    unlink(result_path);
    fflush(NULL);
    int status;
    pid_t child = fork();
    if (child == 0) {
        setsid();
        snprintf(path, sizeof path, "%s/printed", folder);
        dup2(open("/dev/null", O_RDWR), STDIN_FILENO);
        dup2(open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO); /* mpirun talks a lot when a rank dies */
        dup2(STDERR_FILENO, STDOUT_FILENO);
        if (starter == MPIRUN) become_mpirun(scenario, ranks, ranks_per_node);
        status = supervise(ranks, ranks_per_node, run_supervised, (void *)(uintptr_t)scenario, &err);
        if (status) fprintf(stderr, "%s\n", err.text);
        _exit(status);
    }
    waitpid(child, &status, 0);
    int fd = open(result_path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? 0 : read(fd, result, RESULT_BYTES - 1);
    if (fd >= 0) close(fd);
    result[got > 0 ? got : 0] = 0;
    return status;
}

static void show_printed(void)
{
    char path[128], text[4096];
    snprintf(path, sizeof path, "%s/printed", folder);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? 0 : read(fd, text, sizeof text);
    if (got > 0) fprintf(stderr, "%.*s", (int)got, text);
    if (fd >= 0) close(fd);
}

static int count_lines(const char *text, const char *line)
{
    int count = 0;
    size_t length = strlen(line);
    for (; *text; text = strchr(text, '\n') + 1) count += strncmp(text, line, length) == 0;
    return count;
}

static void first_line(const char *text, char *line, size_t room)
{
    snprintf(line, room, "%.*s", (int)strcspn(text, "\n"), text);
}

/* Each rank says the same; returns what. */
static void expect_all_say(enum starter starter, const char *scenario, int ranks, int ranks_per_node, char *said,
                           size_t room)
{
    char result[RESULT_BYTES];
    int status = start_ranks(starter, scenario, ranks, ranks_per_node, result);
    first_line(result, said, room);
    if (status == 0 && count_lines(result, said) == ranks) return;
    show_printed();
    fail_msg("%s on %d ranks, %d per node: status %x, said:\n%s", scenario, ranks, ranks_per_node, (unsigned)status,
             result);
}

/* mpirun cannot be followed by ThreadSanitizer, and may not be there. */
static enum starter starters_here(void)
{
    return comm_have_mpi() && !THREAD_SANITIZED ? STARTERS : MPIRUN;
}

/* mpirun takes a second to start. But for FULL=1 it starts each scenario on one layout only, and each layout in some scenario; all
 * pairs of a scenario and a layout are the supervisor's. */
static bool is_tried(enum starter by, int ranks_per_node, int under_mpirun)
{
    return by == SUPERVISOR || ranks_per_node == under_mpirun || effort_is_full();
}

/* One node of four, two of two, four of one, and an uneven split, whoever starts the ranks: the same bits. */
static void test_nodes_change_no_bit(void **state)
{
    (void)state;
    char one[64], other[64];
    expect_all_say(SUPERVISOR, "all", 4, 0, one, sizeof one);
    for (enum starter by = SUPERVISOR; by < starters_here(); by++)
        for (int ranks_per_node = 0; ranks_per_node <= 3; ranks_per_node++) {
            if (!is_tried(by, ranks_per_node, 3)) continue;
            expect_all_say(by, "all", 4, ranks_per_node, other, sizeof other);
            assert_string_equal(one, other);
        }
}

static void test_odd_ranks(void **state)
{
    (void)state;
    char said[64], other[64];
    expect_all_say(SUPERVISOR, "all", 3, 0, said, sizeof said);
    for (enum starter by = SUPERVISOR; by < starters_here(); by++) {
        expect_all_say(by, "all", 1, 0, other, sizeof other);
        for (int ranks_per_node = 0; ranks_per_node <= 1; ranks_per_node++) {
            if (!is_tried(by, ranks_per_node, 1)) continue;
            expect_all_say(by, "all", 3, ranks_per_node, other, sizeof other);
            assert_string_equal(said, other);
        }
    }
}

static void test_pause_sleeps(void **state)
{
    (void)state;
    char said[64];
    for (enum starter by = SUPERVISOR; by < starters_here(); by++)
        for (int ranks_per_node = 0; ranks_per_node <= 2; ranks_per_node += 2) {
            if (!is_tried(by, ranks_per_node, 2)) continue;
            expect_all_say(by, "pause", 4, ranks_per_node, said, sizeof said);
            assert_string_equal(said, "slept");
        }
}

static void expect_survivors_say(enum starter starter, const char *scenario, int ranks_per_node, int survivors,
                                 const char *what)
{
    char result[RESULT_BYTES];
    start_ranks(starter, scenario, 4, ranks_per_node, result);
    int said = 0;
    for (const char *line = result; *line; line = strchr(line, '\n') + 1)
        said += !strncmp(line, "rank 2", 6) && strstr(line, what) && strstr(line, what) < strchr(line, '\n');
    if (said == survivors) return;
    show_printed();
    fail_msg("%s, %d per node: %d said '%s':\n%s", scenario, ranks_per_node, said, what, result);
}

static void test_death_is_named(void **state)
{
    (void)state;
    for (enum starter by = SUPERVISOR; by < starters_here(); by++)
        for (int ranks_per_node = 0; ranks_per_node <= 2; ranks_per_node++)
            if (is_tried(by, ranks_per_node, 0))
                expect_survivors_say(by, "death", ranks_per_node, 3,
                                     by == SUPERVISOR ? ") was ended by signal 9" : ") died");
}

/* The supervisor tells the survivors at once: they do not look around for the dead, as they do under mpirun. */
static void test_death_is_seen_at_once(void **state)
{
    (void)state;
    char result[RESULT_BYTES];
    start_ranks(SUPERVISOR, "seen", 4, 0, result);
    int said = 0, most_ms = 0;
    for (const char *line = result; *line; line = strchr(line, '\n') + 1) {
        const int ms = atoi(line);
        most_ms = ms > most_ms ? ms : most_ms;
        said++;
    }
    if (said != 3) show_printed();
    assert_int_equal(said, 3);
    assert_in_range(most_ms, 0, 500);
}

static void test_abort_reaches_all(void **state)
{
    (void)state;
    for (enum starter by = SUPERVISOR; by < starters_here(); by++)
        for (int ranks_per_node = 0; ranks_per_node <= 2; ranks_per_node++)
            if (is_tried(by, ranks_per_node, 2))
                expect_survivors_say(by, "abort", ranks_per_node, 4, "the disk is full");
}

static int setup(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    remove_tree(folder);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 5 && !strcmp(argv[1], "--rank")) {
        result_path = argv[4];
        return run_under_mpirun(argv[2], atoi(argv[3]));
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nodes_change_no_bit),   cmocka_unit_test(test_odd_ranks),
        cmocka_unit_test(test_pause_sleeps),          cmocka_unit_test(test_death_is_named),
        cmocka_unit_test(test_death_is_seen_at_once), cmocka_unit_test(test_abort_reaches_all),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
