/* Throws damaged and made-up files at the configuration reader: it must say yes or give one line, never crash, hang or leak
 * (AddressSanitizer builds watch), and what it accepts must survive being written and read again, and be explained.
 *
 * It begins with our own configs/ and with tests/support/config_seeds.h, and damages them in two ways: letter by letter, and as
 * trees, where keys are put in, renamed, moved, doubled and given values that fit or do not. What it does follows from a
 * counter, so a failure comes again. With FUZZ_SECONDS=N in the environment it goes on for so long, with FUZZ_SEED=N in another way. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/advise/knobs.h"
#include "engine/base/clock.h"
#include "engine/base/rng.h"
#include "engine/config/command.h"
#include "engine/config/config.h"
#include "engine/config/hjson.h"
#include "engine/config/keys.h"
#include "tests/support/config_seeds.h"
#include "tests/support/effort.h"

enum { ROOM = 32768, SEEDS_MAX = 100, NODES_MAX = 4096, ROUND_LIMIT_S = 30 };

static const char *const words[] = {
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\\",
    "#",
    "//",
    "/*",
    "*/",
    "\n",
    "null",
    "true",
    "false",
    "\"auto\"",
    "-1",
    "0",
    "1e400",
    "5e8",
    "9223372036854775808",
    "1e-999999999999",
    "0.5",
    "\"256MiB\"",
    "\"\\u0001\"",
    "\"\\u00015\"",
    "\xff",
    "{}",
    "[]",
    "\"none\"",
    "\"x\":",
};

static uint64_t counter, stream = 2; /* FUZZ_SEED=N: another sequence */

static size_t below(size_t limit)
{
    return rng_u64(1, stream, counter++) % limit;
}

/* ---- seeds ---- */

static char *seeds[SEEDS_MAX];
static size_t seed_count;

static void add_file(const char *name)
{
    char path[300], text[ROOM];
    snprintf(path, sizeof path, "configs/%s", name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    text[fread(text, 1, ROOM / 2, file)] = '\0';
    fclose(file);
    if (seed_count < SEEDS_MAX) seeds[seed_count++] = strdup(text);
}

/* In the order of their names, so that a failure comes again. */
static int gather_seeds(void **state)
{
    (void)state;
    struct dirent **names;
    int count = scandir("configs", &names, NULL, alphasort);
    for (int n = 0; n < count; n++) {
        size_t length = strlen(names[n]->d_name);
        if (length > 5 && strcmp(names[n]->d_name + length - 5, ".json") == 0) add_file(names[n]->d_name);
        free(names[n]);
    }
    if (count >= 0) free(names);
    for (size_t s = 0; s < sizeof config_seeds / sizeof *config_seeds; s++)
        if (seed_count < SEEDS_MAX) seeds[seed_count++] = strdup(config_seeds[s]);
    return count > 0 ? 0 : -1;
}

static int free_seeds(void **state)
{
    (void)state;
    while (seed_count > 0) free(seeds[--seed_count]);
    return 0;
}

/* ---- letter by letter ---- */

/* Deletes, overwrites or inserts something somewhere. */
static size_t damage(char *text, size_t length)
{
    size_t at = below(length + 1), count = below(20), kind = below(4);
    if (kind == 0 && at + count <= length) {
        memmove(text + at, text + at + count, length - at - count);
        return length - count;
    }
    if (kind == 1 && at < length) {
        text[at] = (char)below(256);
        return length;
    }
    const char *word =
        kind == 2 ? words[below(sizeof words / sizeof *words)] : config_keys[below((size_t)config_key_count)].path;
    size_t more = strlen(word);
    if (length + more >= ROOM) return length;
    memmove(text + at + more, text + at, length - at);
    memcpy(text + at, word, more);
    return length + more;
}

/* ---- as a tree ---- */

static struct {
    cJSON *node, *parent;
} nodes[NODES_MAX];
static size_t node_count;

static void list_nodes(cJSON *parent)
{
    for (cJSON *node = parent->child; node && node_count < NODES_MAX; node = node->next) {
        nodes[node_count].node = node;
        nodes[node_count++].parent = parent;
        list_nodes(node);
    }
}

static const char *leaf(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot ? dot + 1 : path;
}

static const struct config_key *any_key(void)
{
    return &config_keys[below((size_t)config_key_count)];
}

/* Three of four times one that can be honoured, or much would be refused for the same reason. */
static const struct config_key *likely_key(void)
{
    const struct config_key *key = any_key();
    for (int tries = 0; tries < 3 && key->class != CLASS_HONOURED; tries++) key = any_key();
    return key;
}

/* A value that the key may well take. */
static cJSON *fitting_value(const struct config_key *key)
{
    static const char *const numbers[] = {"0",   "1",   "2",  "3",   "4",    "8",  "16",
                                          "0.5", "0.1", "-1", "5e8", "1e-3", "64", "9223372036854775807"};
    static const char *const texts[] = {"Adam",     "AdamW", "SGD",  "Lion",     "Adagrad", "nano", "micro", "cpu",
                                        "WarmupLR", "none",  "nvme", "OneCycle", "fp32",    "bf16", "auto",  "custom"};
    static const char *const sizes[] = {"\"64MiB\"", "\"1GB\"", "\"20us\"", "\"1ms\"", "0", "4096"};
    char text[64];
    switch (key->type) {
    case KEY_BOOL: return hjson_value(below(2) ? "true" : below(8) ? "false" : "1");
    case KEY_PAIR: return hjson_value(below(2) ? "[0.9, 0.95]" : "[0, 0.999]");
    case KEY_BYTES:
    case KEY_BANDWIDTH:
    case KEY_SECONDS: return hjson_value(sizes[below(sizeof sizes / sizeof *sizes)]);
    case KEY_TEXT: return cJSON_CreateString(texts[below(sizeof texts / sizeof *texts)]);
    case KEY_OBJECT: return hjson_value(below(2) ? "{enabled: true}" : "{enabled: false}");
    case KEY_CHOICE: {
        const char *range = key->range;
        for (size_t skip = below(4); skip > 0 && strchr(range, '|'); skip--) range = strchr(range, '|') + 1;
        snprintf(text, sizeof text, "%.*s", (int)strcspn(range, "|"), range);
        return cJSON_CreateString(text);
    }
    default: return hjson_value(numbers[below(sizeof numbers / sizeof *numbers)]);
    }
}

static cJSON *any_value(void)
{
    return below(2) ? fitting_value(any_key()) : hjson_value(words[below(sizeof words / sizeof *words)]);
}

/* Puts a key with a value where it belongs; a section that is something else is left alone. */
static void put_key(cJSON *tree, const struct config_key *key)
{
    char path[CONFIG_PATH_MAX];
    snprintf(path, sizeof path, "%s", key->path);
    char *part = path;
    for (char *dot; (dot = strchr(part, '.')); part = dot + 1) {
        *dot = '\0';
        cJSON *next = cJSON_GetObjectItemCaseSensitive(tree, part);
        if (!next) next = cJSON_AddObjectToObject(tree, part);
        if (!cJSON_IsObject(next)) return;
        tree = next;
    }
    if (below(16)) cJSON_DeleteItemFromObjectCaseSensitive(tree, part); /* else it may stand there twice */
    cJSON_AddItemToObject(tree, part, below(8) ? fitting_value(key) : any_value());
}

static void rename_node(cJSON *node)
{
    const char *name = below(2) ? leaf(any_key()->path) : any_key()->path;
    if (!node->string) return;
    cJSON_free(node->string);
    node->string = strdup(name);
}

static void nest(cJSON *parent, cJSON *node)
{
    cJSON *deep = any_value();
    for (size_t depth = below(8) ? below(4) : below(1200); depth > 0; depth--) {
        cJSON *outer = below(2) ? cJSON_CreateObject() : cJSON_CreateArray();
        if (cJSON_IsObject(outer)) cJSON_AddItemToObject(outer, leaf(any_key()->path), deep);
        else cJSON_AddItemToArray(outer, deep);
        deep = outer;
    }
    if (!cJSON_ReplaceItemViaPointer(parent, node, deep)) cJSON_Delete(deep);
}

static void change_tree(cJSON *tree)
{
    node_count = 0;
    list_nodes(tree);
    size_t what = below(10);
    if (node_count == 0 || what < 5) {
        put_key(tree, likely_key());
        return;
    }
    size_t at = below(node_count);
    cJSON *node = nodes[at].node, *parent = nodes[at].parent;
    if (what == 5) cJSON_Delete(cJSON_DetachItemViaPointer(parent, node));
    else if (what == 6) rename_node(node);
    else if (what == 7) nest(parent, node);
    else if (what == 8) cJSON_AddItemToObject(tree, leaf(any_key()->path), cJSON_Duplicate(node, true));
    else if (node->string) cJSON_AddItemToObject(parent, node->string, any_value()); /* given twice */
}

/* As people write it: sometimes without quotes, with a comment, with a comma too many. */
static void print_tree(FILE *out, const cJSON *node)
{
    if (cJSON_IsObject(node) || cJSON_IsArray(node)) {
        fputc(cJSON_IsObject(node) ? '{' : '[', out);
        for (const cJSON *child = node->child; child; child = child->next) {
            if (cJSON_IsObject(node)) fprintf(out, below(8) ? "\"%s\": " : "%s : ", child->string ? child->string : "");
            print_tree(out, child);
            if (child->next || !below(16)) fputc(',', out);
            if (!below(32)) fputs(below(2) ? " # so\n" : " /* so */ ", out);
        }
        fputc(cJSON_IsObject(node) ? '}' : ']', out);
    } else if (hjson_number(node)) {
        fputs(hjson_number(node), out);
    } else {
        char *text = cJSON_PrintUnformatted(node);
        fputs(text ? text : "null", out);
        free(text);
    }
}

static size_t grow(char *text, const char *seed)
{
    cJSON *tree;
    if (hjson_parse(&tree, seed, strlen(seed), NULL)) fail_msg("a seed is not Hjson: %s", seed);
    for (size_t times = 1 + below(below(4) ? 2 : 8); times > 0; times--) change_tree(tree);
    FILE *out = fmemopen(text, ROOM, "w");
    print_tree(out, tree);
    long length = ftell(out);
    fclose(out);
    cJSON_Delete(tree);
    return length > 0 && length < ROOM ? (size_t)length : 0;
}

/* ---- what must hold ---- */

static char *path_of(int file)
{
    static char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    return path;
}

static void put_text(int file, const char *text, size_t length)
{
    assert_int_equal(ftruncate(file, 0), 0);
    assert_int_equal(pwrite(file, text, length, 0), length);
}

static void survives_a_round_trip(int file, const struct config *config)
{
    struct config again;
    struct error err;
    char *first = config_to_json(config);
    assert_non_null(first);
    put_text(file, first, strlen(first));
    if (config_load(&again, path_of(file), NULL, 0, &err)) fail_msg("%s\n%s", err.text, first);
    char *second = config_to_json(&again);
    assert_string_equal(first, second);
    free(first), free(second);
    config_release(&again);
}

static void is_one_line(const struct error *err, int status)
{
    assert_int_equal(err->status, status);
    assert_true(status == STATUS_USAGE || status == STATUS_INPUT);
    assert_true(err->text[0] != '\0');
}

/* Plans grow with these; what is tested here is the reader. */
static bool is_small(const struct config *config)
{
    return config->model.layers <= 8 && config->accumulation_steps <= 4 && config->topology.ranks <= 16 &&
           config->model.hidden <= 1024 && config->zero.sub_group_elems >= 50000 &&
           config->zero.allgather_bucket_elems >= 50000;
}

static bool explains(const struct config *config)
{
    struct error err = {.text = ""};
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    int status = explain_print(out, below(2), config, "x", &err);
    fclose(out);
    assert_true(status == STATUS_OK ? length > 1000 : err.text[0] != '\0');
    free(text);
    return status == STATUS_OK;
}

static void damaged_files_are_accepted_or_refused(void **state)
{
    (void)state;
    const char *seconds = getenv("FUZZ_SECONDS"), *sequence = getenv("FUZZ_SEED");
    if (sequence) stream = strtoull(sequence, NULL, 10);
    const uint64_t until_ns = clock_ns() + (seconds ? strtoull(seconds, NULL, 10) : 0) * 1000000000u;
    int file = memfd_create("config", MFD_CLOEXEC), rounds = effort(1000, 1500, 10000);
    long accepted = 0, refused = 0, explained = 0;
    assert_true(file >= 0);
    for (long round = 0; round < rounds || (seconds && clock_ns() < until_ns); round++) {
        char text[ROOM];
        const char *seed = seeds[below(seed_count)];
        size_t length = strlen(seed);
        alarm(ROUND_LIMIT_S); /* one that hangs is killed, and named by the runner */
        if (below(3) == 0) length = (size_t)snprintf(text, ROOM, "%s", seed);
        else length = grow(text, seed);
        if (length == strlen(seed) || below(8) == 0)
            for (size_t times = 1 + below(4); times > 0; times--) length = damage(text, length);
        put_text(file, text, length);
        struct config config;
        struct error err = {.text = ""};
        int status = config_load(&config, path_of(file), NULL, 0, &err);
        if (status) {
            is_one_line(&err, status);
            refused++;
            continue;
        }
        survives_a_round_trip(file, &config);
        if (is_small(&config) && below(16) == 0) explained += explains(&config);
        config_release(&config);
        accepted++;
    }
    alarm(0);
    close(file);
    print_message("# %zu seeds: %ld accepted, %ld of them explained, %ld refused\n", seed_count, accepted, explained,
                  refused);
    assert_true(accepted > rounds / 50 && refused > rounds / 50 && explained > 0); /* all paths were walked */
}

/* Any value for any key, through --set and through the live command. */
static void any_value_for_any_key(void **state)
{
    (void)state;
    for (int k = 0; k < config_key_count; k++)
        for (size_t w = 0; w < sizeof words / sizeof *words; w++) {
            char set[256];
            const char *sets[] = {set};
            struct config config;
            struct error err = {.text = ""};
            snprintf(set, sizeof set, "%s=%s", config_keys[k].path, words[w]);
            int status = config_load(&config, "configs/nano.json", sets, 1, &err);
            if (status) is_one_line(&err, status);
            else config_release(&config);
            assert_int_equal(config_load(&config, "configs/nano.json", NULL, 0, NULL), STATUS_OK);
            config_set(&config, config_keys[k].path, words[w], NULL);
            config_release(&config);
        }
}

static void damaged_commands(void **state)
{
    (void)state;
    static const char line[] = "set zero_optimization.stage=3";
    for (int round = 0; round < 2000; round++) {
        char text[ROOM];
        struct command command;
        struct error err = {.text = ""};
        memcpy(text, line, sizeof line);
        size_t length = damage(text, sizeof line - 1);
        text[length] = '\0';
        int status = command_parse(&command, text, &err);
        if (status) is_one_line(&err, status);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(damaged_files_are_accepted_or_refused),
        cmocka_unit_test(any_value_for_any_key),
        cmocka_unit_test(damaged_commands),
    };
    return cmocka_run_group_tests(tests, gather_seeds, free_seeds);
}
