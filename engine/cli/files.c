#include "engine/cli/files.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A file that does not exist yet is known by its folder and its name. */
struct place {
    bool known;
    dev_t device;
    ino_t inode;
    char name[NAME_MAX + 1];
};

static struct place place_in_folder(const char *path)
{
    struct place place = {0};
    struct stat folder;
    char above[PATH_MAX];
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const size_t length = slash ? (size_t)(slash - path) + 1 : 0;
    if (!*name || strlen(name) > NAME_MAX || length >= sizeof above) return place;
    memcpy(above, path, length);
    strcpy(above + length, length ? "" : ".");
    place.known = stat(above, &folder) == 0;
    if (place.known) place.device = folder.st_dev, place.inode = folder.st_ino;
    strcpy(place.name, name);
    return place;
}

static struct place place_of(const char *path)
{
    struct stat there;
    if (!path || !*path || strcmp(path, "-") == 0) return (struct place){0};
    if (stat(path, &there) != 0) return place_in_folder(path);
    return (struct place){.known = S_ISREG(there.st_mode), .device = there.st_dev, .inode = there.st_ino};
}

static bool is_same(const char *one, const char *other)
{
    const struct place first = place_of(one), second = place_of(other);
    return first.known && second.known && first.device == second.device && first.inode == second.inode &&
           strcmp(first.name, second.name) == 0;
}

/* Whether a file lies in a folder or one of its subfolders. */
static bool is_below(const char *path, const char *folder)
{
    struct stat above, there;
    char *real = path && *path ? realpath(path, NULL) : NULL;
    bool below = false;
    if (real && folder && stat(real, &there) == 0 && S_ISREG(there.st_mode) && stat(folder, &there) == 0)
        for (char *slash; !below && (slash = strrchr(real, '/')) && slash > real;) {
            *slash = '\0';
            below = stat(real, &above) == 0 && above.st_dev == there.st_dev && above.st_ino == there.st_ino;
        }
    free(real);
    return below;
}

static bool collide(const struct file_use *one, const struct file_use *written)
{
    return is_same(one->path, written->path) || (one->kind == FILE_READ_ALL && is_below(written->path, one->path));
}

int files_check(const struct file_use *uses, int count, struct error *err)
{
    for (int w = 0; w < count; w++)
        for (int u = 0; uses[w].kind == FILE_WRITTEN && u < count; u++) {
            const bool seen = uses[u].kind == FILE_WRITTEN && u >= w; /* two that are written meet once */
            if (!seen && collide(&uses[u], &uses[w]))
                return error_set(err, STATUS_USAGE, "%.300s cannot be both %s and %s; give two files", uses[w].path,
                                 uses[u].name, uses[w].name);
        }
    return STATUS_OK;
}
