/* The table of keys is sound, the documents say what it says, and our own files load. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/advise/differences.h"
#include "engine/advise/knobs.h"
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
            assert_non_null(strstr(config_keys[k].range, "..")); /* both ends: it is kept in an int */
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

/* The key that a row of docs/KNOBS.md is about: its first name, with or without "zero_optimization.". NULL: it is no row. */
static const struct config_key *key_of_row(const char *line)
{
    char path[CONFIG_PATH_MAX];
    if (strncmp(line, "| `", 3) != 0) return NULL;
    int length = (int)strcspn(line + 3, "`\n");
    snprintf(path, sizeof path, "%.*s", length, line + 3);
    if (key_index(path) < 0) snprintf(path, sizeof path, "zero_optimization.%.*s", length, line + 3);
    return key_index(path) < 0 ? NULL : &config_keys[key_index(path)];
}

static int columns_of(const char *line)
{
    int bars = 0;
    for (; *line && *line != '\n'; line++) bars += *line == '|';
    return bars - 1;
}

#define TABLE_BEGIN "<!-- engine/advise/differences.def -->\n"
#define TABLE_END   "<!-- end -->\n"

static void print_differences(FILE *out)
{
    fprintf(
        out, TABLE_BEGIN
        "| name | subject | zerolab | DeepSpeed | its source | FSDP2 | its source |\n|---|---|---|---|---|---|---|\n");
    for (int d = 0; d < difference_count; d++) {
        const struct difference *row = &differences[d];
        if (row->name)
            fprintf(out, "| `%s` | %s | %s | %s | %s | %s | %s |\n", row->name, row->subject, row->here, row->deepspeed,
                    row->deepspeed_source, row->fsdp2, row->fsdp2_source);
    }
    fputs(TABLE_END, out);
}

/* The page with the last of the five columns of its first table, and the table of differences, taken from differences.def. */
static void print_knobs(FILE *out, const char *page)
{
    bool knobs = false; /* within the first table */
    for (const char *line = page, *next; *line; line = next) {
        size_t length = strcspn(line, "\n");
        next = line + length + (line[length] == '\n');
        knobs = line[0] == '|' && (knobs || (!strncmp(line, "| knob |", 8) && columns_of(line) == 5));
        if (!strncmp(line, TABLE_BEGIN, strlen(TABLE_BEGIN))) {
            const char *end = strstr(line, TABLE_END);
            assert_non_null(end);
            print_differences(out);
            next = end + strlen(TABLE_END);
            continue;
        }
        const struct config_key *key = knobs ? key_of_row(line) : NULL;
        if (knobs && line[0] == '|' && columns_of(line) != 5)
            fail_msg("a knob without the fifth cell: %.*s", (int)length, line);
        if (key) {
            const struct difference *row = difference_of_key(key->path);
            size_t last = length - 1; /* the bar before the last cell */
            while (line[last - 1] != '|') last--;
            fprintf(out, "%.*s%s%s |\n", (int)last, line, row ? " " : "", row ? row->deepspeed : "");
        } else {
            fprintf(out, "%.*s", (int)(next - line), line);
        }
    }
}

static void the_knobs_page_says_what_deepspeeds_code_does(void **state)
{
    (void)state;
    char *made = NULL, *page = read_whole("docs/KNOBS.md");
    size_t length;
    FILE *out = open_memstream(&made, &length);
    print_knobs(out, page);
    fclose(out);
    bool same = strcmp(page, made) == 0;
    if (!same && getenv("ACCEPT")) {
        FILE *file = fopen("docs/KNOBS.md", "wb");
        assert_non_null(file);
        fputs(made, file);
        fclose(file);
        same = true;
    }
    free(made);
    if (!same) fail_msg("docs/KNOBS.md does not match differences.def; ACCEPT=1 make test writes it anew");
}

/* Each is in the table of configs/README.md, is scaled to its model, and explains. */
static void is_ours(const char *name, const char *readme)
{
    char path[300], row[300];
    struct config config;
    struct error err;
    snprintf(path, sizeof path, "configs/%s", name);
    snprintf(row, sizeof row, "`%s`", name);
    if (!strstr(readme, row)) fail_msg("configs/README.md lacks %s", row);
    if (config_load(&config, path, NULL, 0, &err)) fail_msg("%s", err.text);
    assert_int_equal(config.topology.ranks, 4);
    int64_t h = config.model.hidden, block = 12 * h * h + 13 * h;
    if (strcmp(name, "auto.json") != 0)
        assert_true(config.zero.reduce_bucket_elems == block && config.zero.prefetch_bucket_elems == block);
    FILE *nowhere = fopen("/dev/null", "w");
    if (explain_print(nowhere, false, &config, path, &err)) fail_msg("%s", err.text);
    fclose(nowhere);
    config_release(&config);
}

static void every_config_of_ours_loads_and_explains(void **state)
{
    (void)state;
    struct dirent **names;
    int count = scandir("configs", &names, NULL, alphasort), files = 0;
    const char *readme = read_whole("configs/README.md");
    assert_true(count > 0);
    for (int n = 0; n < count; n++) {
        size_t length = strlen(names[n]->d_name);
        if (length > 5 && strcmp(names[n]->d_name + length - 5, ".json") == 0)
            is_ours(names[n]->d_name, readme), files++;
        free(names[n]);
    }
    free(names);
    assert_true(files >= 18);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_is_sound),
        cmocka_unit_test(the_readme_lists_every_key),
        cmocka_unit_test(the_knobs_page_says_what_deepspeeds_code_does),
        cmocka_unit_test(every_config_of_ours_loads_and_explains),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
