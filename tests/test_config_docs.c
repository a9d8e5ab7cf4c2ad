/* The table of keys is sound, the documents say what it says, and our own files load. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/config/config.h"
#include "engine/config/keys.h"

static void the_table_is_sound(void **state)
{
    (void)state;
    for (int k = 0; k < config_key_count; k++) {
        assert_int_equal(key_index(config_keys[k].path), k); /* no path twice */
        assert_true(strlen(config_keys[k].path) < 64);
        if (config_keys[k].class == CLASS_ALIAS) {
            int target = key_index(config_keys[k].value);
            assert_true(target < 0 ? key_is_section(config_keys[k].value) : config_keys[target].class != CLASS_ALIAS);
        }
        if (config_keys[k].class == CLASS_HONOURED && config_keys[k].type == KEY_INT)
            assert_true(config_keys[k].range[0] != '\0');
    }
}

/* The tables of configs/README.md, made from config_keys.def. */
static void print_keys(FILE *out)
{
    fprintf(out, "| honoured | default | allowed | live | |\n|---|---|---|---|---|\n");
    for (int k = 0; k < config_key_count; k++) {
        const struct config_key *key = &config_keys[k];
        if (key->class != CLASS_HONOURED) continue;
        bool from_others = strcmp(key->value, "0") == 0 && (key->range[0] == '1' || strcmp(key->range, ">=1") == 0);
        fprintf(out, "| `%s` | %s | ", key->path, from_others ? "" : key->value);
        for (const char *c = key->range; *c; c++) fprintf(out, *c == '|' ? ", " : "%c", *c);
        fprintf(out, " | %s | %s |\n", key->live ? "live" : "", key->text);
    }
    fprintf(out, "\n| refused, except as | | because |\n|---|---|---|\n");
    for (int k = 0; k < config_key_count; k++) {
        const struct config_key *key = &config_keys[k];
        bool one_value = key->class == CLASS_FIXED && strcmp(key->value, "off") != 0;
        if (key->class == CLASS_FIXED || key->class == CLASS_SWITCH)
            fprintf(out, "| `%s` | %.*s | %s |\n", key->path, one_value ? (int)strcspn(key->value, "|") : 3,
                    one_value ? key->value : "off", key->text);
    }
    fprintf(out, "\n| accepted, no effect here | because |\n|---|---|\n");
    for (int k = 0; k < config_key_count; k++)
        if (config_keys[k].class == CLASS_INERT || config_keys[k].class == CLASS_OPAQUE)
            fprintf(out, "| `%s` | %s |\n", config_keys[k].path, config_keys[k].text);
    fprintf(out, "\n| other spelling | of |\n|---|---|\n");
    for (int k = 0; k < config_key_count; k++)
        if (config_keys[k].class == CLASS_ALIAS)
            fprintf(out, "| `%s` | `%s` |\n", config_keys[k].path, config_keys[k].value);
    fprintf(out, "\nDetails of features that are off are accepted in silence:");
    for (int k = 0; k < config_key_count; k++)
        if (config_keys[k].class == CLASS_QUIET) fprintf(out, " `%s`", config_keys[k].path);
    fprintf(out, ".\n");
}

static char *read_whole(const char *file_name)
{
    static char text[1 << 17];
    FILE *file = fopen(file_name, "rb");
    if (!file) fail_msg("%s: not found; tests run from the project's folder", file_name);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

static void the_readme_lists_every_key(void **state)
{
    (void)state;
    static const char begin[] = "ACCEPT=1 make test -->\n", end[] = "<!-- end -->";
    char *made = NULL, *text = read_whole("configs/README.md");
    size_t length;
    FILE *out = open_memstream(&made, &length);
    print_keys(out);
    fclose(out);
    char *first = strstr(text, begin), *last = strstr(text, end);
    assert_non_null(first);
    assert_non_null(last);
    first += sizeof begin - 1;
    bool same = (size_t)(last - first) == length && memcmp(first, made, length) == 0;
    if (!same && getenv("ACCEPT")) {
        FILE *file = fopen("configs/README.md", "wb");
        assert_non_null(file);
        fprintf(file, "%.*s%s%s", (int)(first - text), text, made, last);
        fclose(file);
        same = true;
    }
    free(made);
    if (!same) fail_msg("configs/README.md does not match config_keys.def; ACCEPT=1 make test writes it anew");
}

static void every_config_of_ours_loads(void **state)
{
    (void)state;
    static const struct {
        const char *file;
        int stage;
        const char *model;
    } files[] = {
        {"configs/nano.json", 0, "nano"},          {"configs/nano-stage1.json", 1, "nano"},
        {"configs/nano-stage2.json", 2, "nano"},   {"configs/nano-stage3.json", 3, "nano"},
        {"configs/nano-paced.json", 3, "nano"},    {"configs/nano-fp16.json", 2, "nano"},
        {"configs/nano-onecycle.json", 1, "nano"}, {"configs/micro.json", 1, "micro"},
        {"configs/gpt2.json", 3, "gpt2"},          {"configs/gpt2-bf16.json", 3, "gpt2"},
        {"configs/auto.json", 3, "nano"},
    };
    for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
        struct config config;
        struct error err;
        if (config_load(&config, files[f].file, NULL, 0, &err)) fail_msg("%s", err.text);
        assert_int_equal(config.zero.stage, files[f].stage);
        assert_string_equal(config.model.name, files[f].model);
        assert_int_equal(config.topology.ranks, 4);
        int64_t h = config.model.hidden, block = 12 * h * h + 13 * h;
        if (strcmp(files[f].file, "configs/auto.json") != 0)
            assert_true(config.zero.reduce_bucket_elems == block && config.zero.prefetch_bucket_elems == block);
        config_release(&config);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_is_sound),
        cmocka_unit_test(the_readme_lists_every_key),
        cmocka_unit_test(every_config_of_ours_loads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
