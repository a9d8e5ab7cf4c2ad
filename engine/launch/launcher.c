/* The launchers that need nothing but this program, and the choice between all of them. */
#include "engine/launch/launcher.h"
#include <stdlib.h>

#include "engine/comm/comm.h"

const struct launcher launcher_local = {.name = "the supervisor", .worker = "--worker-ranks", .has_children = true};
const struct launcher launcher_threads = {.name = "the engine", .worker = "--worker-threads"};

void launch_add(struct launch_args *args, const char *text)
{
    if (args->count < LAUNCH_ARGS_MAX - 1) args->at[args->count++] = text;
    args->at[args->count] = NULL;
}

/* The other launcher is there; only MPI may be missing. */
static int check_external(struct error *err)
{
    if (comm_have_mpi()) return STATUS_OK;
    return error_set(err, STATUS_USAGE,
                     "another launcher started this program as one of several ranks, which it is built without Open "
                     "MPI for; start it once, without mpirun or srun");
}

const struct launcher launcher_external = {.name = "the engine", .worker = "--worker", .check = check_external};

const struct launcher *launcher_of(const struct run_spec *spec, const struct config *config)
{
    static const struct launcher *const launchers[] = {
        [RANKS_AS_AUTO] = &launcher_local,
        [RANKS_AS_PROCESSES] = &launcher_local,
        [RANKS_AS_THREADS] = &launcher_threads,
        [RANKS_AS_MPIRUN] = &launcher_mpirun,
    };
    return spec->external ? &launcher_external : launchers[config->topology.ranks_as];
}

bool launcher_outer(struct launcher_outer *outer)
{
    /* Variables that launchers set in each process. srun's belongs to the job step, so a shell in an allocation lacks it. */
    static const struct {
        const char *ranks, *rank;
    } marks[] = {
        {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
        {"PMI_SIZE", "PMI_RANK"},
        {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"},
    };
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        const char *ranks = getenv(marks[i].ranks), *rank = getenv(marks[i].rank);
        if (!ranks || !rank || atoi(ranks) < 2) continue;
        *outer = (struct launcher_outer){atoi(rank), atoi(ranks)};
        return true;
    }
    return false;
}
