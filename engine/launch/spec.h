/* What the engine is to do, as the front end tells it: run.json in the run's folder. An engine that is to be started again
 * (relaunch.h) writes it anew for the one that goes on, and beside it back.json: how to go on as before, should that fail. */
#ifndef ENGINE_LAUNCH_SPEC_H
#define ENGINE_LAUNCH_SPEC_H

#include "engine/base/text_list.h"
#include "engine/config/config.h"
#include "engine/launch/rundir.h"

struct run_spec {
    const char *config_path; /* NULL: the built-in default */
    const char *config_text; /* what stands in it, or the configuration of what is resumed; NULL: neither */
    struct text_list sets, at;
    int64_t steps;           /* 0: until stopped */
    int64_t sample_tokens;   /* at the end; 0: none */
    const char *trace;       /* NULL: no file */
    int64_t trace_limit_bytes; /* 0: no limit */
    bool trace_tells;        /* how fast it grows */
    const char *resume;      /* folder of a checkpoint, with its tag, or a file of weights; NULL: from initial values */
    bool weights_only;       /* of it */
    struct text_list own;     /* folders whose checkpoints are this run's (save_claims.h) */
    bool interactive;        /* somebody can send commands: running out of memory waits for them */
    bool detached;           /* goes on without an owner */
    struct {                 /* of a part that is not the first: it goes on where another engine stopped */
        int number;          /* 0: the first */
        int64_t steps_done;
        const char *state;   /* folder of the checkpoint to load, in the run's folder; NULL: none, the initial state */
        struct text_list lines; /* commands that are still to be heard */
        bool paused;
        const char *key, *from; /* what was changed, and from what; NULL: nothing */
        const char *wanted, *failure; /* this is not the part that was asked for: which was that, and why not; NULL: it is */
        uint64_t since_ns;   /* when the command was applied */
    } part;
    void *storage;           /* of what was read; spec_release() */
};

#define SPEC_FILE "run.json"
#define SPEC_BACK_FILE "back.json"

int spec_write(const struct run_spec *spec, const struct rundir *dir, const char *file, struct error *err);
int spec_read(struct run_spec *spec, const struct rundir *dir, const char *file, struct error *err);
/* The configuration that it comes to. */
int spec_load_config(const struct run_spec *spec, struct config *config, struct error *err);
void spec_release(struct run_spec *spec);

#endif
