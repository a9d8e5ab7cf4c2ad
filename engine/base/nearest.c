#include "engine/base/nearest.h"

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

const char *nearest_name(const char *typed, const char *const *names, int count)
{
    const char *best = NULL;
    int typed_length = (int)strlen(typed), best_distance = NAME_MAX_LENGTH;
    if (typed_length == 0 || typed_length > NAME_MAX_LENGTH) return NULL;
    for (int n = 0; n < count; n++) {
        int length = (int)strlen(names[n]), longer = length > typed_length ? length : typed_length;
        if (length > NAME_MAX_LENGTH) continue;
        int distance = edit_distance(typed, typed_length, names[n], length);
        if (strncmp(names[n], typed, (size_t)typed_length) == 0) distance = 1;
        if (distance < best_distance && distance <= (longer < 6 ? 1 : longer / 3))
            best = names[n], best_distance = distance;
    }
    return best;
}
