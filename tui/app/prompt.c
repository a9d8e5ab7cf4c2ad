#include "tui/input/prompt.h"

#include <string.h>

#include "tui/input/keys.h"

/* The character in UTF-8; returns its bytes. */
static size_t encode(char out[4], uint32_t character)
{
    static const uint8_t lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    size_t count = character < 0x80 ? 1 : character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
    for (size_t i = count; i-- > 1; character >>= 6) out[i] = (char)(0x80 | (character & 0x3f));
    out[0] = (char)(lead[count] | character);
    if (count == 1) out[0] = (char)character;
    return count;
}

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
    char character[4];
    if (*offered && is_character(key)) text[0] = '\0';
    *offered = false;
    if (key == '\r') return PROMPT_TAKEN;
    if (key == INPUT_ESCAPE) return PROMPT_LEFT;
    if (key == INPUT_BACKSPACE) take_last_away(text);
    else if (key == CONTROL_U) text[0] = '\0';
    else if (is_character(key)) {
        size_t length = strlen(text), count = encode(character, key);
        if (length + count < room) memcpy(text + length, character, count), text[length + count] = '\0';
    }
    return PROMPT_GOES_ON;
}
