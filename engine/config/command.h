/* Commands that keys, --at, labs and the socket send to a running engine. The table commands.def gives name, argument,
 * class and help. A command is a line of text: "stage=3", "pause", "set zero_optimization.reduce_bucket_size=5e5". */
#pragma once

#include <stdint.h>

#include "engine/base/error.h"

enum command_id {
#define COMMAND(ID, name, argument, class, help) COMMAND_##ID,
#include "engine/config/commands.def"
#undef COMMAND
    COMMANDS
};

enum command_class { COMMAND_CLASS_LIVE, COMMAND_CLASS_RESTART, COMMAND_CLASS_TIME, COMMAND_CLASS_CONTROL };

struct command {
    enum command_id id;
    char key[96];   /* of `set` */
    char value[160];
};

struct command_info { const char *name, *argument; enum command_class class; const char *help; };
extern const struct command_info command_table[COMMANDS];

/* Parses a line. STATUS_USAGE: an unknown command (the text names the nearest one) or a wrong argument. */
int command_parse(struct command *command, const char *line, struct error *err);

/* The stage that a line switches to; -1: the line does something else. */
int command_stage(const char *line);

/* Parses an --at argument: "5:stage=1" or "oom:stage=3" (*step = -1). */
int command_parse_at(const char *text, int64_t *step, struct command *command, struct error *err);

/* The class of a command. For `set` it depends on the key: if the key is not live, the class is RESTART. */
enum command_class command_class(const struct command *command);

/* A fault that is injected into one rank. FAULT_HELD acts at once, also within a step, and so does FAULT_NONE, which releases a held
 * rank. FAULT_NAN acts in the next training step, FAULT_SHORT in all steps until FAULT_NONE. FAULTS: the command injects none. */
enum fault { FAULT_NONE, FAULT_HELD, FAULT_NAN, FAULT_SHORT, FAULTS };
enum fault command_fault(const struct command *command, int *rank); /* *rank: -1 for FAULT_NONE */
const char *fault_name(enum fault fault);

/* The line that command_parse() would read back. */
void command_format(const struct command *command, char *line, int room);

/* Checks that a name can be a checkpoint's tag: letters, digits, - _ . and no dot first. STATUS_USAGE: it cannot. */
enum { COMMAND_TAG_BYTES = 64 };
int command_check_tag(const char *tag, struct error *err);
