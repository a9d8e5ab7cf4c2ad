/* Regions between cuts. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/bytes.h"
#include "engine/plan/checker_parts.h"

void regions_release(struct regions *regions)
{
    free(regions->cut);
    free(regions->at);
}

void regions_clear(struct regions *regions)
{
    regions->count = 0;
}

void regions_cut(struct regions *regions, int64_t first, int64_t end)
{
    if (!array_grow((void **)&regions->cut, regions->count + 1, &regions->room, sizeof *regions->cut)) {
        regions->failed = true;
        return;
    }
    regions->cut[regions->count++] = first;
    regions->cut[regions->count++] = end;
}

static int ascending(const void *left, const void *right)
{
    const int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

static bool make_regions(struct regions *regions)
{
    if (regions->count > regions->at_room) {
        free(regions->at);
        regions->at = malloc((size_t)regions->count * sizeof *regions->at);
        regions->at_room = regions->at ? regions->count : 0;
        regions->failed |= !regions->at;
    }
    if (!regions->failed && regions->count) memset(regions->at, -1, (size_t)regions->count * sizeof *regions->at);
    return !regions->failed;
}

bool regions_begin(struct regions *regions)
{
    int kept = 0;
    if (regions->count) qsort(regions->cut, (size_t)regions->count, sizeof *regions->cut, ascending);
    for (int i = 0; i < regions->count; i++)
        if (!kept || regions->cut[i] != regions->cut[kept - 1]) regions->cut[kept++] = regions->cut[i];
    regions->count = kept;
    return make_regions(regions);
}

static int place(const struct regions *regions, int64_t cut)
{
    const int64_t *found = bsearch(&cut, regions->cut, (size_t)regions->count, sizeof cut, ascending);
    return (int)(found - regions->cut);
}

void regions_find(const struct regions *regions, int64_t first, int64_t end, int *from, int *to)
{
    *from = place(regions, first);
    *to = place(regions, end);
}

void latest_add(struct latest *latest, enum lane lane, int op)
{
    if (op > latest->op[lane]) latest->op[lane] = op;
}
