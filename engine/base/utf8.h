/* Characters of UTF-8. Overlong forms and surrogates are not UTF-8, because a lenient terminal could read a control character in them. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Bytes of the character that begins at `at`; 0 if it needs more than `count` bytes; -1 if the bytes are not UTF-8. */
static inline int utf8_length(const char *text, size_t count)
{
    const unsigned char *at = (const unsigned char *)text, first = at[0];
    if (first < 0x80) return 1;
    const int length = first < 0xc2 || first > 0xf4 ? -1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    const unsigned char least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    const unsigned char most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    for (int i = 1; i < length; i++) {
        if ((size_t)i == count) return 0;
        if (at[i] < (i == 1 ? least : 0x80) || at[i] > (i == 1 ? most : 0xbf)) return -1;
    }
    return length;
}

static inline uint32_t utf8_character(const char *text, int length)
{
    const unsigned char *at = (const unsigned char *)text;
    uint32_t character = length == 1 ? at[0] : at[0] & (0x7fu >> length);
    for (int i = 1; i < length; i++) character = character << 6 | (at[i] & 0x3f);
    return character;
}

/* Takes a character and moves *at past it; U+FFFD for a byte that is not UTF-8. */
static inline uint32_t utf8_take(const char **at, const char *end)
{
    const int length = utf8_length(*at, (size_t)(end - *at));
    const uint32_t character = length > 0 ? utf8_character(*at, length) : 0xfffd;
    *at += length > 0 ? length : 1;
    return character;
}
