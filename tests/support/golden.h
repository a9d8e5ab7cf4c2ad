/* Screens against files in tests/golden/views, which people can look at: cat them. */
#pragma once

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef GOLDEN_FOLDER
#define GOLDEN_FOLDER "tests/golden/views"
#endif

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

static inline bool golden_write(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    return file && fputs(text, file) >= 0 && fclose(file) == 0;
}

static inline int golden_line_that_differs(const char *a, const char *b)
{
    int line = 1;
    for (; *a && *a == *b; a++, b++) line += *a == '\n';
    return line;
}

/* Escapes are shown, not sent to the terminal. */
static inline void golden_show_line(const char *name, const char *text, int line)
{
    while (--line > 0 && strchr(text, '\n')) text = strchr(text, '\n') + 1;
    fprintf(stderr, "  %s: ", name);
    for (; *text && *text != '\n'; text++) *text == '\033' ? fputs("\\e", stderr) : fputc(*text, stderr);
    fputc('\n', stderr);
}

/* False, and says why: the text is not what was accepted. ACCEPT=1 accepts it. */
static inline bool golden_same(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, GOLDEN_FOLDER "/%s", name);
    if (getenv("ACCEPT") && !golden_write(path, text)) fprintf(stderr, "%s cannot be written\n", path);
    char *accepted = golden_read(path);
    bool same = accepted && strcmp(text, accepted) == 0;
    if (accepted && !same) {
        int line = golden_line_that_differs(text, accepted);
        fprintf(stderr, "%s differs in line %d; if that is meant, accept it with ACCEPT=1\n", path, line);
        golden_show_line("accepted", accepted, line);
        golden_show_line("now     ", text, line);
    }
    if (!accepted) fprintf(stderr, "%s is missing; run from the repository's root, or accept with ACCEPT=1\n", path);
    free(accepted);
    return same;
}

/* False, and names them: files that nothing asked for. ACCEPT=1 removes them. */
static inline bool golden_all_used(bool (*used)(const char *name))
{
    DIR *folder = opendir(GOLDEN_FOLDER);
    bool all = folder != NULL;
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        char path[300];
        if (entry->d_name[0] == '.' || used(entry->d_name)) continue;
        snprintf(path, sizeof path, GOLDEN_FOLDER "/%s", entry->d_name);
        if (getenv("ACCEPT") && !unlink(path)) continue;
        fprintf(stderr, "%s is no screen of any test; remove it, or ACCEPT=1 does\n", path);
        all = false;
    }
    if (folder) closedir(folder);
    return all;
}
