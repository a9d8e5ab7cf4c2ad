/* What the screen remembers between runs, as lines of "key = value" in $XDG_CONFIG_HOME/zerolab/settings. Reading and
 * printing are pure. Environment (ZEROLAB_THEME ...) and options of the command line win over the file and are not saved. */
#ifndef TUI_APP_SETTINGS_H
#define TUI_APP_SETTINGS_H

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

/* Changes what the text names. STATUS_USAGE: a line that is not understood (said with its number); all others hold. */
int settings_read(struct settings *settings, const char *text, struct error *err);
void settings_print(const struct settings *settings, char out[SETTINGS_ROOM]);

/* From the file, where there is one. STATUS_USAGE as above, STATUS_INPUT: it cannot be read. */
int settings_load(struct settings *settings, struct error *err);
/* ... from the environment; the same. */
int settings_from_environment(struct settings *settings, struct error *err);
/* Replaces the file in one go; makes its folder. */
int settings_save(const struct settings *settings, struct error *err);

#endif
