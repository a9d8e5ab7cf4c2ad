#include "tui/app/prompt.h"

#include <string.h>

#include "tui/draw/output.h"
#include "tui/input/keys.h"

static void take_last_away(char *text)
{
    size_t length = strlen(text);
    while (length && ((unsigned char)text[length - 1] & 0xc0) == 0x80) length--;
    if (length) text[length - 1] = '\0';
}

static bool is_character(uint32_t key)
{
    bool surrogate = key >= 0xd800 && key < 0xe000;
    return key >= ' ' && key != 127 && !(key >= 0x80 && key < 0xa0) && key < INPUT_SPECIAL && !surrogate;
}

enum prompt_answer prompt_type(char *text, size_t room, uint32_t key, bool *offered)
{
    enum { CONTROL_U = 'u' & 0x1f };
    char character[5];
    if (*offered && is_character(key)) text[0] = '\0';
    *offered = false;
    if (key == '\r') return PROMPT_TAKEN;
    if (key == INPUT_ESCAPE) return PROMPT_LEFT;
    if (key == INPUT_BACKSPACE) take_last_away(text);
    else if (key == CONTROL_U) text[0] = '\0';
    else if (is_character(key)) {
        utf8_encode(character, key);
        if (strlen(text) + strlen(character) < room) strcat(text, character);
    }
    return PROMPT_GOES_ON;
}
