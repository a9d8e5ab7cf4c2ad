/* Follows a run without a screen: reads the trace to its end, folds it into the model, and prints progress: on a
 * terminal one line that is rewritten in place, elsewhere a plain line now and then. Notices (out of memory, a
 * refused command) and the logs that the configuration asks for are printed as they arrive. */
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
    struct logs *logs;  /* borrowed; NULL: the configuration asks for none */
    bool own_pace;      /* plain lines at each tenth of the steps; false: the logs set the pace */
    /* Private to headless.c. */
    uint64_t shown_ns;
    uint64_t shown_waiting_ns; /* run_waiting.since_ns of the last wait that was reported */
    uint32_t shown_steps;
    uint64_t shown_notices;
    bool line_open, stopping, forced; /* forced: a second signal ended the run at once */
    char line[256];
};

/* Returns when the trace has ended. */
void headless_run(struct headless *headless, struct source *source, struct run_model *model);

#endif
