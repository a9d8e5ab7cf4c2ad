/* What the engine is to do, as the front end tells it: run.json in the run's folder. */
#ifndef ENGINE_RUN_SPEC_H
#define ENGINE_RUN_SPEC_H

#include "engine/config/config.h"
#include "engine/run/cli.h"
#include "engine/run/rundir.h"

struct run_spec {
    const char *config_path; /* NULL: the built-in default */
    const char *config_text; /* goes before it: the configuration of what is resumed, as JSON; NULL: none */
    struct cli_list sets, at;
    int64_t steps;           /* 0: until stopped */
    int64_t sample_tokens;   /* at the end; 0: none */
    const char *trace;       /* NULL: no file */
    const char *resume;      /* folder of a checkpoint, with its tag; NULL: from initial values */
    bool weights_only;       /* of it */
    bool interactive;        /* somebody can send commands: running out of memory waits for them */
    bool detached;           /* goes on without an owner */
    void *storage;           /* of what was read; spec_release() */
};

int spec_write(const struct run_spec *spec, const struct rundir *dir, struct error *err);
int spec_read(struct run_spec *spec, const struct rundir *dir, struct error *err);
/* The configuration that it comes to. */
int spec_load_config(const struct run_spec *spec, struct config *config, struct error *err);
void spec_release(struct run_spec *spec);

#endif
