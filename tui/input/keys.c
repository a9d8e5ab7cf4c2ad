/* The table of keys and what is made from it. */
#include "tui/input/keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INPUT_F(n) (INPUT_F0 + (n))
#define INPUT_CONTROL(letter) ((letter) & 0x1f)

const struct key_row key_table[] = {
#define KEY(code, label, action, argument, modes, footer, help) \
    {code, label, ACTION_##action, argument, KEY_MODE_##modes, footer, help},
#include "tui/input/keys.def"
#undef KEY
};

const int key_count = sizeof key_table / sizeof key_table[0];

const struct key_row *key_find(uint32_t code, enum key_mode mode)
{
    for (int i = 0; i < key_count; i++)
        if (key_table[i].code == code && key_table[i].modes & mode) return &key_table[i];
    return NULL;
}

static const char *where(enum key_mode modes)
{
    return modes == KEY_MODE_LIVE ? "live" : modes == KEY_MODE_REPLAY ? "replay" : "";
}

static char *write_table(const char *head, const char *format)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    if (!out) return NULL;
    fputs(head, out);
    for (int i = 0; i < key_count; i++) fprintf(out, format, key_table[i].label, where(key_table[i].modes), key_table[i].help);
    if (fclose(out) == 0) return text;
    free(text);
    return NULL;
}

#pragma GCC diagnostic ignored "-Wformat-nonliteral"

char *keys_as_text(void)
{
    return write_table("", "  %-9s  %-6s  %s\n");
}

char *keys_as_markdown(void)
{
    return write_table("| key | where | what |\n|---|---|---|\n", "| `%s` | %s | %s |\n");
}
