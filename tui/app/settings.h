/* Settings of the screen that are kept between runs: lines "key = value" in $XDG_CONFIG_HOME/zerolab/settings.
 * Reading and printing are pure. Environment (ZEROLAB_THEME ...) and command-line options override the file and are
 * not saved. */
#pragma once

#include <stdbool.h>

#include "engine/base/error.h"
#include "tui/draw/format.h"
#include "tui/draw/style.h"

struct settings {
    enum theme theme;
    enum units units;
    bool ascii, mouse, bars_now;
};

enum { SETTINGS_ROOM = 512 };

struct settings settings_default(void);

/* Sets what the text names. STATUS_USAGE: a line is malformed (err names its number); the other lines are applied. */
int settings_read(struct settings *settings, const char *text, struct error *err);
void settings_print(const struct settings *settings, char out[SETTINGS_ROOM]);

/* Reads the file, if there is one. STATUS_USAGE as above; STATUS_INPUT: the file cannot be read. */
int settings_load(struct settings *settings, struct error *err);
/* Reads the environment; errors as above. */
int settings_from_environment(struct settings *settings, struct error *err);
/* Replaces the file atomically; makes its folder if needed. */
int settings_save(const struct settings *settings, struct error *err);
