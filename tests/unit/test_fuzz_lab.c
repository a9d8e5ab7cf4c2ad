/* Throws damaged files at what reads labs and learners' progress: accepted, or refused with file and line; never a crash, a
 * hang or a leak (sanitizer builds watch). What is accepted can be shown.
 *
 * It begins with all labs of the program and damages them letter by letter and line by line: lines are left out, doubled,
 * moved, taken from another lab, or made of words of the format. What it does follows from a counter, so a failure comes
 * again. FUZZ_SECONDS=N goes on for so long, FUZZ_SEED=N in another way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/base/clock.h"
#include "engine/base/rng.h"
#include "engine/lab/pane.h"
#include "engine/lab/catalog.h"
#include "engine/lab/progress.h"
#include "tests/support/effort.h"

enum { ROOM = 48 << 10, SEEDS_MAX = 64, ROUND_LIMIT_S = 30, ROUNDS = 4000 };

static const char *const words[] = {
    "{",
    "}",
    "|",
    "\n",
    "\n## x\n",
    "# y\n",
    "keep: x = ",
    "plan(\"",
    "plan(\"model=gpt2-xl ranks=512\").peak",
    "\")",
    ".peak",
    "within",
    "%",
    "within 0%",
    "within -1",
    "within 1e9 MB",
    "1e400",
    "(",
    ")",
    "step -",
    "rank 9",
    "\n  ",
    "\n    ",
    "setup: stage=",
    "explain:\n",
    "\n+ a | b\n",
    "\n- c | d\n",
    "\xff",
    "hint: ",
    "999999999999999999999",
    "{{",
    "do: ",
    "\"",
    "keep: kept = kept\n",
    "keep: a = b\nkeep: b = a\n",
    "goto: 1\n",
    "task: ",
    "solution: run 9999999999 steps\n",
    "solution: op -1\n",
    "do: go \n",
    "set: ranks=0\n",
    "set: layers=1000000000\n",
    "setup: hidden=1 heads=0\n",
    "predict: ",
    "answer: ",
    "wrong: ",
    "same: ",
    "quiz: ",
    "check: ",
    "look: ",
    "before: ",
    "//",
    "{psi | .999}",
    "{peak | parsecs}",
    "{1 / 0}",
    "\r",
    "\t",
    "minutes: -1\n",
    "ranks * ranks * ranks",
};

static const struct lab_scene nothing_runs = {.sets = NULL};

static char *seeds[SEEDS_MAX];
static size_t seed_count;
static uint64_t counter, stream = 7;

static size_t below(size_t limit)
{
    return limit ? rng_u64(7, stream, counter++) % limit : 0;
}

static char *read_all(const char *path)
{
    FILE *file = fopen(path, "re");
    char *text = NULL;
    size_t room = 0;
    assert_non_null(file);
    assert_true(getdelim(&text, &room, '\0', file) > 0);
    fclose(file);
    return text;
}

static int gather_seeds(void **state)
{
    (void)state;
    for (int l = 0; l < lab_catalog_count() && seed_count < SEEDS_MAX; l++) {
        char path[128];
        snprintf(path, sizeof path, "labs/%s/lab.md", lab_catalog_name(l));
        seeds[seed_count++] = read_all(path);
    }
    if (getenv("FUZZ_SEED")) stream = strtoull(getenv("FUZZ_SEED"), NULL, 10);
    return seed_count ? 0 : -1;
}

static int free_seeds(void **state)
{
    (void)state;
    while (seed_count) free(seeds[--seed_count]);
    return 0;
}

/* ---- damage -------------------------------------------------------------------------------------------------------- */

static size_t put(char *text, size_t length, size_t at, const char *more, size_t count)
{
    if (length + count >= ROOM) return length;
    memmove(text + at + count, text + at, length - at);
    memcpy(text + at, more, count);
    return length + count;
}

static size_t cut(char *text, size_t length, size_t at, size_t count)
{
    if (at + count > length) count = length - at;
    memmove(text + at, text + at + count, length - at - count);
    return length - count;
}

/* Some line of it; its length has the line break. */
static size_t line_of(const char *text, size_t length, size_t *count)
{
    size_t at = below(length + 1);
    while (at && text[at - 1] != '\n') at--;
    const char *end = memchr(text + at, '\n', length - at);
    *count = end ? (size_t)(end - text) + 1 - at : length - at;
    return at;
}

static size_t damage(char *text, size_t length)
{
    size_t at = below(length + 1), count = below(30);
    const char *word = words[below(sizeof words / sizeof *words)], *other = seeds[below(seed_count)];
    char line[2048];
    switch (below(8)) {
    case 0: return cut(text, length, at, count);
    case 1: return at < length ? text[at] = (char)below(256), length : length;
    case 2: return at = line_of(text, length, &count), cut(text, length, at, count);
    case 3: /* a line of it, or of another lab, elsewhere */
    case 4:
        if (below(2)) other = text, at = line_of(text, length, &count);
        else at = line_of(other, strlen(other), &count);
        if (count > sizeof line) count = sizeof line;
        memcpy(line, other + at, count);
        at = line_of(text, length, &(size_t){0});
        return put(text, length, at, line, count);
    case 5:
        at = line_of(text, length, &count); /* a word where a line begins */
        return put(text, length, at, word, strlen(word));
    default: return put(text, length, at, word, strlen(word));
    }
}

/* ---- what must hold ------------------------------------------------------------------------------------------------ */

static void show(const struct prose *prose)
{
    char *text = prose_fill(prose, &nothing_runs);
    assert_non_null(text);
    free(text);
}

static void show_all(const struct lab *lab)
{
    for (int s = 0; s < lab->step_count; s++) {
        const struct lab_step *step = &lab->steps[s];
        show(&step->text), show(&step->question), show(&step->explain);
        for (int h = 0; h < step->hint_count; h++) show(&step->hint[h]);
        for (int w = 0; w < step->wrong_count; w++) show(&step->wrong[w].reply);
        for (int c = 0; c < step->choice_count; c++) show(&step->choice[c].text), show(&step->choice[c].reply);
        for (int c = 0; c < step->check_count; c++) assert_true(lab_check_hold(&step->check[c], &nothing_runs).said[0]);
    }
}

static bool goes_on(int round, uint64_t begun_ns)
{
    const char *asked = getenv("FUZZ_SECONDS");
    if (asked) return clock_ns() - begun_ns < strtoull(asked, NULL, 10) * 1000000000u;
    return round < effort(300, 500, ROUNDS);
}

static void damaged_labs_are_accepted_or_refused(void **state)
{
    (void)state;
    char *text = malloc(ROOM);
    const uint64_t begun_ns = clock_ns();
    int accepted = 0, refused = 0;
    for (int round = 0; goes_on(round, begun_ns); round++) {
        const char *seed = seeds[below(seed_count)];
        size_t length = strlen(seed);
        memcpy(text, seed, length);
        for (size_t faults = 1 + below(6); faults; faults--) length = damage(text, length);
        struct lab *lab;
        struct error err = {0};
        alarm(ROUND_LIMIT_S); /* a hang is a failure */
        int status = lab_read(&lab, "f/lab.md", text, length, &err);
        if (status == STATUS_OK) {
            show_all(lab);
            lab_free(lab);
            accepted++;
            continue;
        }
        int line = 0;
        assert_int_equal(status, STATUS_USAGE);
        assert_null(lab);
        if (sscanf(err.text, "f/lab.md:%d: ", &line) != 1 || line < 1) fail_msg("%s", err.text);
        if (strchr(err.text, '\n')) fail_msg("more than one line: %s", err.text);
        refused++;
    }
    alarm(0);
    free(text);
    print_message("# %d accepted, %d refused\n", accepted, refused);
    assert_true(accepted > 0 && refused > 0);
}

/* A learner's file may have been copied badly, or edited. */
static void damaged_progress_is_read_or_refused(void **state)
{
    (void)state;
    struct lab_progress progress = {.step = 2, .count = 5};
    progress.at[0] = (struct lab_step_progress){LAB_RIGHT, 2, 1, 61.5, "13.35 MB", "four copies"};
    progress.at[1] = (struct lab_step_progress){LAB_SKIPPED, 0, 3, 2, "", ""};
    char *whole = lab_progress_json(&progress, "zero-1"), *text = malloc(ROOM);
    const uint64_t begun_ns = clock_ns();
    int accepted = 0, refused = 0;
    for (int round = 0; goes_on(round, begun_ns) && round < 20 * ROUNDS; round++) {
        struct lab_progress read = {.count = 5};
        struct error err = {0};
        size_t length = strlen(whole);
        memcpy(text, whole, length);
        for (size_t faults = below(4); faults; faults--) length = damage(text, length);
        text[length] = '\0';
        if (lab_progress_read(&read, text, &err)) {
            assert_int_equal(err.status, STATUS_INPUT);
            refused++;
            continue;
        }
        assert_true(read.step >= 0 && read.step < read.count && read.count == 5);
        for (int s = 0; s < read.count; s++)
            assert_true(read.at[s].attempts >= 0 && read.at[s].hints <= LAB_HINTS_MAX && read.at[s].seconds >= 0 &&
                        read.at[s].mark < LAB_MARKS);
        accepted++;
    }
    free(text);
    free(whole);
    print_message("# %d accepted, %d refused\n", accepted, refused);
    assert_true(accepted > 0 && refused > 0);
}

/* A lesson is a trace that somebody else made. */
static void damaged_panes_are_read_or_refused(void **state)
{
    (void)state;
    struct lab_page page = {.count = 2};
    page.at[0] = (struct lab_paragraph){TONE_TEXT, "four ranks"};
    page.at[1] = (struct lab_paragraph){TONE_HINT, "a nudge"};
    struct lab_pane pane = {
        .title = "a lab", .step_title = "a step", .count = 3, .step = 1, .told_from = 1, .page = &page};
    struct lab_pane read = {0};
    char *whole = lab_pane_json(&pane, true), *text = malloc(ROOM);
    const uint64_t begun_ns = clock_ns();
    int accepted = 0, refused = 0;
    for (int round = 0; goes_on(round, begun_ns) && round < 20 * ROUNDS; round++) {
        size_t length = strlen(whole);
        memcpy(text, whole, length);
        for (size_t faults = below(4); faults; faults--) length = damage(text, length);
        text[length] = '\0';
        lab_pane_read(&read, text) ? accepted++ : refused++;
        if (!read.page) continue; /* nothing has been read yet */
        assert_true(read.count >= 1 && read.count <= LAB_STEPS_MAX && read.step >= 0 && read.step < read.count);
        assert_true(read.page->count <= PAGE_MAX && read.told_from >= 0 && read.told_from <= read.page->count);
        for (int p = 0; p < read.page->count; p++)
            assert_true(read.page->at[p].text && read.page->at[p].tone <= TONE_NOTE);
    }
    assert_true(lab_pane_read(&read, whole));
    char *again = lab_pane_json(&read, true);
    assert_string_equal(again, whole);
    lab_pane_release(&read);
    free(again);
    free(text);
    free(whole);
    print_message("# %d accepted, %d refused\n", accepted, refused);
    assert_true(accepted > 0 && refused > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(damaged_labs_are_accepted_or_refused),
        cmocka_unit_test(damaged_progress_is_read_or_refused),
        cmocka_unit_test(damaged_panes_are_read_or_refused),
    };
    return cmocka_run_group_tests_name("damaged labs", tests, gather_seeds, free_seeds);
}
