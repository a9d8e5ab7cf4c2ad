#include "engine/checkpoint/folder.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/bytes.h"
#include "engine/base/file.h"
#include "engine/base/words.h"

/* ---- names ---- */

void checkpoint_step_tag(char tag[CHECKPOINT_TAG_BYTES], int64_t step)
{
    snprintf(tag, CHECKPOINT_TAG_BYTES, "step-%lld", (long long)step);
}

static bool is_step_tag(const char *tag)
{
    return strncmp(tag, "step-", 5) == 0 && tag[5] && tag[5 + strspn(tag + 5, "0123456789")] == '\0';
}

static void join(char path[PATH_BYTES], const char *dir, const char *before, const char *name, const char *after)
{
    snprintf(path, PATH_BYTES, "%.4000s/%s%.200s%s", dir, before, name, after);
}

void folder_partial(char path[PATH_BYTES], const struct checkpoint_target *target)
{
    join(path, target->dir, ".", target->tag, ".partial");
}

void folder_shard(char path[PATH_BYTES], const char *folder, int shard, int shards, const char *suffix)
{
    snprintf(path, PATH_BYTES, "%.4200s/shard-%d-of-%d%s", folder, shard, shards, suffix);
}

/* ---- files ---- */

int folder_make(const char *path, struct error *err)
{
    char copy[PATH_BYTES];
    snprintf(copy, sizeof copy, "%s", path);
    for (char *slash = copy + 1; (slash = strchr(slash, '/')); slash++)
        *slash = '\0', mkdir(copy, 0777), *slash = '/'; /* what is wrong with one above, the last mkdir says */
    if (mkdir(copy, 0777) == 0 || errno == EEXIST) return STATUS_OK;
    return error_set(err, STATUS_RUN, "cannot make the folder %.300s: %s", path, strerror(errno));
}

/* Removes the folders that folder_make() made: from the path up to the first one that was missing. */
static void unmake(char *path, size_t first_length)
{
    for (char *slash = path; slash && first_length && strlen(path) >= first_length;) {
        rmdir(path);
        if ((slash = strrchr(path, '/'))) *slash = '\0';
    }
}

int checkpoint_try(const char *dir, struct error *err)
{
    char path[PATH_BYTES], inside[PATH_BYTES + 2];
    size_t first_length = 0; /* of the first that is made; 0: none */
    int why = 0;
    snprintf(path, sizeof path, "%s", dir);
    for (char *slash = path + 1; slash; *slash++ = '/') {
        if ((slash = strchr(slash, '/'))) *slash = '\0';
        const bool made = mkdir(path, 0777) == 0;
        if (made && !first_length) first_length = strlen(path);
        if (!made && !why && errno != EEXIST) why = errno;
        if (!slash) break;
    }
    snprintf(inside, sizeof inside, "%s/.", path);
    const bool good = access(inside, W_OK | X_OK) == 0;
    if (!why) why = errno;
    unmake(path, first_length);
    if (good || why == ENOSPC || why == EDQUOT) return STATUS_OK;
    return error_set(err, STATUS_USAGE, "cannot write checkpoints into %.300s: %s", dir, strerror(why));
}

int folder_sync(const char *path, struct error *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool synced = fd >= 0 && (fsync(fd) == 0 || errno == EINVAL); /* some file systems cannot, and need not */
    int status =
        synced ? STATUS_OK
               : error_set(err, STATUS_RUN, "cannot see the folder %.300s onto the disk: %s", path, strerror(errno));
    if (fd >= 0) close(fd);
    return status;
}

int folder_write(const char *path, const char *text, struct error *err)
{
    int fd = file_create(path, 0);
    bool good = fd >= 0 && file_put(fd, text, strlen(text)) && fsync(fd) == 0;
    int cause = errno;
    if (fd >= 0 && close(fd) != 0 && good) good = false, cause = errno;
    return good ? STATUS_OK : error_set(err, STATUS_RUN, "cannot write %.300s: %s", path, strerror(cause));
}

char *folder_read(const char *path, size_t most, struct error *err)
{
    struct stat found;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* a pipe in its place must not hold us up */
    const char *why = fd < 0 || fstat(fd, &found) != 0 ? strerror(errno)
                      : !S_ISREG(found.st_mode)        ? "not a file"
                      : (uint64_t)found.st_size > most ? "too long"
                                                       : NULL;
    char *text = why ? NULL : malloc((size_t)found.st_size + 1);
    const size_t length = text ? file_get(fd, text, (size_t)found.st_size, 0) : 0;
    if (text && length < (size_t)found.st_size && errno != ENODATA) why = strerror(errno), free(text), text = NULL;
    if (text) text[length] = '\0';
    else error_set(err, STATUS_INPUT, "cannot read %.300s: %s", path, why ? why : "no memory");
    if (fd >= 0) close(fd);
    return text;
}

static bool is_ours(const char *name)
{
    return strncmp(name, "shard-", 6) == 0 || strcmp(name, "manifest.json") == 0 ||
           strncmp(name, "model.safetensors", 17) == 0 || strcmp(name, "config.json") == 0;
}

/* A link in its place would lead to another folder, which stays as it is. */
void folder_remove(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    if (!folder) {
        if (fd >= 0) close(fd);
        else unlink(path);
        return;
    }
    for (struct dirent *entry; (entry = readdir(folder));)
        if (is_ours(entry->d_name)) unlinkat(fd, entry->d_name, 0);
    closedir(folder);
    rmdir(path);
}

/* ---- what stands in DIR ---- */

static bool stands(const char *dir, const char *tag, struct stat *manifest)
{
    char path[PATH_BYTES];
    join(path, dir, "", tag, "/manifest.json");
    return stat(path, manifest) == 0 && S_ISREG(manifest->st_mode);
}

static int64_t saved_ns(const struct stat *manifest)
{
    return manifest->st_mtim.tv_sec * INT64_C(1000000000) + manifest->st_mtim.tv_nsec;
}

static int newest_first(const void *a, const void *b)
{
    const struct checkpoint_tag *first = a, *second = b;
    if (first->saved_ns != second->saved_ns) return first->saved_ns > second->saved_ns ? -1 : 1;
    return strcmp(second->tag, first->tag);
}

/* All of them; the caller frees. */
static struct checkpoint_tag *list_tags(const char *dir, int *count)
{
    struct checkpoint_tag *tags = NULL, *tag;
    DIR *folder = opendir(dir);
    int room = 0;
    *count = 0;
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        struct stat manifest;
        if (command_check_tag(entry->d_name, NULL) || !stands(dir, entry->d_name, &manifest)) continue;
        if (!(tag = array_add(tags, *count, room))) break;
        snprintf(tag->tag, sizeof tag->tag, "%.63s", entry->d_name);
        tag->saved_ns = saved_ns(&manifest);
    }
    if (folder) closedir(folder);
    if (*count) qsort(tags, (size_t)*count, sizeof *tags, newest_first);
    return tags;
}

int checkpoint_tags(const char *dir, struct checkpoint_tag *tags, int room)
{
    int count;
    struct checkpoint_tag *all = list_tags(dir, &count);
    if (count > room) count = room;
    if (count) memcpy(tags, all, (size_t)count * sizeof *tags);
    free(all);
    return count;
}

bool checkpoint_latest(const char *dir, char tag[CHECKPOINT_TAG_BYTES])
{
    char path[PATH_BYTES];
    struct stat manifest;
    join(path, dir, "", "latest", "");
    char *text = folder_read(path, PATH_BYTES, NULL);
    if (!text) return false;
    size_t length = strlen(text);
    while (length && isspace((unsigned char)text[length - 1])) text[--length] = '\0';
    bool good = command_check_tag(text, NULL) == STATUS_OK && stands(dir, text, &manifest);
    if (good) strcpy(tag, text);
    free(text);
    return good;
}

bool checkpoint_any(const char *dir, char tag[CHECKPOINT_TAG_BYTES])
{
    struct checkpoint_tag newest;
    if (checkpoint_latest(dir, tag)) return true;
    if (checkpoint_tags(dir, &newest, 1) == 0) return false;
    strcpy(tag, newest.tag);
    return true;
}

/* ---- changes of DIR, each of which a crash leaves done or not done ---- */

static void give_name_back(const char *dir, const char *hidden)
{
    char tag[CHECKPOINT_TAG_BYTES], from[PATH_BYTES], to[PATH_BYTES];
    snprintf(tag, sizeof tag, "%.*s", (int)(strlen(hidden) - strlen("..replaced")), hidden + 1);
    join(from, dir, "", hidden, "");
    join(to, dir, "", tag, "");
    if (rename(from, to) != 0) folder_remove(from); /* there is one of that name: it is the newer */
}

void folder_sweep(const char *dir)
{
    char path[PATH_BYTES];
    DIR *folder = opendir(dir);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        if (entry->d_name[0] != '.') continue;
        join(path, dir, "", entry->d_name, "");
        if (text_ends_in(entry->d_name + 1, ".replaced")) give_name_back(dir, entry->d_name);
        else if (text_ends_in(entry->d_name + 1, ".partial") || text_ends_in(entry->d_name + 1, ".old"))
            folder_remove(path);
    }
    if (folder) closedir(folder);
    folder_drop_latest(dir);
}

/* Replaces an existing checkpoint of the same tag: the two folders exchange names atomically. If the file system cannot
 * do that (NFS), the old folder is renamed first; after a crash at that point, folder_sweep() restores its name. */
static int replace(const struct checkpoint_target *target, const char *partial, const char *final, struct error *err)
{
    char aside[PATH_BYTES];
    if (renameat2(AT_FDCWD, partial, AT_FDCWD, final, RENAME_EXCHANGE) == 0) return folder_remove(partial), STATUS_OK;
    join(aside, target->dir, ".", target->tag, ".replaced");
    if (rename(final, aside) == 0 && rename(partial, final) == 0) return folder_remove(aside), STATUS_OK;
    return error_set(err, STATUS_RUN, "cannot rename %.300s: %s", partial, strerror(errno));
}

/* Manifests' times decide which checkpoint is the newest. If the clock was set back, the new manifest gets a time after the newest. */
static void keep_order(const char *dir, const char *partial)
{
    int count;
    char path[PATH_BYTES];
    struct stat manifest;
    struct checkpoint_tag *tags = list_tags(dir, &count);
    join(path, partial, "", "manifest.json", "");
    if (count && stat(path, &manifest) == 0 && saved_ns(&manifest) <= tags[0].saved_ns) {
        const int64_t next_ns = tags[0].saved_ns + 1;
        const struct timespec next = {next_ns / INT64_C(1000000000), next_ns % INT64_C(1000000000)};
        utimensat(AT_FDCWD, path, (const struct timespec[]){next, next}, 0);
    }
    free(tags);
}

int folder_promote(const struct checkpoint_target *target, struct error *err)
{
    char partial[PATH_BYTES], final[PATH_BYTES];
    folder_partial(partial, target);
    join(final, target->dir, "", target->tag, "");
    keep_order(target->dir, partial);
    int status = folder_sync(partial, err);
    if (!status && rename(partial, final) != 0)
        status = errno == EEXIST || errno == ENOTEMPTY
                     ? replace(target, partial, final, err)
                     : error_set(err, STATUS_RUN, "cannot rename %.300s: %s", partial, strerror(errno));
    return status;
}

int folder_write_latest(const char *dir, const char *tag, struct error *err)
{
    char fresh[PATH_BYTES], line[CHECKPOINT_TAG_BYTES + 1];
    join(fresh, dir, ".", "latest", "");
    snprintf(line, sizeof line, "%s\n", tag);
    const int status = folder_write(fresh, line, err);
    if (status) unlink(fresh);
    return status;
}

int folder_use_latest(const char *dir, struct error *err)
{
    char path[PATH_BYTES], fresh[PATH_BYTES];
    join(path, dir, "", "latest", "");
    join(fresh, dir, ".", "latest", "");
    if (rename(fresh, path) == 0) return folder_sync(dir, err);
    const int status = error_set(err, STATUS_RUN, "cannot rename %.300s: %s", fresh, strerror(errno));
    unlink(fresh);
    return status;
}

void folder_drop_latest(const char *dir)
{
    char fresh[PATH_BYTES];
    join(fresh, dir, ".", "latest", "");
    unlink(fresh);
}

void folder_prune(const char *dir, int keep)
{
    int count, steps = 0;
    char latest[CHECKPOINT_TAG_BYTES] = "", path[PATH_BYTES], hidden[PATH_BYTES];
    struct checkpoint_tag *tags = list_tags(dir, &count);
    checkpoint_latest(dir, latest);
    for (int i = 0; keep > 0 && i < count; i++) {
        if (!is_step_tag(tags[i].tag) || ++steps <= keep || strcmp(tags[i].tag, latest) == 0) continue;
        join(path, dir, "", tags[i].tag, "");
        join(hidden, dir, ".", tags[i].tag, ".old"); /* while it is being removed, it must not look like a checkpoint */
        if (rename(path, hidden) == 0) folder_remove(hidden);
    }
    free(tags);
}
