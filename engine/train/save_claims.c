#include "engine/train/save_claims.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/checkpoint/checkpoint.h"

bool save_claims_is_same(const char *one, const char *other)
{
    struct stat first, second;
    if (strcmp(one, other) == 0) return true;
    return stat(one, &first) == 0 && stat(other, &second) == 0 && first.st_dev == second.st_dev &&
           first.st_ino == second.st_ino;
}

bool save_claims_has(const struct text_list *claims, const char *folder)
{
    for (int f = 0; f < claims->count; f++)
        if (save_claims_is_same(claims->at[f], folder)) return true;
    return false;
}

void save_claims_add(struct text_list *claims, const char *folder)
{
    char *copy = save_claims_has(claims, folder) ? NULL : strdup(folder);
    if (!copy) return;
    if (claims->count == SAVE_CLAIMS_MOST) {
        free((char *)claims->at[0]);
        memmove(claims->at, claims->at + 1, (size_t)--claims->count * sizeof *claims->at);
    }
    claims->at[claims->count++] = copy;
}

int save_claims_check(const struct text_list *claims, const char *folder, struct error *err)
{
    char tag[CHECKPOINT_TAG_BYTES];
    if (!*folder || save_claims_has(claims, folder) || !checkpoint_any(folder, tag)) return STATUS_OK;
    return error_set(err, STATUS_USAGE,
                     "%.200s holds %s of another run: go on with --resume %.200s/%s, or give another checkpoint.path",
                     folder, tag, folder, tag);
}

/* ---- claims that other runs see ---- */

enum { WHOLE_BYTES = 2 * PATH_MAX };

/* The absolute path of a folder that may not exist yet: the existing part by its real name, the rest as written. */
static void name_whole(char out[WHOLE_BYTES], const char *folder)
{
    char path[PATH_MAX], real[PATH_MAX], *rest = NULL;
    snprintf(path, sizeof path, "%s", folder);
    size_t cut = strlen(path);
    while (!realpath(cut ? path : *folder == '/' ? "/" : ".", real)) {
        if (!cut) { /* the working folder was removed: no run can save there */
            strcpy(real, "/");
            break;
        }
        while (cut && folder[cut - 1] != '/') cut--;
        while (cut && folder[cut - 1] == '/') cut--;
        path[cut] = '\0';
    }
    snprintf(out, WHOLE_BYTES, "%s", strcmp(real, "/") == 0 ? "" : real);
    snprintf(path, sizeof path, "%s", folder + cut);
    for (char *name = strtok_r(path, "/", &rest); name; name = strtok_r(NULL, "/", &rest))
        if (strcmp(name, ".") != 0) strcat(strcat(out, "/"), name);
}

/* The file holds NUL-terminated names. */
static bool is_taken(const char *rundir, const char *folder)
{
    char path[128], *taken = NULL;
    size_t room = 0;
    bool found = false;
    snprintf(path, sizeof path, "%s/saves", rundir);
    FILE *file = fopen(path, "re");
    while (file && !found && getdelim(&taken, &room, '\0', file) > 0) found = save_claims_is_same(taken, folder);
    free(taken);
    if (file) fclose(file);
    return found;
}

struct search {
    const char *folder;
    int64_t pid; /* of the run that has claimed the folder; 0: none */
};

static void ask(void *user, const char *rundir, int64_t pid)
{
    struct search *search = user;
    if (!search->pid && is_taken(rundir, search->folder)) search->pid = pid;
}

int save_claims_check_others(const struct rundir *dir, const char *folder, struct error *err)
{
    char whole[WHOLE_BYTES];
    struct search search = {whole, 0};
    if (!*folder) return STATUS_OK;
    name_whole(whole, folder);
    rundir_others(dir, ask, &search);
    if (!search.pid) return STATUS_OK;
    return error_set(err, STATUS_USAGE,
                     "run %lld goes on and keeps its checkpoints in %.300s; give each a folder of its own",
                     (long long)search.pid, folder);
}

/* Locks the folder of all runs, so that of two runs that begin at the same time one is first. */
static int lock_all(const struct rundir *dir)
{
    char base[sizeof dir->path];
    snprintf(base, sizeof base, "%.*s", (int)(strrchr(dir->path, '/') - dir->path), dir->path);
    int fd = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) flock(fd, LOCK_EX);
    return fd;
}

static int write_down(const struct rundir *dir, const char *folder, struct error *err)
{
    char path[128], whole[WHOLE_BYTES];
    rundir_path(dir, "saves", path, sizeof path);
    name_whole(whole, folder);
    const size_t length = strlen(whole) + 1;
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    bool written = fd >= 0 && write(fd, whole, length) == (ssize_t)length;
    int status = written ? STATUS_OK : error_set(err, STATUS_RUN, "cannot write %s: %s", path, strerror(errno));
    if (fd >= 0) close(fd);
    return status;
}

int save_claims_take(const struct rundir *dir, const char *folder, struct error *err)
{
    if (!*folder || is_taken(dir->path, folder)) return STATUS_OK;
    int lock_fd = lock_all(dir);
    int status = save_claims_check_others(dir, folder, err);
    if (!status) status = write_down(dir, folder, err);
    if (lock_fd >= 0) close(lock_fd);
    return status;
}
