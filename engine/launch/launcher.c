/* The launchers that need nothing but this program, and the choice between all of them. */
#include "engine/launch/launcher.h"
#include <stdlib.h>

const struct launcher launcher_local = {.name = "the supervisor", .worker = "--worker-ranks", .has_children = true};
const struct launcher launcher_threads = {.name = "the engine", .worker = "--worker-threads"};

void launch_add(struct launch_args *args, const char *text)
{
    if (args->count < LAUNCH_ARGS_MAX - 1) args->at[args->count++] = text;
    args->at[args->count] = NULL;
}

const struct launcher *launcher_of(const struct config *config)
{
    static const struct launcher *const launchers[] = {
        [RANKS_AS_PROCESSES] = &launcher_local,
        [RANKS_AS_THREADS] = &launcher_threads,
        [RANKS_AS_MPIRUN] = &launcher_mpirun,
    };
    return launchers[config->topology.ranks_as];
}

int launcher_check(const struct config *config, struct error *err)
{
    const struct launcher *launcher = launcher_of(config);
    const int status = launcher_external.check(err);
    return status || !launcher->check ? status : launcher->check(err);
}

/* ---- external launcher: another mpirun or srun started this program as one rank of several. Joining those ranks is
 * not built yet. Without this check each of them would train a whole run of its own. ---- */

/* Environment variables that launchers set in each process. srun's belongs to the job step, so a shell in an
 * allocation lacks it. */
static const struct {
    const char *ranks, *rank;
} marks[] = {
    {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
    {"PMI_SIZE", "PMI_RANK"},
    {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"},
};

static int check(struct error *err)
{
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        const char *ranks = getenv(marks[i].ranks), *rank = getenv(marks[i].rank);
        if (!ranks || atoi(ranks) < 2) continue;
        return error_set(err, STATUS_USAGE,
                         "this process is rank %d of %d that another launcher started (%s=%d), and zerolab cannot join "
                         "them yet; start zerolab once, without mpirun or srun, and say how many ranks: -n %d",
                         rank ? atoi(rank) : 0, atoi(ranks), marks[i].ranks, atoi(ranks), atoi(ranks));
    }
    return STATUS_OK;
}

const struct launcher launcher_external = {.name = "the other launcher", .check = check};
