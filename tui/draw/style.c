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
static const struct {
    uint8_t dark, light; /* 0: none */
    struct look look[THEMES];
} styles[STYLES] = {
#define STYLE(ID, dark, light, ...) [STYLE_##ID] = {dark, light, {__VA_ARGS__}},
#include "tui/draw/styles.def"
#undef STYLE
};

static const char *const names[THEMES] = {"default", "light", "projector", "mono"};

struct look style_look(enum theme theme, enum depth depth, enum style style)
{
    struct look look = styles[style].look[theme];
    const uint8_t colour = theme == THEME_LIGHT ? styles[style].light : styles[style].dark;
    if (depth == DEPTH_16 || theme == THEME_MONO || !colour) return look;
    if (look.background == COLOUR_DEFAULT) return (struct look){colour, COLOUR_DEFAULT, look.attributes};
    return (struct look){colour_ink(colour), colour, look.attributes};
}

uint32_t colour_rgb(uint8_t colour)
{
    static const uint8_t levels[] = {0, 95, 135, 175, 215, 255};
    const uint32_t of = colour - 16u, grey = 8 + 10 * (colour - 232u);
    if (colour >= 232) return grey << 16 | grey << 8 | grey;
    return (uint32_t)levels[of / 36] << 16 | (uint32_t)levels[of / 6 % 6] << 8 | levels[of % 6];
}

uint8_t colour_ink(uint8_t colour)
{
    enum { BLACK = 16, WHITE = 231, BRIGHT = 1950 }; /* BRIGHT: of 10,000, where black begins to be read better */
    if (colour < 16) return colour == 0 || colour == 4 || colour == 5 || colour == 8 || colour == 9 ? 15 : 0;
    const uint32_t rgb = colour_rgb(colour), red = rgb >> 16, green = rgb >> 8 & 255, blue = rgb & 255;
    const uint32_t luminance = (2126 * red * red + 7152 * green * green + 722 * blue * blue) / (255 * 255);
    return luminance < BRIGHT ? WHITE : BLACK;
}

uint32_t theme_ground(enum theme theme)
{
    return theme == THEME_LIGHT || theme == THEME_MONO ? 0xffffff : 0x16191d;
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

const char *theme_names(void)
{
    return "default light projector mono";
}
