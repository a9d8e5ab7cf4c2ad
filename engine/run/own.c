#include "engine/run/own.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/checkpoint/checkpoint.h"

void own_init(struct own *own, const struct cli_list *folders)
{
    *own = (struct own){0};
    for (int f = 0; f < folders->count; f++) own_add(own, folders->at[f]);
}

void own_release(struct own *own)
{
    for (int f = 0; f < own->count; f++) free(own->folder[f]);
    *own = (struct own){0};
}

bool own_is_same(const char *one, const char *other)
{
    struct stat first, second;
    if (strcmp(one, other) == 0) return true;
    return stat(one, &first) == 0 && stat(other, &second) == 0 && first.st_dev == second.st_dev &&
           first.st_ino == second.st_ino;
}

bool own_has(const struct own *own, const char *folder)
{
    for (int f = 0; f < own->count; f++)
        if (own_is_same(own->folder[f], folder)) return true;
    return false;
}

void own_add(struct own *own, const char *folder)
{
    char *copy = own_has(own, folder) ? NULL : strdup(folder);
    if (!copy) return;
    if (own->count == OWN_MOST) {
        free(own->folder[0]);
        memmove(own->folder, own->folder + 1, --own->count * sizeof *own->folder);
    }
    own->folder[own->count++] = copy;
}

int own_check(const struct own *own, const char *folder, struct error *err)
{
    char tag[CHECKPOINT_TAG_BYTES];
    if (!*folder || own_has(own, folder) || !checkpoint_any(folder, tag)) return STATUS_OK;
    return error_set(err, STATUS_USAGE,
                     "%.200s holds %s of another run: go on with --resume %.200s/%s, or give another checkpoint.path",
                     folder, tag, folder, tag);
}

struct cli_list own_folders(const struct own *own)
{
    struct cli_list list = {.count = own->count};
    for (int f = 0; f < own->count; f++) list.at[f] = own->folder[f];
    return list;
}
