/* The order of the front end to the engine: run.json in the run's folder. Before a relaunch (relaunch.h) the engine
 * replaces it with the order for the next engine, and writes back.json: how to continue unchanged if that engine
 * cannot start. */
#pragma once

#include "engine/base/text_list.h"
#include "engine/config/config.h"
#include "engine/launch/rundir.h"

struct run_spec {
    const char *config_path; /* NULL: the built-in default */
    const char *config_text; /* its content, that of ZEROLAB_CONFIG, or what `resume` saved; NULL: none */
    struct text_list sets, at;
    int64_t steps;           /* 0: until stopped */
    int64_t sample_tokens;   /* tokens to sample at the end; 0: none */
    const char *trace;       /* path of the trace file; NULL: no file */
    int64_t trace_limit_bytes; /* 0: no limit */
    bool trace_tells;        /* the log says how fast the trace grows */
    const char *resume;      /* folder of a checkpoint, with its tag, or a file of weights; NULL: from initial values */
    bool weights_only;       /* take only the weights of `resume` */
    struct text_list own;     /* folders whose checkpoints are this run's (save_claims.h) */
    bool interactive;        /* a viewer can send commands: when memory runs out, the run waits for one */
    bool detached;           /* the run continues without an owner */
    const char *hosts, *agent; /* where mpirun starts the ranks ("a:2,b:2"; NULL: on this machine), and with which program in place of
                                  ssh (NULL: ssh) */
    bool external;           /* another launcher has started the ranks */
    struct {                 /* for a part after the first, which continues where another engine stopped */
        int number;          /* 0: the first */
        int64_t steps_done;
        const char *state;   /* folder of the checkpoint to load, in the run's folder; NULL: none, the initial state */
        struct text_list lines; /* commands received but not applied yet */
        bool paused;
        const char *key, *from; /* the key that was changed, and its old value; NULL: none */
        const char *wanted, *failure; /* after a failed relaunch: the "KEY=VALUE" that failed, and why; NULL: none has failed */
        uint64_t since_ns;   /* when the command was applied */
    } part;
    void *storage;           /* owns the texts that spec_read() read; spec_release() */
};

#define SPEC_FILE "run.json"
#define SPEC_BACK_FILE "back.json"

int spec_write(const struct run_spec *spec, const struct rundir *dir, const char *file, struct error *err);
/* spec_text(): the spec as text, which the caller frees; NULL: no memory. spec_parse(): STATUS_RUN if the text is no spec. */
char *spec_text(const struct run_spec *spec);
int spec_parse(struct run_spec *spec, const char *text, struct error *err);
int spec_read(struct run_spec *spec, const struct rundir *dir, const char *file, struct error *err);
/* Loads config_text, or the file config_path, and applies `sets`. */
int spec_load_config(const struct run_spec *spec, struct config *config, struct error *err);
void spec_release(struct run_spec *spec);
