/* This program was itself started as one rank of several, by an mpirun or srun that is not ours. Joining those ranks is not
 * built yet. Without this check each of them would train a whole run of its own. */
#include <stdlib.h>

#include "engine/launch/launcher.h"

/* What launchers tell each process that they start. srun's is of the job step, so a shell in an allocation is not meant. */
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
