#include "engine/config/command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/nearest.h"
#include "engine/config/config.h"

const struct command_info command_table[COMMANDS] = {
#define COMMAND(ID, name, argument, class, help) [COMMAND_##ID] = {name, argument, COMMAND_CLASS_##class, help},
#include "engine/config/commands.def"
#undef COMMAND
};

enum command_class command_class(const struct command *command)
{
    bool restarts = command->id == COMMAND_SET && config_restarts(command->key);
    return restarts ? COMMAND_CLASS_RESTART : command_table[command->id].class;
}

static int unknown(const char *name, struct error *err)
{
    const char *names[COMMANDS];
    for (int c = 0; c < COMMANDS; c++) names[c] = command_table[c].name;
    const char *near = nearest_name(name, names, COMMANDS);
    if (near) return error_set(err, STATUS_USAGE, "%.40s: unknown command; did you mean %s?", name, near);
    return error_set(
        err, STATUS_USAGE,
        "%.40s: unknown command; there are stage=N, ranks=N, set KEY=VALUE, budget=BYTES, "
        "fault=KIND RANK, pause, resume, toggle, step, op=COUNT, sample=TOKENS, validate, checkpoint=TAG, stop",
        name);
}

/* A positive whole number that fits an int64, and nothing after it. */
static int read_count(const char *text, int64_t *count, const char *what, struct error *err)
{
    char *end;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end || value < 1 || value > 1000000000000)
        return error_set(err, STATUS_USAGE, "%s must be a number from 1: \"%.40s\"", what, text);
    *count = value;
    return STATUS_OK;
}

/* Tries "KEY=VALUE" on a separate configuration, so that a typo is refused when it is typed and not at step 500. A key
 * that needs a relaunch is checked by its own row only; the relaunch checks it together with other keys. */
static int read_set(struct command *command, const char *argument, struct error *err)
{
    const char *equals = strchr(argument, '=');
    size_t key = equals ? (size_t)(equals - argument) : 0;
    char path[CONFIG_PATH_MAX];
    if (!equals || key == 0) return error_set(err, STATUS_USAGE, "set: must be followed by KEY=VALUE");
    if (key >= sizeof command->key || strlen(equals + 1) >= sizeof command->value)
        return error_set(err, STATUS_USAGE, "set: too long");
    memcpy(command->key, argument, key);
    strcpy(command->value, equals + 1);
    config_path(path, command->key);
    snprintf(command->key, sizeof command->key, "%.95s", path);
    struct config scratch;
    int status = config_load(&scratch, NULL, NULL, 0, err);
    if (status) return status;
    /* The run checks whether the value fits the other keys. */
    if (command_class(command) == COMMAND_CLASS_RESTART || config_is_live(command->key))
        status = config_try(&scratch, command->key, command->value, err);
    else status = config_set(&scratch, command->key, command->value, err);
    config_release(&scratch);
    return status;
}

int command_check_tag(const char *tag, struct error *err)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    if (*tag && *tag != '.' && strlen(tag) < COMMAND_TAG_BYTES && tag[strspn(tag, letters)] == '\0' &&
        strcmp(tag, "latest") != 0)
        return STATUS_OK;
    return error_set(err, STATUS_USAGE,
                     "\"%.80s\" cannot name a checkpoint; use at most %d letters, digits, - _ . and not \"latest\"",
                     tag, COMMAND_TAG_BYTES - 1);
}

static int read_ranks(const char *argument, struct error *err)
{
    struct config scratch = {0};
    const int status = config_try(&scratch, "topology.ranks", argument, err);
    return status || config_check_run(&scratch, err) ? error_prefix(err, "ranks") : STATUS_OK;
}

const char *fault_name(enum fault fault)
{
    static const char *const names[FAULTS] = {"none", "held", "nan", "short"};
    return names[fault];
}

enum fault command_fault(const struct command *command, int *rank)
{
    char kind[8] = "", more;
    *rank = -1;
    const int read = command->id == COMMAND_FAULT ? sscanf(command->value, "%7s %d %c", kind, rank, &more) : 0;
    for (enum fault fault = FAULT_NONE; fault < FAULTS; fault++)
        if (read == (fault ? 2 : 1) && strcmp(kind, fault_name(fault)) == 0 && (!fault || *rank >= 0)) return fault;
    return FAULTS;
}

static int read_fault(const struct command *command, struct error *err)
{
    int rank;
    if (command_fault(command, &rank) < FAULTS) return STATUS_OK;
    return error_set(err, STATUS_USAGE, "fault=%.40s: must be held, nan or short and the number of a rank, or none",
                     command->value);
}

static int read_argument(struct command *command, const char *argument, struct error *err)
{
    const struct command_info *info = &command_table[command->id];
    uint64_t bytes;
    int64_t count;
    if (!info->argument)
        return *argument ? error_set(err, STATUS_USAGE, "%s takes no argument: \"%.40s\"", info->name, argument)
                         : STATUS_OK;
    if (!*argument && command->id == COMMAND_OP) argument = "1";
    if (!*argument && command->id == COMMAND_CHECKPOINT) return STATUS_OK;
    if (!*argument)
        return error_set(err, STATUS_USAGE, "%s needs an argument: %s=%s", info->name, info->name, info->argument);
    if (command->id == COMMAND_SET) return read_set(command, argument, err);
    if (strlen(argument) >= sizeof command->value)
        return error_set(err, STATUS_USAGE, "%s: argument too long", info->name);
    strcpy(command->value, argument);
    switch (command->id) {
    case COMMAND_STAGE:
        return strlen(argument) == 1 && strchr("0123", *argument)
                   ? STATUS_OK
                   : error_set(err, STATUS_USAGE, "stage=%.20s: must be 0, 1, 2 or 3", argument);
    case COMMAND_CHECKPOINT: return command_check_tag(argument, err);
    case COMMAND_FAULT: return read_fault(command, err);
    case COMMAND_RANKS: return read_ranks(argument, err);
    case COMMAND_BUDGET: return config_parse_bytes(argument, &bytes, err) ? error_prefix(err, "budget") : STATUS_OK;
    default: return read_count(argument, &count, info->name, err);
    }
}

int command_parse(struct command *command, const char *line, struct error *err)
{
    char text[sizeof command->key + sizeof command->value + 16];
    *command = (struct command){.id = COMMANDS};
    line += strspn(line, " \t\n");
    size_t length = strlen(line);
    while (length && strchr(" \t\n", line[length - 1])) length--;
    if (length == 0) return error_set(err, STATUS_USAGE, "empty command");
    if (length >= sizeof text) return error_set(err, STATUS_USAGE, "%.40s...: command too long", line);
    memcpy(text, line, length);
    text[length] = '\0';
    char *argument = text + strcspn(text, "= \t");
    if (*argument) *argument++ = '\0';
    argument += strspn(argument, " \t");
    for (int c = 0; c < COMMANDS; c++)
        if (strcmp(command_table[c].name, text) == 0) command->id = (enum command_id)c;
    return command->id == COMMANDS ? unknown(text, err) : read_argument(command, argument, err);
}

int command_stage(const char *line)
{
    static const char begin[] = "stage=";
    if (strncmp(line, begin, sizeof begin - 1) != 0) return -1;
    const char *digit = line + sizeof begin - 1;
    return *digit >= '0' && *digit <= '3' && !digit[1] ? *digit - '0' : -1;
}

int command_parse_at(const char *text, int64_t *step, struct command *command, struct error *err)
{
    const char *colon = strchr(text, ':');
    char when[24];
    if (!colon || colon - text >= (int)sizeof when)
        return error_set(err, STATUS_USAGE, "\"%.60s\": must be STEP:COMMAND or oom:COMMAND, as in 5:stage=1", text);
    snprintf(when, sizeof when, "%.*s", (int)(colon - text), text);
    *step = -1;
    int status = strcmp(when, "oom") == 0 ? STATUS_OK : read_count(when, step, "the step", err);
    if (!status) status = command_parse(command, colon + 1, err);
    return status ? error_prefix(err, "--at %.60s", text) : STATUS_OK;
}

void command_format(const struct command *command, char *line, int room)
{
    const struct command_info *info = &command_table[command->id];
    if (command->id == COMMAND_SET) snprintf(line, (size_t)room, "set %s=%s", command->key, command->value);
    else if (info->argument && *command->value) snprintf(line, (size_t)room, "%s=%s", info->name, command->value);
    else snprintf(line, (size_t)room, "%s", info->name);
}
