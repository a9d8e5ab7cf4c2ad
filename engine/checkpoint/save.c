/* A save, by the one process that begins it, waits for all shards, and gives the checkpoint its name. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "engine/checkpoint/folder.h"

struct checkpoint_save {
    struct checkpoint_target target;
    char dir[CHECKPOINT_FOLDER_BYTES], tag[CHECKPOINT_TAG_BYTES], partial[PATH_BYTES];
    int lock_fd; /* DIR itself, locked */
};

/* Locks DIR, because two runs that save into one folder would remove each other's partial folders. If the file system
 * has no locks (NFS), a second run is not noticed. */
static int keep_others_out(struct checkpoint_save *save, struct error *err)
{
    save->lock_fd = open(save->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (save->lock_fd < 0)
        return error_set(err, STATUS_RUN, "cannot open the folder %.300s: %s", save->dir, strerror(errno));
    if (flock(save->lock_fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return STATUS_OK;
    return error_set(err, STATUS_RUN, "another run is saving into %.300s; give each a folder of its own", save->dir);
}

/* A save into another run's folder would change its `latest`, replace its checkpoints, and let `keep` remove others. */
static int keep_out_of_others(const struct checkpoint_save *save, struct error *err)
{
    char tag[CHECKPOINT_TAG_BYTES];
    if (!save->target.fresh || !checkpoint_any(save->dir, tag)) return STATUS_OK;
    return error_set(err, STATUS_USAGE, "%.300s holds %s of another run; give another folder", save->dir, tag);
}

int checkpoint_begin(struct checkpoint_save **out, const struct checkpoint_target *target, struct error *err)
{
    *out = NULL;
    int status = command_check_tag(target->tag, err);
    if (status) return status;
    if (strlen(target->dir) + CHECKPOINT_TAG_BYTES >= CHECKPOINT_FOLDER_BYTES)
        return error_set(err, STATUS_USAGE, "the path of the checkpoints is too long: %.100s...", target->dir);
    struct checkpoint_save *save = calloc(1, sizeof *save);
    if (!save) return error_set(err, STATUS_RUN, "no memory to save a checkpoint");
    strcpy(save->dir, target->dir);
    strcpy(save->tag, target->tag);
    save->target = *target;
    save->target.dir = save->dir;
    save->target.tag = save->tag;
    save->lock_fd = -1;
    status = folder_make(save->dir, err);
    if (!status) status = keep_others_out(save, err);
    if (!status) folder_sweep(save->dir);
    if (!status) status = keep_out_of_others(save, err);
    if (!status) {
        folder_partial(save->partial, &save->target);
        if (mkdir(save->partial, 0777) != 0)
            status = error_set(err, STATUS_RUN, "cannot make the folder %.300s: %s", save->partial, strerror(errno)),
            *save->partial = '\0'; /* what is there is not ours */
    }
    if (status) checkpoint_end(save);
    else *out = save;
    return status;
}

enum arrival { UNDER_WAY, ARRIVED, FAILED };

static enum arrival look_for(const struct checkpoint_save *save, int shard, struct error *err)
{
    char path[PATH_BYTES];
    folder_shard(path, save->partial, shard, save->target.shards, "");
    if (access(path, F_OK) == 0) return ARRIVED;
    folder_shard(path, save->partial, shard, save->target.shards, ".failed");
    if (access(path, F_OK) != 0) {
        if (access(save->partial, F_OK) == 0) return UNDER_WAY;
        return error_set(err, STATUS_RUN, "%.300s was removed while it was written", save->partial), FAILED;
    }
    char *why = folder_read(path, 4096, NULL);
    error_set(err, STATUS_RUN, "%.450s", why && *why ? why : "a rank cannot write its shard");
    free(why);
    return FAILED;
}

int checkpoint_gather(struct checkpoint_save *save, bool (*is_over)(void *), void *user, struct error *err)
{
    const struct timespec moment = {.tv_nsec = 1000000};
    for (int shard = 0; shard < save->target.shards;) {
        enum arrival arrival = look_for(save, shard, err);
        if (arrival == FAILED) return STATUS_RUN;
        if (arrival == ARRIVED) shard++;
        else if (is_over && is_over(user)) return error_set(err, STATUS_RUN, "the run ended meanwhile");
        else nanosleep(&moment, NULL);
    }
    return STATUS_OK;
}

/* The manifest's entry for a shard, from the shard's file. */
static int describe(const struct checkpoint_save *save, int shard, struct manifest_shard *out, struct error *err)
{
    char path[PATH_BYTES];
    uint8_t page[SHARD_HEAD_BYTES];
    struct shard_head head;
    struct stat found;
    folder_shard(path, save->partial, shard, save->target.shards, "");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool read = fd >= 0 && fstat(fd, &found) == 0 && pread(fd, page, sizeof page, 0) == (ssize_t)sizeof page;
    const char *why = read ? shard_head_read(&head, page, (uint64_t)found.st_size) : strerror(errno);
    if (!why && (head.shard != (uint32_t)shard || head.shards != (uint32_t)save->target.shards))
        why = "it is another shard";
    if (fd >= 0) close(fd);
    if (why) return error_set(err, STATUS_RUN, "cannot use %.300s: %s", path, why);
    *out = (struct manifest_shard){(uint64_t)found.st_size, head.crc};
    return STATUS_OK;
}

static int write_manifest(const struct checkpoint_save *save, const struct checkpoint_info *info, struct error *err)
{
    struct checkpoint_info of = *info;
    char path[PATH_BYTES + 32], *text = NULL;
    struct manifest_shard *shards = calloc((size_t)save->target.shards, sizeof *shards);
    int status = shards ? STATUS_OK : error_set(err, STATUS_RUN, "no memory for a manifest");
    for (int s = 0; s < save->target.shards && !status; s++) status = describe(save, s, &shards[s], err);
    strcpy(of.tag, save->tag);
    of.shards = save->target.shards;
    if (!status && !(text = manifest_print(&of, shards)))
        status = error_set(err, STATUS_RUN, "no memory for a manifest");
    snprintf(path, sizeof path, "%s/manifest.json", save->partial);
    if (!status) status = folder_write(path, text, err);
    free(text);
    free(shards);
    return status;
}

int checkpoint_commit(struct checkpoint_save *save, const struct checkpoint_info *info, struct error *err)
{
    int status = write_manifest(save, info, err);
    if (!status) status = folder_write_latest(save->dir, save->tag, err);
    if (!status) status = folder_promote(&save->target, err);
    if (status) return folder_drop_latest(save->dir), status;
    *save->partial = '\0'; /* it stands, and `latest` must name it whatever fails from here on */
    status = folder_sync(save->dir, err);
    const int unnamed = folder_use_latest(save->dir, status ? NULL : err);
    if (!status) status = unnamed;
    if (!status) folder_prune(save->dir, save->target.keep);
    return status;
}

bool checkpoint_stands(const struct checkpoint_save *save)
{
    return !*save->partial;
}

void checkpoint_end(struct checkpoint_save *save)
{
    if (!save) return;
    if (*save->partial) folder_remove(save->partial);
    if (save->lock_fd >= 0) close(save->lock_fd);
    free(save);
}
