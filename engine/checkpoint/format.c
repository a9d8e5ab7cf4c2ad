#include "engine/checkpoint/format.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/json.h"
#include "engine/base/wire.h"
#include "engine/checkpoint/crc32c.h"
#include "engine/config/hjson.h"

/* ---- a shard ---- */

uint64_t shard_table_bytes(const struct shard_head *head)
{
    return whole_pages((uint64_t)head->ranges * RANGE_BYTES + (uint64_t)head->blocks * 4);
}

#define HEAD_FIELDS(F) \
    F(u32, shard) F(u32, shards) F(u64, value_bytes) F(u64, table_offset) F(u32, ranges) F(u32, blocks) F(u32, table_crc)
#define RANGE_FIELDS(F) F(u32, unit) F(u32, array) F(i64, first) F(i64, elems) F(u64, offset)
#define PUT(type, name) at = put_##type(at, from->name);
#define GET(type, name) at = get_##type(at, &to->name);

void shard_head_write(struct shard_head *head, uint8_t page[SHARD_HEAD_BYTES])
{
    memset(page, 0, SHARD_HEAD_BYTES);
    memcpy(page, SHARD_MAGIC, 8);
    uint8_t *at = put_u32(page + 8, CHECKPOINT_VERSION);
    const struct shard_head *from = head;
    at = put_u32(at, BLOCK_BYTES);
    HEAD_FIELDS(PUT)
    head->crc = crc32c(0, page, SHARD_HEAD_BYTES - 4);
    put_u32(page + SHARD_HEAD_BYTES - 4, head->crc);
}

const char *shard_head_read(struct shard_head *head, const uint8_t page[SHARD_HEAD_BYTES], uint64_t file_bytes)
{
    struct shard_head *to = head;
    uint32_t version, block_bytes;
    if (memcmp(page, SHARD_MAGIC, 8) != 0) return "it is no shard of a checkpoint";
    const uint8_t *at = get_u32(page + 8, &version);
    at = get_u32(at, &block_bytes);
    HEAD_FIELDS(GET)
    get_u32(page + SHARD_HEAD_BYTES - 4, &head->crc);
    if (head->crc != crc32c(0, page, SHARD_HEAD_BYTES - 4)) return "its head is damaged (bytes 0 to 4095)";
    if (version != CHECKPOINT_VERSION || block_bytes != BLOCK_BYTES)
        return "it is of a later version of the format; use a newer zerolab";
    if (head->value_bytes > file_bytes || head->table_offset != SHARD_HEAD_BYTES + whole_pages(head->value_bytes) ||
        head->blocks != (head->value_bytes + BLOCK_BYTES - 1) / BLOCK_BYTES ||
        head->table_offset + shard_table_bytes(head) != file_bytes)
        return "its length is not what its head says";
    return NULL;
}

void shard_range_write(const struct shard_range *from, uint8_t at[RANGE_BYTES])
{
    RANGE_FIELDS(PUT)
}

void shard_range_read(struct shard_range *to, const uint8_t at[RANGE_BYTES])
{
    RANGE_FIELDS(GET)
}

static const char format_name[] = "zerolab checkpoint", checksum_begin[] = ",\n\t\"checksum\":\t\"";

enum { CHECKSUM_ROOM = 40 };

/* ---- a manifest, to write ---- */

static cJSON *progress_to(const struct zero_progress *progress)
{
    cJSON *json = cJSON_CreateObject();
    json_put(cJSON_AddObjectToObject(json, "loss_scaler"), NUMBER("scale", progress->scaler.scale),
             NUMBER("iteration", progress->scaler.iteration), NUMBER("last_overflow", progress->scaler.last_overflow),
             NUMBER("hysteresis", progress->scaler.hysteresis));
    json_put(json, NUMBER("steps_done", progress->steps_done), NUMBER("updates", progress->updates),
             NUMBER("samples", progress->samples));
    if (progress->pending) json_put(json, NUMBER("pending_factor", progress->pending_factor));
    if (progress->skips) json_put(json, NUMBER("skips", progress->skips));
    return json;
}

static cJSON *data_to(const struct data_fingerprint *data)
{
    char hash[20];
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)data->hash);
    return json_object(TEXT("path", data->path), NUMBER("bytes", data->bytes), NUMBER("changed", data->changed_s),
                       TEXT("hash", hash));
}

static cJSON *shards_to(const struct manifest_shard *shards, int count)
{
    cJSON *list = cJSON_CreateArray();
    for (int s = 0; s < count; s++) {
        char crc[12];
        snprintf(crc, sizeof crc, "%08x", shards[s].crc);
        json_put(json_item(list), NUMBER("bytes", shards[s].bytes), TEXT("crc32c", crc));
    }
    return list;
}

/* `text` ends with "\n}"; the checksum becomes its last member. */
static char *with_checksum(const char *text)
{
    size_t length = strlen(text) - strlen("\n}");
    char *whole = malloc(length + CHECKSUM_ROOM);
    if (whole) {
        memcpy(whole, text, length);
        snprintf(whole + length, CHECKSUM_ROOM, "%s%08x\"\n}\n", checksum_begin, crc32c(0, text, length));
    }
    return whole;
}

char *manifest_print(const struct checkpoint_info *info, const struct manifest_shard *shards)
{
    cJSON *json =
        json_object(TEXT("format", format_name), NUMBER("version", CHECKPOINT_VERSION), TEXT("tag", info->tag));
    cJSON_AddItemToObject(json, "progress", progress_to(&info->progress));
    cJSON_AddItemToObject(json, "saved_by",
                          json_object(NUMBER("ranks", info->ranks), NUMBER("threads_per_rank", info->threads),
                                      TEXT("isa", info->isa), NUMBER("stage", info->stage)));
    if (info->data.known) cJSON_AddItemToObject(json, "data", data_to(&info->data));
    cJSON_AddItemToObject(json, "config", hjson_exact(info->config_json));
    cJSON_AddItemToObject(json, "shards", shards_to(shards, info->shards));
    char *text = cJSON_Print(json), *whole = text && strlen(text) > 2 ? with_checksum(text) : NULL;
    cJSON_Delete(json);
    free(text);
    return whole;
}

/* ---- a manifest, to read ---- */

/* A whole number from `least` to `most`; false: it is not. */
static bool whole(const cJSON *json, const char *name, int64_t least, int64_t most, int64_t *value)
{
    const cJSON *item = json_get(json, name);
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= (double)least && item->valuedouble <= (double)most) ||
        floor(item->valuedouble) != item->valuedouble)
        return false;
    *value = (int64_t)item->valuedouble;
    return true;
}

static bool small(const cJSON *json, const char *name, int least, int most, int *value)
{
    int64_t wide;
    bool good = whole(json, name, least, most, &wide);
    if (good) *value = (int)wide;
    return good;
}

static bool progress_from(struct zero_progress *progress, const cJSON *json)
{
    const int64_t most = INT64_C(1) << 53;
    const cJSON *scaler = json_get(json, "loss_scaler"), *scale = json_get(scaler, "scale");
    if (!cJSON_IsNumber(scale) || !(scale->valuedouble > 0) || isinf(scale->valuedouble)) return false;
    const cJSON *pending = json_get(json, "pending_factor"); /* only with delayed updates */
    progress->pending = cJSON_IsNumber(pending);
    if (progress->pending) progress->pending_factor = (float)pending->valuedouble;
    progress->scaler.scale = scale->valuedouble;
    progress->skips = 0; /* where there were none, nothing is said */
    if (json_get(json, "skips") && !small(json, "skips", 0, INT32_MAX, &progress->skips)) return false;
    return whole(json, "steps_done", 0, UINT32_MAX - 1, &progress->steps_done) &&
           whole(json, "updates", 0, progress->steps_done, &progress->updates) &&
           whole(json, "samples", 0, most, &progress->samples) &&
           whole(scaler, "iteration", 0, most, &progress->scaler.iteration) &&
           whole(scaler, "last_overflow", -1, most, &progress->scaler.last_overflow) &&
           small(scaler, "hysteresis", 0, INT32_MAX, &progress->scaler.hysteresis);
}

static bool run_from(struct checkpoint_info *info, const cJSON *json)
{
    const char *isa = json_get_text(json, "isa");
    snprintf(info->isa, sizeof info->isa, "%s", isa ? isa : "");
    return isa && small(json, "ranks", 1, SHARDS_MAX, &info->ranks) &&
           small(json, "threads_per_rank", 1, INT32_MAX, &info->threads) && small(json, "stage", 0, 3, &info->stage);
}

/* A manifest of an older program has none; then nothing is known. */
static bool data_from(struct data_fingerprint *data, const cJSON *json)
{
    int64_t bytes;
    unsigned long long hash;
    const char *path = json_get_text(json, "path"), *text = json_get_text(json, "hash");
    *data = (struct data_fingerprint){.known = json != NULL};
    if (!json) return true;
    if (!path || !text || sscanf(text, "%16llx", &hash) != 1) return false;
    snprintf(data->path, sizeof data->path, "%s", path);
    data->hash = hash;
    if (!whole(json, "bytes", 0, INT64_C(1) << 53, &bytes)) return false;
    data->bytes = (uint64_t)bytes;
    return whole(json, "changed", -(INT64_C(1) << 53), INT64_C(1) << 53, &data->changed_s);
}

static bool shards_from(struct checkpoint_info *info, struct manifest_shard **out, const cJSON *list)
{
    const cJSON *json;
    int count = cJSON_GetArraySize(list), s = 0;
    if (!cJSON_IsArray(list) || count < 1 || count > SHARDS_MAX) return false;
    info->shards = count;
    struct manifest_shard *shards = *out = calloc((size_t)count, sizeof *shards);
    cJSON_ArrayForEach(json, list)
    {
        const char *crc = json_get_text(json, "crc32c");
        int64_t bytes;
        if (!shards || !crc || sscanf(crc, "%8x", &shards[s].crc) != 1) return false;
        if (!whole(json, "bytes", 0, INT64_C(1) << 52, &bytes)) return false;
        shards[s++].bytes = (uint64_t)bytes;
    }
    return true;
}

/* The text up to its checksum, if that is right; 0: it is not. */
static size_t vouched_for(const char *text)
{
    char end[CHECKSUM_ROOM];
    const size_t length = strlen(text), tail = strlen(checksum_begin) + strlen("01234567\"\n}\n");
    if (length <= tail) return 0;
    snprintf(end, sizeof end, "%s%08x\"\n}\n", checksum_begin, crc32c(0, text, length - tail));
    return strcmp(text + length - tail, end) == 0 ? length - tail : 0;
}

static char *config_text(const char *text)
{
    cJSON *json = hjson_exact(text);
    char *config = cJSON_PrintUnformatted(json_get(json, "config"));
    cJSON_Delete(json);
    return config;
}

static int read_members(struct checkpoint_info *info, struct manifest_shard **shards, const cJSON *json,
                        const char *text, struct error *err)
{
    const char *format = json_get_text(json, "format"), *tag = json_get_text(json, "tag");
    int version;
    if (!format || strcmp(format, format_name) != 0 || !small(json, "version", 0, INT32_MAX, &version))
        return error_set(err, STATUS_INPUT, "is no manifest of a checkpoint");
    if (version != CHECKPOINT_VERSION)
        return error_set(err, STATUS_INPUT,
                         "is of version %d of the format, this program reads %d; use a newer zerolab", version,
                         CHECKPOINT_VERSION);
    bool good = tag && command_check_tag(tag, NULL) == STATUS_OK && cJSON_IsObject(json_get(json, "config")) &&
                progress_from(&info->progress, json_get(json, "progress")) &&
                run_from(info, json_get(json, "saved_by")) && data_from(&info->data, json_get(json, "data")) &&
                shards_from(info, shards, json_get(json, "shards"));
    if (!good) return error_set(err, STATUS_INPUT, "lacks what a manifest must say, though its checksum is right");
    strcpy(info->tag, tag);
    info->config_json = config_text(text);
    return info->config_json ? STATUS_OK : error_set(err, STATUS_RUN, "no memory to read it");
}

int manifest_parse(struct checkpoint_info *info, struct manifest_shard **shards, const char *text, struct error *err)
{
    *shards = NULL;
    if (!vouched_for(text))
        return error_set(err, STATUS_INPUT, "is damaged: its checksum does not match the %zu bytes", strlen(text));
    cJSON *json = cJSON_Parse(text);
    int status = json ? read_members(info, shards, json, text, err) : error_set(err, STATUS_INPUT, "is not JSON");
    cJSON_Delete(json);
    return status;
}
