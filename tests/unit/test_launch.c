/* What surrounds the engine's processes: their command line, their private folder, what they print, and the line that is
 * made of it. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/launch/capacity.h"
#include "engine/launch/capture.h"
#include "engine/launch/launch.h"
#include "engine/launch/rundir.h"
#include "engine/launch/spec.h"

static char base[] = "/tmp/zerolab-test-XXXXXX";
static struct error err;

static int make_base(void **state)
{
    (void)state;
    return mkdtemp(base) && setenv("XDG_RUNTIME_DIR", base, 1) == 0 ? 0 : -1;
}

static int remove_base(void **state)
{
    (void)state;
    return rmdir(base); /* fails if anything was left */
}

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

/* ---- the folder ---- */

static void test_folder_is_private_and_goes_away(void **state)
{
    (void)state;
    struct rundir dir;
    struct stat s;
    char path[96];
    assert_int_equal(rundir_create(&dir, false, &err), STATUS_OK);
    assert_int_equal(stat(dir.path, &s), 0);
    assert_int_equal(s.st_mode & 0777, 0700);
    rundir_path(&dir, "deep", path, sizeof path);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(rundir_sweep(), 0); /* ours is alive */
    rundir_close(&dir, true);
    assert_false(exists(dir.path));
}

/* A run that ends removes the folder of all runs if it is empty; another begins just then. */
static void test_runs_that_end_do_not_stop_one_that_begins(void **state)
{
    (void)state;
    char all[64];
    int failed = 0;
    snprintf(all, sizeof all, "/tmp/zerolab-%u", (unsigned)geteuid());
    assert_int_equal(unsetenv("XDG_RUNTIME_DIR"), 0);
    const pid_t others = fork();
    assert_true(others >= 0);
    if (others == 0) prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (others == 0) rmdir(all);
    for (int i = 0; i < 20; i++) {
        struct rundir dir;
        const bool made = rundir_create(&dir, false, &err) == STATUS_OK;
        failed += !made;
        if (made) rundir_close(&dir, true);
    }
    kill(others, SIGKILL);
    waitpid(others, NULL, 0);
    setenv("XDG_RUNTIME_DIR", base, 1);
    if (failed) print_error("%d of 20 failed, the last: %s\n", failed, err.text);
    assert_int_equal(failed, 0);
}

static void test_a_dead_run_is_swept_and_its_last_rank_keeps_it(void **state)
{
    (void)state;
    int ready[2], go[2];
    char path[80] = "", byte = 0;
    assert_int_equal(pipe(ready) | pipe(go), 0);
    pid_t front = fork();
    if (front == 0) { /* the front end makes the folder, starts a "rank", and is killed */
        struct rundir dir;
        if (rundir_create(&dir, false, NULL)) _exit(1);
        if (fork() == 0) {
            struct rundir joined;
            if (rundir_join(&joined, dir.path, NULL)) _exit(1);
            close(dir.lock_fd);
            if (write(ready[1], joined.path, sizeof joined.path) < 0 || read(go[0], &byte, 1) < 0) _exit(1);
            _exit(0);
        }
        pause();
    }
    assert_int_equal(read(ready[0], path, sizeof path), sizeof path);
    assert_int_equal(kill(front, SIGKILL), 0);
    assert_int_equal(waitpid(front, NULL, 0), front);
    assert_int_equal(rundir_sweep(), 0); /* the rank is alive */
    assert_true(exists(path));
    assert_int_equal(write(go[1], &byte, 1), 1);
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 0); /* until the rank has closed its end by ending */
    assert_int_equal(rundir_sweep(), 1);
    assert_false(exists(path));
    close(ready[0]), close(go[0]), close(go[1]);
}

static void test_lists_only_runs_that_listen(void **state)
{
    (void)state;
    struct rundir dir;
    struct rundir_found found[4];
    char path[96];
    assert_int_equal(rundir_create(&dir, false, &err), STATUS_OK);
    assert_int_equal(rundir_list(found, 4), 0);
    rundir_path(&dir, "socket", path, sizeof path);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fclose(file);
    assert_int_equal(rundir_list(found, 4), 1);
    assert_int_equal(found[0].pid, getpid());
    assert_string_equal(found[0].path, dir.path);
    rundir_close(&dir, true);
}

static void test_spec_and_home_through_the_folder(void **state)
{
    (void)state;
    struct rundir dir;
    struct run_spec spec = {.config_path = "a \"b\".json",
                            .sets = {2, {"a=1", "b=[1,2]"}},
                            .at = {1, {"5:stage=1"}},
                            .steps = 30,
                            .interactive = true,
                            .part = {.number = 2,
                                     .steps_done = 20,
                                     .state = "/run/state",
                                     .lines = {1, {"ranks 3"}},
                                     .paused = true,
                                     .key = "topology.ranks",
                                     .from = "4",
                                     .since_ns = 0xfedcba9876543210u}};
    struct run_spec back;
    int listen_fd, fd;
    assert_int_equal(rundir_create(&dir, false, &err), STATUS_OK);
    assert_int_equal(spec_write(&spec, &dir, SPEC_FILE, &err), STATUS_OK);
    assert_int_equal(spec_read(&back, &dir, SPEC_FILE, &err), STATUS_OK);
    assert_string_equal(back.config_path, spec.config_path);
    assert_int_equal(back.sets.count, 2);
    assert_string_equal(back.sets.at[1], "b=[1,2]");
    assert_string_equal(back.at.at[0], "5:stage=1");
    assert_int_equal(back.steps, 30);
    assert_null(back.trace);
    assert_true(back.interactive);
    assert_false(back.detached);
    assert_int_equal(back.part.number, 2);
    assert_int_equal(back.part.steps_done, 20);
    assert_string_equal(back.part.state, "/run/state");
    assert_string_equal(back.part.lines.at[0], "ranks 3");
    assert_true(back.part.paused);
    assert_string_equal(back.part.key, "topology.ranks");
    assert_string_equal(back.part.from, "4");
    assert_null(back.part.failure);
    assert_int_equal(back.part.since_ns, 0xfedcba9876543210u);
    spec_release(&back);

    assert_int_equal(home_call(&dir, &fd, &err), STATUS_RUN); /* nobody listens yet */
    assert_int_equal(home_listen(&dir, &listen_fd, &err), STATUS_OK);
    assert_int_equal(home_call(&dir, &fd, &err), STATUS_OK);
    close(fd);
    close(listen_fd);
    assert_int_equal(home_call(&dir, &fd, &err), STATUS_RUN); /* nor any more */
    rundir_close(&dir, true);
    assert_int_equal(spec_read(&back, &dir, SPEC_FILE, &err), STATUS_RUN);
}

/* ---- what is printed ---- */

static void test_capture_keeps_head_and_tail(void **state)
{
    (void)state;
    struct capture *capture;
    int fd[2];
    assert_int_equal(pipe(fd), 0);
    assert_int_equal(capture_start(&capture, fd[0], &(struct capture_log){0}, &err), STATUS_OK);
    assert_false(capture_wait(capture, 10));
    FILE *pen = fdopen(fd[1], "w");
    for (int i = 0; i < 20000; i++) fprintf(pen, "line %d\n", i);
    fclose(pen);
    assert_true(capture_wait(capture, 5000));
    char *text = capture_finish(capture);
    assert_true(strlen(text) < 40000);
    assert_non_null(strstr(text, "line 0\n"));
    assert_string_equal(text + strlen(text) - 11, "line 19999\n");
    free(text);
}

static void test_capture_stops_before_the_end(void **state)
{
    (void)state;
    struct capture *capture;
    int fd[2];
    assert_int_equal(pipe(fd), 0);
    assert_int_equal(capture_start(&capture, fd[0], &(struct capture_log){0}, &err), STATUS_OK);
    char *text = capture_finish(capture);
    assert_string_equal(text, "");
    free(text);
    close(fd[1]);
}

enum { EXITED = 256 };

static void test_failure_is_one_line(void **state)
{
    (void)state;
    static const char banner[] = "--------------------------------------------------------------------------\n"
                                 "Primary job  terminated normally, but 1 process returned\na non-zero exit code. Per "
                                 "user-direction, the job has been aborted.\n"
                                 "--------------------------------------------------------------------------\n";
    static const char noticed[] =
        "mpirun noticed that process rank 2 with PID 0 on node x exited on signal 9 (Killed).\n";
    char text[1024];
    snprintf(text, sizeof text, "zerolab: rank 2 does not answer\n%s%s", banner, noticed);
    assert_int_equal(failure_explain(137 * EXITED, text, "mpirun", &err), STATUS_RUN);
    assert_string_equal(err.text, "rank 2 was ended by signal 9 (Killed)");
    static const char broken[] =
        "prterun noticed that process rank 1 with PID 16606 on node vm exited on\nsignal 9 (Killed).\n";
    assert_int_equal(failure_explain(137 * EXITED, broken, "mpirun", &err), STATUS_RUN);
    assert_string_equal(err.text, "rank 1 (process 16606) was ended by signal 9 (Killed)");
    assert_int_equal(failure_explain(0, broken, NULL, &err), STATUS_RUN);
    assert_string_equal(err.text, "rank 1 (process 16606) was ended by signal 9 (Killed)");
    assert_int_equal(failure_explain(0, NULL, NULL, &err), STATUS_RUN);
    assert_string_equal(err.text, "the engine did not end by itself and was ended");

    snprintf(text, sizeof text, "zerolab: cannot read a.txt: No such file\n%s", banner);
    assert_int_equal(failure_explain(3 * EXITED, text, "mpirun", &err), STATUS_INPUT);
    assert_string_equal(err.text, "cannot read a.txt: No such file");

    /* Ranks that leave together end with status 0. */
    static const char stated[] = "zerolab: a note\nzerolab: status 2: rank 1: no such key\nzerolab: status 3: rank 2: later\n";
    assert_int_equal(failure_explain(0, stated, "mpirun", &err), STATUS_USAGE);
    assert_string_equal(err.text, "rank 1: no such key");
    assert_int_equal(failure_explain(4 * EXITED, stated, "mpirun", &err), STATUS_USAGE);
    assert_int_equal(failure_explain(0, stated, NULL, &err), STATUS_RUN);
    assert_string_equal(err.text, "rank 1: no such key");
    assert_int_equal(failure_explain(0, "zerolab: a note\n", "mpirun", &err), STATUS_OK);
    assert_int_equal(failure_explain(0, "zerolab: status 9: odd\n", "mpirun", &err), STATUS_OK);

    assert_int_equal(failure_explain(9, "", "mpirun", &err), STATUS_RUN);
    assert_string_equal(err.text, "mpirun was ended by signal 9 (Killed)");

    assert_int_equal(
        failure_explain(
            1 * EXITED,
            "==7==ERROR: AddressSanitizer: x\nSUMMARY: AddressSanitizer: heap-use-after-free a.c:3\n==7==ABORTING\n",
            "the engine", &err),
        STATUS_RUN);
    assert_string_equal(err.text, "SUMMARY: AddressSanitizer: heap-use-after-free a.c:3");

    /* Other hosts, in the words of Open MPI 5, which has not reached one, or has lost it. */
    static const char prte_lost[] = "PRTE has lost communication with a remote daemon.\n\n  HNP daemon   : [prterun-a-10@0,0] on node a\n"
                                    "  Remote daemon: [prterun-a-10@0,1] on node b\n";
    snprintf(text, sizeof text, "the connection to host b was lost, or could not be made: false ended with status 1\n%s", prte_lost);
    assert_int_equal(failure_explain(1 * EXITED, text, "mpirun", &err), STATUS_RUN);
    assert_string_equal(err.text, "the connection to host b was lost, or could not be made: false ended with status 1");
    assert_int_equal(failure_explain(1 * EXITED, prte_lost, "mpirun", &err), STATUS_RUN);
    assert_string_equal(err.text, "host b was lost: its network or the machine itself has failed");

    /* ... of Open MPI 4.1. */
    static const char lost[] =
        "ORTE has lost communication with a remote daemon.\n\n  HNP daemon   : [[24167,0],0] on node a\n"
        "  Remote daemon: [[24167,0],1] on node b\n\nThis is usually due to\n";
    assert_int_equal(failure_explain(205 * EXITED, lost, "mpirun", &err), STATUS_RUN);
    assert_string_equal(err.text, "host b was lost: its network or the machine itself has failed");
    assert_int_equal(failure_explain(0, lost, NULL, &err), STATUS_RUN);
    assert_string_equal(err.text, "host b was lost: its network or the machine itself has failed");
    static const char missing[] =
        "mpirun was unable to launch the specified application as it could not access\nor execute an executable:\n\n"
        "Executable: /opt/zerolab\nNode: b\n\nwhile attempting to start process rank 2.\n";
    assert_int_equal(failure_explain(132 * EXITED, missing, "mpirun", &err), STATUS_RUN);
    assert_string_equal(err.text, "host b cannot execute /opt/zerolab; install the same zerolab there");
    static const char unreachable[] =
        "ssh: Could not resolve hostname c\nthe connection to host c was lost, or could not be made: ssh\n"
        "ORTE was unable to reliably start one or more daemons.\n";
    assert_int_equal(failure_explain(1 * EXITED, unreachable, "mpirun", &err), STATUS_RUN);
    assert_string_equal(err.text, "the connection to host c was lost, or could not be made: ssh");

    assert_int_equal(failure_explain(77 * EXITED, "something\nodd\n---\n", "the engine", &err), STATUS_RUN);
    assert_string_equal(err.text, "the engine ended with status 77: odd");
    assert_int_equal(failure_explain(77 * EXITED, NULL, "the engine", &err), STATUS_RUN);
    assert_int_equal(failure_explain(0, "chatter\n", "the engine", &err), STATUS_OK);
}

/* ---- room ---- */

enum { MIB = 1 << 20 };

static struct capacity room_of(uint64_t memory_mib)
{
    return (struct capacity){
        .memory_bytes = memory_mib * MIB, .ranks_on_gpu = 1, .gpu_bytes = UINT64_MAX, .gpu_total_bytes = UINT64_MAX};
}

static int check_room(const struct config *config, uint64_t memory_mib)
{
    const struct capacity room = room_of(memory_mib);
    return capacity_check(config, &room, &err);
}

static int check_change(const struct config *config, int ranks, uint64_t held_mib, uint64_t memory_mib)
{
    const struct capacity room = room_of(memory_mib);
    return capacity_check_change(config, ranks, (uint64_t[TIERS]){held_mib * MIB}, &room, &err);
}

static void test_room_is_asked_for_before_a_change(void **state)
{
    (void)state;
    struct config config;
    assert_int_equal(config_load(&config, "configs/nano.json", NULL, 0, &err),
                     STATUS_OK); /* nano at stage 0: about 21.4 MiB a rank */
    assert_int_equal(check_room(&config, 4 * 22), STATUS_OK);
    assert_int_equal(check_room(&config, 4 * 21), STATUS_USAGE);
    assert_int_equal(check_change(&config, 4, 14, 4 * 8), STATUS_OK);
    assert_int_equal(check_change(&config, 4, 14, 4 * 7), STATUS_RUN);
    assert_non_null(strstr(err.text, "more than they hold"));
    assert_int_equal(check_change(&config, 2, 14, 4 * 7), STATUS_OK); /* two are elsewhere */
    assert_int_equal(check_change(&config, 4, 22, 0), STATUS_OK);     /* less always has room */
    config.budget_bytes[TIER_DEVICE] = 20 * MIB;                      /* a rank stays below it, whatever its plan */
    assert_int_equal(check_change(&config, 4, 14, 4 * 7), STATUS_OK);
    config_release(&config);
}

/* Device tiers that lie on a GPU need none of the machine's memory, and share the GPU's. */
static void test_room_on_a_gpu(void **state)
{
    (void)state;
    struct config config;
    struct capacity room = room_of(1); /* MiB; nothing is offloaded */
    assert_int_equal(config_load(&config, "configs/nano.json", NULL, 0, &err), STATUS_OK);
    config.topology.backend = BACKEND_CUDA;
    room.on_gpu = true;
    assert_int_equal(capacity_check(&config, &room, &err), STATUS_OK); /* of a GPU that nothing is known of */
    room.ranks_on_gpu = 4, room.gpu_bytes = 4 * 22 * MIB, room.gpu_total_bytes = 100 * MIB;
    assert_int_equal(capacity_check(&config, &room, &err), STATUS_OK);
    room.gpu_bytes = 4 * 21 * MIB;
    assert_int_equal(capacity_check(&config, &room, &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "free on the GPU"));
    room.ranks_on_gpu = 1; /* one each */
    assert_int_equal(capacity_check(&config, &room, &err), STATUS_OK);
    room.gpu_bytes = 7 * MIB;
    assert_int_equal(capacity_check_change(&config, 4, (uint64_t[TIERS]){14 * MIB}, &room, &err), STATUS_RUN);
    assert_int_equal(capacity_check_change(&config, 4, (uint64_t[TIERS]){15 * MIB}, &room, &err), STATUS_OK);
    config.budget_bytes[TIER_DEVICE] = 101 * MIB;
    assert_int_equal(capacity_check(&config, &room, &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "memory.device_budget"));
    config_release(&config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_folder_is_private_and_goes_away),
        cmocka_unit_test(test_runs_that_end_do_not_stop_one_that_begins),
        cmocka_unit_test(test_a_dead_run_is_swept_and_its_last_rank_keeps_it),
        cmocka_unit_test(test_lists_only_runs_that_listen),
        cmocka_unit_test(test_spec_and_home_through_the_folder),
        cmocka_unit_test(test_capture_keeps_head_and_tail),
        cmocka_unit_test(test_capture_stops_before_the_end),
        cmocka_unit_test(test_failure_is_one_line),
        cmocka_unit_test(test_room_is_asked_for_before_a_change),
        cmocka_unit_test(test_room_on_a_gpu),
    };
    return cmocka_run_group_tests(tests, make_base, remove_base);
}
