/* The table of looks. */
#include "tui/draw/style.h"

#include <string.h>

#define L(foreground, background, attributes)                                                                          \
    {                                                                                                                  \
        foreground, background, attributes                                                                             \
    }
#define D         COLOUR_DEFAULT
#define BOLD      ATTRIBUTE_BOLD
#define UNDERLINE ATTRIBUTE_UNDERLINE
#define REVERSE   ATTRIBUTE_REVERSE
static const struct look looks[STYLES][THEMES] = {
#define STYLE(ID, ...) [STYLE_##ID] = {__VA_ARGS__},
#include "tui/draw/styles.def"
#undef STYLE
};

static const char *const names[THEMES] = {"default", "light", "projector", "mono"};

struct look style_look(enum theme theme, enum style style)
{
    return looks[style][theme];
}

bool same_look(struct look a, struct look b)
{
    return a.foreground == b.foreground && a.background == b.background && a.attributes == b.attributes;
}

const char *theme_name(enum theme theme)
{
    return names[theme];
}

int theme_named(const char *name)
{
    for (int theme = 0; theme < THEMES; theme++)
        if (!strcmp(name, names[theme])) return theme;
    return -1;
}
