/* A run without a screen: reads the trace to its end, folds it into the model, and says how it goes: on a terminal one
 * line rewritten in place, elsewhere a plain line now and then. What a person should know (out of memory, a refused
 * command) is printed as it comes, and so are the logs that the configuration asks for. */
#ifndef ENGINE_CLI_HEADLESS_H
#define ENGINE_CLI_HEADLESS_H

#include <stdbool.h>
#include <stdio.h>

#include "engine/advise/logs.h"
#include "engine/trace/source.h"
#include "engine/train/relauncher.h"

struct headless {
    FILE *out;
    bool tty;           /* can rewrite a line */
    int64_t steps;      /* to be trained; 0: until stopped */
    int signal_fd;      /* SIGINT and SIGTERM: the first asks the run to stop, the second ends it */
    struct relauncher *relauncher;
    struct logs *logs;  /* the caller's; NULL: none are asked for */
    bool own_pace;      /* plain lines at tenths of the way; false: the logs have a pace of their own */
    /* Its own. */
    uint64_t shown_ns;
    uint32_t shown_steps;
    uint64_t shown_notices;
    bool line_open, stopping, forced; /* forced: it was ended at once, because somebody asked twice */
    char line[256];
};

/* Returns when the trace has ended. */
void headless_run(struct headless *headless, struct source *source, struct run_model *model);

#endif
