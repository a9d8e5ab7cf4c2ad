#include "engine/base/nearest.h"

#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_MAX_LENGTH = 127 };

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* Edit distance with swaps of neighbours (optimal string alignment), three rows at a time. */
static int edit_distance(const char *a, int a_length, const char *b, int b_length)
{
    int rows[3][NAME_MAX_LENGTH + 1];
    for (int j = 0; j <= b_length; j++) rows[0][j] = j;
    for (int i = 1; i <= a_length; i++) {
        int *row = rows[i % 3], *above = rows[(i + 2) % 3], *two_above = rows[(i + 1) % 3];
        row[0] = i;
        for (int j = 1; j <= b_length; j++) {
            row[j] = least(least(above[j], row[j - 1]) + 1, above[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], two_above[j - 2] + 1);
        }
    }
    return rows[a_length % 3][b_length];
}

/* Whether `name` has `word` as one of its words, which underscores separate: "step" in "profile_step". */
static bool is_word_of(const char *word, int length, const char *name)
{
    for (const char *at = name; (at = strstr(at, word)); at++)
        if ((at == name || at[-1] == '_') && (at[length] == '_' || at[length] == '\0')) return true;
    return false;
}

/* Twice the distance, because a name that begins with `typed` or has it as a word ranks between two distances. INT_MAX: not near. */
static int half_distance(const char *typed, int typed_length, const char *name)
{
    int length = (int)strlen(name), longer = length > typed_length ? length : typed_length;
    int allowed = longer < 6 ? 1 : longer / 3, apart = abs(length - typed_length), half = INT_MAX;
    if (length > NAME_MAX_LENGTH) return INT_MAX;
    if (is_word_of(typed, typed_length, name)) half = 5;
    if (strncmp(name, typed, (size_t)typed_length) == 0) half = 3;
    if (apart > allowed) return half;
    int distance = edit_distance(typed, typed_length, name, length);
    return distance <= allowed ? least(half, 2 * distance) : half;
}

static bool is_in(const char *name, const char *const *list, int count)
{
    for (int n = 0; n < count; n++)
        if (strcmp(list[n], name) == 0) return true;
    return false;
}

int nearest_names(const char *typed, const char *const *names, int count, const char **nearest, int most)
{
    int typed_length = (int)strlen(typed), best = INT_MAX - 1, found = 0;
    if (typed_length == 0 || typed_length > NAME_MAX_LENGTH) return 0;
    for (int n = 0; n < count; n++) {
        int half = half_distance(typed, typed_length, names[n]);
        if (half > best) continue;
        if (half < best) found = 0;
        best = half;
        if (found < most && !is_in(names[n], nearest, found)) nearest[found++] = names[n];
    }
    return found;
}

const char *nearest_name(const char *typed, const char *const *names, int count)
{
    const char *nearest;
    return nearest_names(typed, names, count, &nearest, 1) ? nearest : NULL;
}
