/* What the subcommands do in the process that the user started: the functions that verbs.def names. Each returns the exit status, and
 * puts into err what went wrong; main() prints it. Where the command has said it itself, the text in err is empty. */
#ifndef ENGINE_CLI_FRONT_H
#define ENGINE_CLI_FRONT_H

#include "engine/cli/cli.h"
#include "tui/app/app.h"

#define VERB(ID, name, operands, least, most, front, operand, help, note) int front_##front(const struct cli *cli, struct error *err);
#include "engine/cli/verbs.def"
#undef VERB

/* Shared by them. */
int front_fail(const struct error *err); /* prints, returns err's status */
int front_end(int status);               /* the last of all: the status, or that of standard output which could not be written, said here */
int front_look(struct app_look *look, const struct cli *cli, struct error *err);
int front_write(const char *path, const char *text, struct error *err); /* NULL or "-": standard output; STATUS_USAGE: it cannot be opened */
int front_write_frame(const char *path, const char *text, struct error *err); /* the same for a frame, whose escape sequences are ours */
int front_give(const char *path, char *text, struct error *err); /* front_write(), then frees the text; NULL: there was no memory for it */
FILE *front_open(const char *path, struct error *err);                   /* the same; NULL: STATUS_USAGE in err */
int front_close(FILE *out, const char *path, struct error *err);
void front_drop(FILE *out); /* instead of front_close(): what stood under the name stays */

#endif
