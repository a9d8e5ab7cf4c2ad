/* Hosts and their slots: lists of the command line, hostfiles of DeepSpeed and Open MPI, environments of Slurm
 * (written from the documentation of versions 22 and 23; none was recorded, and no real Slurm has been run), and how another launcher is found in the environment. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/launch/hosts.h"
#include "engine/launch/launcher.h"

static struct hosts hosts;
static struct error err;

static void expect(int status, const char *wanted)
{
    char text[HOSTS_TEXT_BYTES];
    if (status) fail_msg("refused: %s", err.text);
    hosts_text(&hosts, text);
    assert_string_equal(text, wanted);
}

static void refuse(int status, const char *part)
{
    assert_int_equal(status, STATUS_USAGE);
    if (!strstr(err.text, part)) fail_msg("\"%s\" lacks \"%s\"", err.text, part);
}

static void test_lists(void **state)
{
    (void)state;
    expect(hosts_parse(&hosts, "a:2,b:2", &err), "a:2,b:2");
    expect(hosts_parse(&hosts, "a,node-1.x_y:16", &err), "a:1,node-1.x_y:16");
    assert_int_equal(hosts_slots(&hosts), 17);
    hosts_put_first(&hosts, 1);
    expect(STATUS_OK, "node-1.x_y:16,a:1");
    refuse(hosts_parse(&hosts, "", &err), "\"\" is not the name");
    refuse(hosts_parse(&hosts, "a,", &err), "\"\" is not the name");
    refuse(hosts_parse(&hosts, "a:0", &err), "a:0: give 1 to");
    refuse(hosts_parse(&hosts, "b,a:2x,c", &err), "a:2x: give 1 to");
    refuse(hosts_parse(&hosts, "a:,c", &err), "a:: give 1 to");
    refuse(hosts_parse(&hosts, "a:99999999999999999999", &err), "give 1 to");
    refuse(hosts_parse(&hosts, "a:2,b,a:1", &err), "host a is given twice");
    refuse(hosts_parse(&hosts, "-oProxyCommand=x", &err), "is not the name");
    refuse(hosts_parse(&hosts, "a b:2", &err), "is not the name");
}

static int from_file(const char *text)
{
    char copy[1024];
    snprintf(copy, sizeof copy, "%s", text);
    return hosts_parse_file(&hosts, copy, "file", &err);
}

static void test_hostfiles(void **state)
{
    (void)state;
    expect(from_file("worker-1 slots=4\nworker-2 slots=4\n"), "worker-1:4,worker-2:4");
    expect(from_file("# all\n\n a slots=2 max_slots=4 # first\r\n\tb\tslots=2\tmax-slots=2\nc"), "a:2,b:2,c:1");
    refuse(from_file(""), "file names no host");
    refuse(from_file("#a slots=2\n"), "file names no host");
    refuse(from_file("a slots=2\n\nb slots\n"), "file, line 3: \"slots\" is neither");
    refuse(from_file("a slots=2 gpus=1"), "file, line 1: \"gpus=1\" is neither");
    refuse(from_file("a slots=zwei"), "file, line 1: \"slots=zwei\" is not a number");
    refuse(from_file("a slots=4 max_slots=2"), "file, line 1: host a has 4 slots but max_slots=2");
    refuse(from_file("a slots=1\na slots=1"), "file, line 2: host a is given twice");
    refuse(from_file("slots=2 a"), "file, line 1");
}

static void test_slurm(void **state)
{
    (void)state;
    expect(hosts_parse_slurm(&hosts, "n[1-3,7]", "2(x4)", &err), "n1:2,n2:2,n3:2,n7:2");
    expect(hosts_parse_slurm(&hosts, "n[1-3,7],login", "2(x3),1,4", &err), "n1:2,n2:2,n3:2,n7:1,login:4");
    expect(hosts_parse_slurm(&hosts, "tux[008-011]", NULL, &err), "tux008:1,tux009:1,tux010:1,tux011:1");
    expect(hosts_parse_slurm(&hosts, "r[1-2]n[01,10]-ib", "1(x4)", &err),
           "r1n01-ib:1,r1n10-ib:1,r2n01-ib:1,r2n10-ib:1");
    expect(hosts_parse_slurm(&hosts, "c1", "16", &err), "c1:16");
    expect(hosts_parse_slurm(&hosts, "ip-10-0-0-1,ip-10-0-0-2", "36(x2)", &err), "ip-10-0-0-1:36,ip-10-0-0-2:36");
    refuse(hosts_parse_slurm(&hosts, "n[1-3", NULL, &err), "SLURM_JOB_NODELIST: \"n[1-3\" has no closing bracket");
    refuse(hosts_parse_slurm(&hosts, "n[3-1]", NULL, &err), "is not a list of nodes");
    refuse(hosts_parse_slurm(&hosts, "n[]", NULL, &err), "is not a list of nodes");
    refuse(hosts_parse_slurm(&hosts, "n[1,]", NULL, &err), "is not a list of nodes");
    refuse(hosts_parse_slurm(&hosts, "n[1-100]", NULL, &err), "more than 64 hosts");
    refuse(hosts_parse_slurm(&hosts, "n[1-99999999]", NULL, &err), "is not a list of nodes");
    refuse(hosts_parse_slurm(&hosts, "n[1-3]", "2(x2)", &err), "does not say what each of the 3 nodes has");
    refuse(hosts_parse_slurm(&hosts, "n[1-3]", "2(x4)", &err), "does not say");
    refuse(hosts_parse_slurm(&hosts, "n[1-3]", "2(y3)", &err), "does not say");
    refuse(hosts_parse_slurm(&hosts, "n[1-2]", "2,", &err), "does not say");
}

/* Variables of a process of: mpirun -n 4, srun -n 4, srun in a shell of an allocation, a batch script. */
static void test_another_launcher(void **state)
{
    (void)state;
    static const struct {
        const char *set[3][2];
        int rank, ranks; /* ranks 0: none */
    } processes[] = {
        {{{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_RANK", "2"}, {"PMIX_RANK", "2"}}, 2, 4},
        {{{"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_PROCID", "3"}, {"SLURM_NTASKS", "4"}}, 3, 4},
        {{{"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}, 0, 0},
        {{{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}, {"SLURM_JOB_NODELIST", "n[1-2]"}}, 0, 0},
        {{{"PMI_SIZE", "2"}, {"PMI_RANK", "1"}, {"HOSTNAME", "n1"}}, 1, 2},
    };
    for (size_t p = 0; p < sizeof processes / sizeof *processes; p++) {
        struct launcher_outer outer = {0};
        for (int v = 0; v < 3; v++) setenv(processes[p].set[v][0], processes[p].set[v][1], 1);
        assert_int_equal(launcher_outer(&outer), processes[p].ranks > 0);
        assert_int_equal(outer.rank, processes[p].rank);
        assert_int_equal(outer.ranks, processes[p].ranks);
        for (int v = 0; v < 3; v++) unsetenv(processes[p].set[v][0]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_hostfiles),
        cmocka_unit_test(test_slurm),
        cmocka_unit_test(test_another_launcher),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
