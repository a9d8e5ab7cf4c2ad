/* Words that do not fit into a row begin the next one, or are left out. */
#include "tui/draw/paragraph.h"

/* Columns up to the next blank or line break. */
static int word_columns(const char *text)
{
    int columns = 0;
    for (uint32_t character; (character = utf8_next(&text)) && character != ' ' && character != '\n';) columns++;
    return columns;
}

int draw_paragraph(struct canvas canvas, int skip, enum style style, const char *text)
{
    int x = 0, y = 0, width = canvas.at.columns;
    uint32_t character, before = ' ';
    if (width < 1 || !*text) return 0;
    for (const char *at = text; (character = utf8_next(&text)); at = text, before = character) {
        bool breaks =
            before == ' ' && character != ' ' && x > 0 && x + word_columns(at) > width && word_columns(at) <= width;
        if (character == '\n' || breaks || x >= width) {
            x = 0;
            y++;
        }
        if (character == '\n' || (character == ' ' && x == 0 && y > 0 && before != '\n')) continue;
        draw_character(canvas, x++, y - skip, style, character);
    }
    return y + 1;
}

void draw_words(struct canvas canvas, int x, int y, enum style style, const char *text)
{
    const bool cut = x + utf8_columns(text) > canvas.at.columns;
    uint32_t character, before = ' ';
    for (const char *at = text; (character = utf8_next(&text)); at = text, before = character) {
        /* a word that begins here has to leave room for the sign */
        if (cut && before == ' ' && x + word_columns(at) + 2 > canvas.at.columns) break;
        draw_character(canvas, x++, y, style, character);
    }
    if (cut) draw_character(canvas, x, y, style, 0x2026);
}
