/* Screens against files in tests/golden, which people can look at: cat them. After a change that is meant, accept all:
 *     ACCEPT=1 build/release/tests/test_tui_golden; ACCEPT=1 build/release/tests/test_timeline_golden */
#ifndef TESTS_GOLDEN_H
#define TESTS_GOLDEN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline char *golden_read(const char *path)
{
    FILE *file = fopen(path, "r");
    char *text = NULL;
    size_t room = 0;
    if (!file) return NULL;
    if (getdelim(&text, &room, '\0', file) < 0) {
        free(text);
        text = NULL;
    }
    fclose(file);
    return text;
}

static inline int golden_line_that_differs(const char *a, const char *b)
{
    int line = 1;
    for (; *a && *a == *b; a++, b++) line += *a == '\n';
    return line;
}

static inline void golden_show_line(const char *name, const char *text, int line)
{
    while (--line > 0 && strchr(text, '\n')) text = strchr(text, '\n') + 1;
    print_error("  %s: %.*s\n", name, (int)strcspn(text, "\n"), text);
}

/* Frees the text. */
static inline void golden_check(const char *name, char *text)
{
    char path[256];
    snprintf(path, sizeof path, "tests/golden/%s", name);
    if (getenv("ACCEPT")) {
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fputs(text, file);
        assert_int_equal(fclose(file), 0);
    }
    char *accepted = golden_read(path);
    bool same = accepted && strcmp(text, accepted) == 0;
    if (accepted && !same) {
        int line = golden_line_that_differs(text, accepted);
        print_error("%s differs in line %d; if that is meant, accept it with ACCEPT=1\n", path, line);
        golden_show_line("accepted", accepted, line);
        golden_show_line("now     ", text, line);
    }
    if (!accepted) print_error("%s is missing; run from the repository's root, or accept with ACCEPT=1\n", path);
    free(text);
    free(accepted);
    assert_true(same);
}

#endif
