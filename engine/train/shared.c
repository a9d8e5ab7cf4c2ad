#include "engine/train/shared.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/words.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/crc32c.h"
#include "engine/data/data.h"
#include "engine/launch/capacity.h"

static bool is_one_machine(const struct rank *rank)
{
    return !*comm_host(rank->comm, 0);
}

/* ---- folders ---- */

/* Makes a file for the others to look for, in `dir` or, before that is made, in the nearest folder above it. */
static void make_probe(char *probe, size_t room, const char *dir)
{
    char folder[CHECKPOINT_FOLDER_BYTES];
    snprintf(folder, sizeof folder, "%s", dir);
    while (access(folder, F_OK) != 0) {
        char *slash = strrchr(folder, '/');
        if (!slash) strcpy(folder, ".");
        else slash[slash == folder] = '\0';
    }
    snprintf(probe, room, "%s/.zerolab-probe-XXXXXX", folder);
    const int fd = mkostemp(probe, O_CLOEXEC);
    if (fd >= 0) close(fd);
    else *probe = '\0'; /* the folder cannot be written: saving says why */
}

/* "host b does not see what host a writes there, so shards 2 and 3 of 4 would be lost". */
static int refuse_folder(const struct rank *rank, const char *dir, const char *sees, struct error *err)
{
    char shards[160] = "";
    int blind = 0;
    while (sees[blind]) blind++;
    const char *host = comm_host(rank->comm, blind);
    for (int r = blind; r < rank->ranks; r++)
        if (!sees[r] && strcmp(comm_host(rank->comm, r), host) == 0)
            text_append(shards, sizeof shards, "%s%d", *shards ? ", " : "", r);
    return error_set(
        err, STATUS_USAGE,
        "checkpoint.path %.150s: host %s does not see what host %s writes there, so shards %s of %d would be lost; "
        "give a folder that all hosts share",
        dir, host, comm_host(rank->comm, 0), shards, rank->ranks);
}

int shared_check_folder(struct rank *rank, const char *dir, struct error *err)
{
    char probe[CHECKPOINT_FOLDER_BYTES + 32] = "", sees = 0, all[rank->ranks];
    if (is_one_machine(rank) || !*dir) return STATUS_OK;
    if (rank->rank == 0) make_probe(probe, sizeof probe, dir);
    int status = comm_broadcast_control(rank->comm, probe, sizeof probe, err);
    sees = !*probe || access(probe, F_OK) == 0;
    if (!status) status = comm_exchange(rank->comm, &sees, all, sizeof sees, NULL, err);
    if (rank->rank == 0 && *probe) unlink(probe);
    return status || !memchr(all, 0, sizeof all) ? status : refuse_folder(rank, dir, all, err);
}

/* ---- input ---- */

static uint32_t manifest_sum(const struct rank *rank)
{
    enum { MOST = 64 << 20 };
    char path[CHECKPOINT_FOLDER_BYTES + 32], *text = NULL;
    size_t length = 0;
    snprintf(path, sizeof path, "%s/manifest.json", checkpoint_info(rank->from)->folder);
    const uint32_t sum = file_read(&text, &length, path, MOST, false, NULL) ? 0 : crc32c(0, text, length);
    free(text);
    return sum;
}

int shared_check_input(struct rank *rank, struct error *err)
{
    const struct data_fingerprint *text = data_fingerprint(rank->data);
    const struct input {
        uint64_t text_bytes, text_hash, manifest;
    } mine = {text->bytes, text->hash, rank->from ? manifest_sum(rank) : 0};
    struct input all[rank->ranks];
    if (is_one_machine(rank)) return STATUS_OK;
    int status = comm_exchange(rank->comm, &mine, all, sizeof mine, NULL, err);
    for (int r = 1; r < rank->ranks && !status; r++) {
        const bool same_text = all[r].text_bytes == all[0].text_bytes && all[r].text_hash == all[0].text_hash;
        if (same_text && all[r].manifest == all[0].manifest) continue;
        status =
            error_set(err, STATUS_INPUT, "%s: host %s and host %s have different files of that name",
                      same_text ? rank->spec->resume : text->path, comm_host(rank->comm, r), comm_host(rank->comm, 0));
    }
    return status;
}

/* ---- memory ---- */

int shared_check_room(struct rank *rank, struct error *err)
{
    struct capacity room = capacity_beside(&rank->config, rank->gpu);
    if (!rank->spec->hosts && !rank->spec->external) return STATUS_OK; /* the front end has checked */
    if (room.memory_bytes < UINT64_MAX / 64)
        room.memory_bytes = room.memory_bytes / (uint64_t)rank_count_here(rank) * (uint64_t)rank->ranks;
    const int status = capacity_check(&rank->config, &room, err);
    if (status && !is_one_machine(rank)) error_prefix(err, "host %s", comm_host(rank->comm, rank->rank));
    return rank_agree(rank, status, err);
}
