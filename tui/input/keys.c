#include "tui/input/keys.h"

#include "engine/base/text_stream.h"

#define INPUT_F(n)            (INPUT_F0 + (n))
#define INPUT_CONTROL(letter) ((letter)&0x1f)

const struct key_row key_table[] = {
#define KEY(code, label, action, argument, modes, footer, help)                                                        \
    {code, label, ACTION_##action, argument, KEY_MODE_##modes, footer, help},
#include "tui/input/keys.def"
#undef KEY
};

const int key_count = sizeof key_table / sizeof key_table[0];

const struct key_row *key_find(uint32_t code, enum key_mode mode)
{
    const struct key_row *found = NULL;
    for (int i = 0; i < key_count; i++) {
        const struct key_row *row = &key_table[i];
        if (row->code == code && row->modes & mode && (!found || row->modes & KEY_MODE_REPLAY)) found = row;
    }
    return found;
}

const struct key_row *key_of_action(enum action action, enum key_mode mode)
{
    for (int i = 0; i < key_count; i++)
        if (key_table[i].action == action && key_table[i].modes & mode) return &key_table[i];
    return NULL;
}

static const char *where(enum key_mode modes)
{
    if (modes == KEY_MODE_CHARTS) return "charts";
    return modes == KEY_MODE_LAB ? "lab" : modes == KEY_MODE_LIVE ? "live" : modes == KEY_MODE_REPLAY ? "replay" : "";
}

char *keys_as_list(void)
{
    static const char *const actions[] = {
#define KEY(code, label, action, argument, modes, footer, help) #action,
#include "tui/input/keys.def"
#undef KEY
    };
    struct text_stream text;
    FILE *out = text_stream_open(&text);
    if (!out) return NULL;
    for (int i = 0; i < key_count; i++) {
        const struct key_row *row = &key_table[i];
        const char *mode = where(row->modes);
        fprintf(out, "%s\t%s\t%s\t%s\n", row->label, *mode ? mode : "always", actions[i],
                row->argument ? row->argument : "");
    }
    return text_stream_close(&text);
}

char *keys_as_markdown(void)
{
    struct text_stream text;
    FILE *out = text_stream_open(&text);
    if (!out) return NULL;
    fputs("| key | where | what |\n|---|---|---|\n", out);
    for (int i = 0; i < key_count; i++)
        fprintf(out, "| `%s` | %s | %s |\n", key_table[i].label, where(key_table[i].modes), key_table[i].help);
    return text_stream_close(&text);
}
