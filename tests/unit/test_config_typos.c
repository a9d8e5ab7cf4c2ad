/* A mistyped key is refused and the right one named: for every key of the table, and every letter of it. */
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
#include "tests/support/config_fixture.h"

static void a_typo_is_refused_with_the_nearest_key(void **state)
{
    (void)state;
    refused("{" BATCH "\"zero_optimisation\": {\"stage\": 1}}", NULL, STATUS_USAGE, "did you mean zero_optimization?");
    refused("{" BATCH "\"zero_optimization\": {\"stge\": 1}}", NULL, STATUS_USAGE,
            "did you mean zero_optimization.stage?");
    refused("{" BATCH "\"optimizer\": {\"params\": {\"lrr\": 1}}}", NULL, STATUS_USAGE,
            "did you mean optimizer.params.lr?");
    refused("{" BATCH "\"reduce_bucket_size\": 5}", NULL, STATUS_USAGE,
            "did you mean zero_optimization.reduce_bucket_size?");
    refused("{" BATCH "\"zero_optimization\": {\"grad_hooks\": true}}", NULL, STATUS_USAGE,
            "zero_optimization.grad_hooks: unknown key");
    refused("{" BATCH "\"model\": {\"name\": \"gtp2\"}}", NULL, STATUS_USAGE,
            "did you mean gpt2? zerolab plan --model list");
    refused("{" BATCH "\"model\": {\"name\": \"resnet\"}}", NULL, STATUS_USAGE,
            "no such model; zerolab plan --model list");
    refused("{" BATCH "}", "topology.rank=2", STATUS_USAGE, "did you mean topology.ranks?");
}

/* ---- every key ---- */

enum { CHANGES = 4 };

/* The name with letter `at` left out, doubled, swapped with the next, or another; false: that is no change. */
static bool mistype(char *out, const char *name, size_t at, int change)
{
    size_t length = strlen(name);
    strcpy(out, name);
    switch (change) {
    case 0: memmove(out + at, out + at + 1, length - at); return length > 1;
    case 1: memmove(out + at + 1, out + at, length - at + 1); return true;
    case 2: out[at] = name[at + 1], out[at + 1] = name[at]; return at + 1 < length && name[at] != name[at + 1];
    default: out[at] = name[at] == '_' ? '-' : name[at] == 'z' ? 'a' : (char)(name[at] + 1); return true;
    }
}

/* Whether "did you mean" is followed by `path` among others. */
static bool suggests(const char *text, const char *path)
{
    const char *list = strstr(text, "did you mean ");
    size_t length = strlen(path);
    for (const char *at = list; at && (at = strstr(at, path)); at += length)
        if (at[-1] == ' ' && (at[length] == ',' || at[length] == '?' || at[length] == ' ')) return true;
    return false;
}

static int suggested, other_keys;

/* `path` with each letter of its last name changed in each way. */
static void mistype_name(const char *path)
{
    size_t parent = strrchr(path, '.') ? (size_t)(strrchr(path, '.') + 1 - path) : 0;
    for (size_t at = 0; path[parent + at]; at++)
        for (int change = 0; change < CHANGES; change++) {
            char typed[CONFIG_PATH_MAX];
            struct error err = {.text = ""};
            memcpy(typed, path, parent);
            if (!mistype(typed + parent, path + parent, at, change)) continue;
            if (key_index(typed) >= 0 || key_is_section(typed)) { /* it is another key */
                other_keys++;
                continue;
            }
            assert_int_equal(key_unknown(typed, &err), STATUS_USAGE);
            if (!suggests(err.text, path)) fail_msg("%s is not suggested: %s", path, err.text);
            suggested++;
        }
}

/* Every name at every level: a key is mistyped in each of the sections that lead to it as well, once for each section. */
static void every_mistyped_key_is_found(void **state)
{
    (void)state;
    for (int k = 0; k < config_key_count; k++)
        for (const char *end = config_keys[k].path; *end;) {
            char path[CONFIG_PATH_MAX];
            end += strcspn(end, ".");
            size_t length = (size_t)(end - config_keys[k].path);
            snprintf(path, sizeof path, "%.*s", (int)length, config_keys[k].path);
            bool done = false;
            for (int before = 0; before < k && !done; before++)
                done = !strncmp(config_keys[before].path, path, length) &&
                       (config_keys[before].path[length] == '.' || config_keys[before].path[length] == '\0');
            if (!done) mistype_name(path);
            end += *end == '.';
        }
    print_message("# %d mistyped names, each answered with the right one; %d are other keys\n", suggested, other_keys);
    assert_true(suggested > 10000);
}

/* What is meant in the file is found from the file. */
static void the_file_says_so_too(void **state)
{
    (void)state;
    refused("{" BATCH "\"f16\": {\"enabled\": true}}", NULL, STATUS_USAGE, "did you mean bf16 or fp16?");
    refused("{" BATCH "\"optimizer\": {\"param\": {\"lr\": 1}}}", NULL, STATUS_USAGE, "did you mean optimizer.params?");
    refused("{" BATCH "\"flops_profiler\": {\"step\": 3}}", NULL, STATUS_USAGE, "flops_profiler.profile_step?");
    refused("{" BATCH "\"lr\": 1}", NULL, STATUS_USAGE, "did you mean optimizer.params.lr?");
    refused("{" BATCH "\"pin_memory\": true}", NULL, STATUS_USAGE,
            "zero_optimization.offload_optimizer.pin_memory or zero_optimization.offload_param.pin_memory");
    refused("{" BATCH "\"cuda_visible_devices\": \"0\"}", NULL, STATUS_USAGE, "DeepSpeed passes over in silence");
    refused("{" BATCH "\"optimizer\": {\"type\": \"OneBitAdam\", \"params\": {\"freeze_step\": 9}}}", NULL,
            STATUS_USAGE, "1-bit compression");
    refused("{" BATCH "\"data_efficiency\": {\"enabled\": true}}", NULL, STATUS_USAGE,
            "data_efficiency.enabled = true");
}

/* A key or section that stands at the top names its place, whatever it is nearest to there. */
static void every_key_at_the_top_names_its_place(void **state)
{
    (void)state;
    int moved = 0;
    for (int k = 0; k < config_key_count; k++) {
        struct error err = {.text = ""};
        const char *leaf = key_leaf(config_keys[k].path);
        if (leaf == config_keys[k].path || key_index(leaf) >= 0 || key_is_section(leaf)) continue;
        assert_int_equal(key_unknown(leaf, &err), STATUS_USAGE);
        int of_that_name = 0;
        for (int other = 0; other < config_key_count; other++)
            of_that_name += !strcmp(key_leaf(config_keys[other].path), leaf);
        if (of_that_name <= 3 && !suggests(err.text, config_keys[k].path))
            fail_msg("%s is not suggested: %s", config_keys[k].path, err.text);
        moved++;
    }
    assert_true(moved > 150);
    refused("{" BATCH "\"offload_optimizer\": {\"device\": \"cpu\"}}", NULL, STATUS_USAGE,
            "did you mean zero_optimization.offload_optimizer?");
    refused("{" BATCH "\"zero_optimization\": {\"betas\": [0.9, 0.95]}}", NULL, STATUS_USAGE,
            "did you mean optimizer.params.betas?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_typo_is_refused_with_the_nearest_key),
        cmocka_unit_test(every_mistyped_key_is_found),
        cmocka_unit_test(the_file_says_so_too),
        cmocka_unit_test(every_key_at_the_top_names_its_place),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
