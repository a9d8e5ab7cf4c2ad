/* What the subcommands do in the process that the user started. Each returns the exit status; what went wrong has been
 * said on standard error. */
#ifndef ENGINE_CLI_FRONT_H
#define ENGINE_CLI_FRONT_H

#include "engine/cli/cli.h"
#include "tui/app/app.h"

int front_train(const struct cli *cli);  /* zerolab, zerolab train */
int front_attach(const struct cli *cli);
int front_replay(const struct cli *cli);
int front_analyze(const struct cli *cli);
int front_check(const struct cli *cli);
int front_plan(const struct cli *cli);
int front_checkpoint_inspect(const struct cli *cli);
int front_checkpoint_convert(const struct cli *cli); /* and export */
int front_data_encode(const struct cli *cli);
int front_data_info(const struct cli *cli);
int front_doctor(const struct cli *cli);
int front_bench(const struct cli *cli);
int front_lab(const struct cli *cli); /* and all that begins with lab */
int front_class(const struct cli *cli);

/* Shared by them. */
int front_fail(const struct error *err); /* prints, returns err's status */
int front_end(int status);               /* the last of all: the status, or that of standard output which could not be written, said here */
int front_look(struct app_look *look, const struct cli *cli, struct error *err);
int front_write(const char *path, const char *text, struct error *err); /* NULL or "-": standard output; STATUS_USAGE: it cannot be opened */
int front_write_frame(const char *path, const char *text, struct error *err); /* the same for a frame, whose escape sequences are ours */
FILE *front_open(const char *path, struct error *err);                   /* the same; NULL: STATUS_USAGE in err */
int front_close(FILE *out, const char *path, struct error *err);
void front_drop(FILE *out); /* instead of front_close(): what stood under the name stays */

#endif
