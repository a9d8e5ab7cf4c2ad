/* Ranks that Open MPI's mpirun starts. On one machine nothing needs it. mpirun listens on a TCP port of all
 * interfaces while it lives; see docs/SECURITY.md. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/comm/comm.h"
#include "engine/launch/launcher.h"

/* What mpirun is told, and why. */
static const char *const options[] = {
    "--oversubscribe", /* more ranks than cores is our normal case */
    "--bind-to",
    "none", /* with one core a rank, four ranks would share core 0 */
    "--mca",
    "plm",
    "^rsh,slurm", /* this machine only: Open MPI 4 needs neither ssh nor a network then, and 5 uses ssh for no local rank */
    "--mca",
    "pml",
    "ob1",
    "--mca",
    "btl",
    "self,vader",
    "--mca",
    "btl_vader_single_copy_mechanism",
    "none", /* needs ptrace rights that containers lack */
    "--mca",
    "orte_base_help_aggregate",
    "0",
    "--mca",
    "odls_base_sigkill_timeout",
    "2", /* when a rank has died, rank 0 needs a second to end the trace properly */
};

static void prefix(struct launch_args *args, int ranks, const char *folder)
{
    launch_add(args, "mpirun");
    if (geteuid() == 0) launch_add(args, "--allow-run-as-root");
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) launch_add(args, options[i]);
    /* All that Open MPI leaves in files goes where one removal takes it. */
    launch_add(args, "--mca"), launch_add(args, "orte_tmpdir_base"), launch_add(args, folder);
    launch_add(args, "--mca"), launch_add(args, "btl_vader_backing_directory"), launch_add(args, folder);
    snprintf(args->ranks, sizeof args->ranks, "%d", ranks);
    launch_add(args, "-n"), launch_add(args, args->ranks);
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
    setenv("PRTE_MCA_prte_tmpdir_base", folder, 1); /* what Open MPI 5 calls orte_tmpdir_base */
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
