/* The subcommands in the process that the user started: the functions that verbs.def names. Each returns the exit
 * status and sets err, which main() prints. If the command has already printed the error, the text in err is empty. */
#pragma once

#include "engine/cli/cli.h"
#include "engine/config/config.h"
#include "tui/app/app.h"

#define VERB(ID, name, operands, least, most, front, operand, help, note) int front_##front(const struct cli *cli, struct error *err);
#include "engine/cli/verbs.def"
#undef VERB

/* look.c, for subcommands that read traces: converts operands that another program recorded to a trace in a file without a name,
 * which replaces them. STATUS_INPUT: damaged, of no known format, or several files that are not ranks of one job. */
int front_take_foreign(struct cli *cli, struct error *err);

/* Shared by the subcommands. */
int front_fail(const struct error *err); /* prints, returns err's status */
int front_end(int status);               /* called last: reports a failure of standard output; returns status, or that failure's */
int front_look(struct app_look *look, const struct cli *cli, struct error *err);
/* Writes a text. frame: without the filter of printable.h, which escape sequences and bytes would not pass. path NULL or "-": standard
 * output. STATUS_USAGE: the path cannot be opened. */
int front_write(const char *path, const char *text, bool frame, struct error *err);
int front_give(const char *path, char *text, struct error *err); /* front_write(), then frees text; NULL: out of memory */
/* Writes an answer to -o: as JSON, or as text by its page (engine/base/template.h). Frees `facts`. */
struct cJSON;
int front_answer(const struct cli *cli, const char *page, struct cJSON *facts, struct error *err);
FILE *front_open(const char *path, bool frame, struct error *err); /* path, frame: as front_write(); NULL: STATUS_USAGE in err */
int front_close(FILE *out, const char *path, int status, struct error *err); /* status: that of the writing; an error is returned */
void front_drop(FILE *out); /* instead of front_close(): discards the new file and keeps the old one */

/* Lets a command stop between two pieces of its work, so that it can remove partly written files. SIGINT, SIGTERM and
 * SIGHUP only set a flag of the process; a second signal ends the process at once. */
void interrupt_watch(void);
bool interrupt_asked(void);
void interrupt_end(void); /* after the cleanup: ends the process with the signal that was received; returns if there was none */

/* plan.c: front_load() loads the configuration of CONFIG or --model, with --set and --ranks. front_check_model(): STATUS_USAGE: CONFIG and
 * --model are both given, or `needed` and no model is given. front_print_defaults(): if --set gives some sizes of a model, prints the
 * others, which are those of nano. */
int front_load(struct config *config, const struct cli *cli, struct error *err);
int front_check_model(const struct cli *cli, bool needed, struct error *err);
void front_print_defaults(FILE *out, const struct cli *cli, const struct config *config);
/* attach.c: connects to a run in progress, which `name` gives by its number (NULL: the only one); `watches`: sends no commands. */
struct source;
int front_open_run(struct source **source, const char *name, bool watches, struct error *err);
/* analyze.c: prints what differs between two traces, as text or JSON. STATUS_CHECK: bytes or counts differ. */
int front_difference(const struct cli *cli, const char *const file[2], const char *const name[2], struct error *err);
/* look.c: the options of a frame, and printing it. `compare`: NULL, or the second of two traces. */
int front_frame(const struct cli *cli, const char *file, const struct app_compare *compare, struct error *err);
