/* The launchers that need nothing but this program, and the choice between all of them. */
#include "engine/launch/launcher.h"

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
