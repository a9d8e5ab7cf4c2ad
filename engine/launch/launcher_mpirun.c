/* Ranks that Open MPI's mpirun starts, on this machine, where nothing needs it, or on several hosts. mpirun listens on a TCP
 * port of all interfaces while it lives; see docs/SECURITY.md. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/comm/comm.h"
#include "engine/launch/launcher.h"

/* What Open MPI is told, and why. */
static const struct {
    enum { ALWAYS, ON_THIS_MACHINE, ON_HOSTS } when;
    const char *name, *value;
} options[] = {
    {ALWAYS, "orte_base_help_aggregate", "0"},
    {ALWAYS, "odls_base_sigkill_timeout",
     "2"}, /* when a rank has died, rank 0 needs a second to end the trace properly */
    {ON_THIS_MACHINE, "plm",
     "^rsh,slurm"}, /* Open MPI 4 needs neither ssh nor a network then, and 5 uses ssh for no local rank */
    {ON_THIS_MACHINE, "pml", "ob1"},
    {ON_THIS_MACHINE, "btl", "self,vader"},
    {ON_THIS_MACHINE, "btl_vader_single_copy_mechanism", "none"}, /* needs ptrace rights that containers lack */
    {ON_HOSTS, "oob_tcp_keepalive_time",
     "2"}, /* a host that is silent for 2 + 3 x 1 s is lost; the defaults need 8 minutes */
    {ON_HOSTS, "oob_tcp_keepalive_intvl", "1"},
    {ON_HOSTS, "oob_tcp_keepalive_probes", "3"},
};

/* Variables that ranks on other hosts need; mpirun hands on no other. */
static const char *const handed_on[] = {"OMP_NUM_THREADS", "OMP_DYNAMIC", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "PMIX_MCA_gds"};

static void add_option(struct launch_args *args, const char *name, const char *value)
{
    launch_add(args, "--mca"), launch_add(args, name), launch_add(args, value);
}

static int count_words(const char *text)
{
    int count = 0;
    for (; *(text += strspn(text, " ")); text += strcspn(text, " ")) count++;
    return count;
}

static void prefix(struct launch_args *args, int ranks, const char *program, const char *folder,
                   const struct run_spec *spec)
{
    const char *hosts = spec->hosts, *agent = spec->agent;
    launch_add(args, "mpirun");
    if (geteuid() == 0) launch_add(args, "--allow-run-as-root");
    launch_add(args, "--oversubscribe");                     /* more ranks than cores is our normal case */
    launch_add(args, "--bind-to"), launch_add(args, "none"); /* with one core a rank, four ranks would share core 0 */
    if (hosts) launch_add(args, "--map-by"), launch_add(args, "slot"); /* the ranks of a host are consecutive */
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (options[i].when == ALWAYS || (options[i].when == ON_HOSTS) == (hosts != NULL))
            add_option(args, options[i].name, options[i].value);
    /* All that Open MPI leaves in files goes where one removal takes it. Other hosts lack that folder: there it is TMPDIR's, which ssh
     * does not hand on (launch_on()) but srun would. */
    if (hosts && !getenv("SLURM_JOB_ID")) setenv("TMPDIR", folder, 1);
    if (!hosts) add_option(args, "orte_tmpdir_base", folder), add_option(args, "btl_vader_backing_directory", folder);
    if (hosts) launch_add(args, "--host"), launch_add(args, hosts);
    if (agent) add_option(args, "plm", "^slurm"); /* in a Slurm allocation it would be srun */
    if (!agent) agent = "ssh";
    snprintf(args->agent, sizeof args->agent, "%s " LAUNCH_ON " %d %s", program, count_words(agent), agent);
    if (hosts) add_option(args, "plm_rsh_agent", args->agent);
    for (size_t i = 0; hosts && i < sizeof handed_on / sizeof *handed_on; i++)
        if (getenv(handed_on[i])) launch_add(args, "-x"), launch_add(args, handed_on[i]);
    snprintf(args->ranks, sizeof args->ranks, "%d", ranks);
    launch_add(args, "-n"), launch_add(args, args->ranks);
}

int launch_on(char *const words[])
{
    char *const *agent = words + 1;
    const char *host = "";
    int ended = 0;
    for (int i = 0, count = atoi(words[0]); i <= count && agent[i]; i++) host = agent[i];
    const pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        unsetenv("TMPDIR"); /* a folder of this machine */
        if (getppid() == parent) execvp(agent[0], agent);
        fprintf(stderr, "zerolab: cannot start %s: %s\n", agent[0], strerror(errno));
        _exit(STATUS_RUN);
    }
    while (pid > 0 && waitpid(pid, &ended, 0) < 0 && errno == EINTR) continue;
    if (pid > 0 && ended == 0) return STATUS_OK;
    fprintf(stderr, LAUNCH_ON_LOST "%s was lost, or could not be made: %s ended with %s %d; \"%s %s true\" must work\n",
            host, agent[0], WIFSIGNALED(ended) ? "signal" : "status",
            WIFSIGNALED(ended) ? WTERMSIG(ended) : WEXITSTATUS(ended), agent[0], host);
    return STATUS_RUN;
}

static bool is_on_path(const char *name)
{
    const char *path = getenv("PATH");
    char copy[4096], file[4200], *rest = copy;
    snprintf(copy, sizeof copy, "%s", path ? path : "");
    for (char *folder; (folder = strsep(&rest, ":"));) {
        snprintf(file, sizeof file, "%s/%s", folder, name);
        if (access(file, X_OK) == 0) return true;
    }
    return false;
}

static int check(struct error *err)
{
    if (!comm_have_mpi())
        return error_set(err, STATUS_USAGE, "topology.ranks_as=mpirun: built without Open MPI; leave it at processes");
    if (is_on_path("mpirun")) return STATUS_OK;
    return error_set(err, STATUS_USAGE,
                     "topology.ranks_as=mpirun: mpirun is not installed (package openmpi-bin); leave it at processes");
}

static void environment(const char *folder)
{
    /* Its shared-memory store (ds21) can deadlock at start-up: seen in PMIx 4.2.2, once in some forty starts. */
    setenv("PMIX_MCA_gds", "hash", 0);
    setenv("PRTE_MCA_prte_local_tmpdir_base", folder, 1); /* for Open MPI 5, as orte_tmpdir_base; other hosts lack the folder */
    /* Between hosts. Shared memory of Open MPI would leave files in /dev/shm of a host that is lost. The user may set another. */
    setenv("OMPI_MCA_btl", "self,tcp", 0);
#ifdef __SANITIZE_ADDRESS__
    /* Open MPI unloads libraries that still hold memory: leaks without a name, which no list of suppressions can match. */
    setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
#endif
}

const struct launcher launcher_mpirun = {.name = "mpirun",
                                         .worker = "--worker",
                                         .has_children = true,
                                         .check = check,
                                         .prefix = prefix,
                                         .environment = environment};
