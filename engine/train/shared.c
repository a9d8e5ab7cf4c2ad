#include "engine/train/rank.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/base/words.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/crc32c.h"
#include "engine/launch/capacity.h"
#include "engine/launch/launch_probe.h"

static bool is_one_machine(const struct rank *rank)
{
    return !*comm_host(rank->comm, 0);
}

/* ---- folders ---- */

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
    char sees[rank->ranks];
    if (is_one_machine(rank) || !*dir) return STATUS_OK;
    const int status = launch_probe_folder(rank->comm, dir, sees, err);
    if (status || !sees[0] || !memchr(sees, 0, sizeof sees)) return status; /* not on rank 0: saving says why */
    return refuse_folder(rank, dir, sees, err);
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
    if (!rank->spec->hosts && !rank->spec->external && !rank->gpu) return STATUS_OK; /* the front end has checked */
    if (room.memory_bytes < UINT64_MAX / 64)
        room.memory_bytes = room.memory_bytes / (uint64_t)rank_count_here(rank) * (uint64_t)rank->ranks;
    const int status = capacity_check(&rank->config, &room, err);
    if (status && !is_one_machine(rank)) error_prefix(err, "host %s", comm_host(rank->comm, rank->rank));
    return rank_agree(rank, status, err);
}
