#include "engine/checkpoint/weights_parts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/wire.h"

enum { HEADERS_BYTES_MAX = 4 << 20, INDEX_BYTES_MAX = 4 << 20, TENSORS_MAX = 100000, FILES_MAX = 1000 };

const char *const safetensors_dtypes[3] = {[DTYPE_F32] = "F32", [DTYPE_BF16] = "BF16", [DTYPE_F16] = "F16"};

/* ---- one entry of a header ---- */

static bool whole(const cJSON *item, uint64_t *out)
{
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0 && item->valuedouble < 9007199254740992.0)) return false;
    *out = (uint64_t)item->valuedouble;
    return (double)*out == item->valuedouble;
}

static bool read_shape(struct tensor_entry *entry, const cJSON *shape)
{
    const cJSON *item;
    if (!cJSON_IsArray(shape) || cJSON_GetArraySize(shape) > 4) return false;
    cJSON_ArrayForEach(item, shape)
    {
        uint64_t size;
        if (!whole(item, &size) || size > 1u << 30) return false;
        entry->shape[entry->dimensions++] = (int64_t)size;
    }
    return true;
}

/* Sizes are held against each other only for types whose width we know. */
static bool sizes_agree(const struct tensor_entry *entry)
{
    uint64_t bytes = (uint64_t)dtype_bytes(entry->dtype);
    for (int d = 0; d < entry->dimensions; d++)
        if (__builtin_mul_overflow(bytes, (uint64_t)entry->shape[d], &bytes)) return false;
    return bytes == entry->end - entry->begin;
}

static int read_entry(struct tensor_entry *entry, const cJSON *item, struct error *err)
{
    const cJSON *range = json_get(item, "data_offsets");
    const char *dtype = json_get_text(item, "dtype");
    *entry = (struct tensor_entry){.name = item->string};
    for (int d = 0; dtype && d < 3; d++)
        if (strcmp(dtype, safetensors_dtypes[d]) == 0) entry->dtype = (enum dtype)d, entry->known_dtype = true;
    bool good = dtype && read_shape(entry, json_get(item, "shape")) && cJSON_GetArraySize(range) == 2 &&
                whole(cJSON_GetArrayItem(range, 0), &entry->begin) &&
                whole(cJSON_GetArrayItem(range, 1), &entry->end) && entry->begin <= entry->end &&
                (!entry->known_dtype || sizes_agree(entry));
    return good ? STATUS_OK : error_set(err, STATUS_INPUT, "its header is damaged at \"%.80s\"", item->string);
}

/* ---- one file ---- */

static int by_place(const void *a, const void *b)
{
    const struct tensor_entry *one = a, *other = b;
    if (one->begin != other->begin) return one->begin < other->begin ? -1 : 1;
    return (one->end > other->end) - (one->end < other->end);
}

/* The ranges of a file's tensors are its data, each byte once. From there on they count from the file's beginning. */
static int check_ranges(struct tensor_entry *entries, int count, uint64_t data, uint64_t bytes, struct error *err)
{
    uint64_t at = 0;
    qsort(entries, (size_t)count, sizeof *entries, by_place);
    for (int e = 0; e < count; at = entries[e++].end)
        if (entries[e].begin != at)
            return error_set(err, STATUS_INPUT, "its tensors overlap or leave a hole at \"%.80s\"", entries[e].name);
    if (at != bytes - data)
        return error_set(err, STATUS_INPUT, "its tensors have %llu bytes, the file has %llu; copy it again",
                         (unsigned long long)at, (unsigned long long)(bytes - data));
    for (int e = 0; e < count; e++) entries[e].begin += data, entries[e].end += data;
    return STATUS_OK;
}

static int add_entries(struct tensor_list *list, int file, uint64_t data, uint64_t bytes, struct error *err)
{
    const cJSON *json = list->headers[file];
    const int most = cJSON_GetArraySize(json), from = list->count;
    if (!cJSON_IsObject(json) || most > TENSORS_MAX - from)
        return error_set(err, STATUS_INPUT, "its header is not JSON of tensors");
    struct tensor_entry *entries = realloc(list->entries, (size_t)(from + most + 1) * sizeof *entries);
    if (!entries) return error_set(err, STATUS_RUN, "no memory for a table of %d tensors", most);
    list->entries = entries;
    for (const cJSON *item = json->child; item; item = item->next) {
        if (strcmp(item->string, "__metadata__") == 0) continue;
        int status = read_entry(&entries[list->count], item, err);
        if (status) return status;
        entries[list->count++].file = file;
    }
    list->bytes += bytes;
    return check_ranges(entries + from, list->count - from, data, bytes, err);
}

/* Text that is not JSON gives NULL. */
static int read_json(cJSON **json, int fd, uint64_t offset, uint64_t bytes, struct error *err)
{
    char *text = malloc(bytes + 1);
    if (!text) return error_set(err, STATUS_RUN, "no memory for JSON of %llu bytes", (unsigned long long)bytes);
    const bool read = file_get(fd, text, bytes, offset) == bytes;
    if (read) *json = cJSON_ParseWithLength(text, bytes);
    free(text);
    return read ? STATUS_OK : error_set(err, STATUS_INPUT, "cannot be read: %s", strerror(errno));
}

static int add_file(struct tensor_list *list, int file, int fd, uint64_t bytes, struct error *err)
{
    uint8_t first[8];
    uint64_t length;
    if (bytes < sizeof first) return error_set(err, STATUS_INPUT, "is too short to be safetensors");
    if (file_get(fd, first, sizeof first, 0) < sizeof first)
        return error_set(err, STATUS_INPUT, "cannot be read: %s", strerror(errno));
    get_u64(first, &length);
    if (length > bytes - 8)
        return error_set(err, STATUS_INPUT, "its header says %llu bytes, the file has %llu", (unsigned long long)length,
                         (unsigned long long)bytes);
    list->header_bytes += length;
    if (list->header_bytes > HEADERS_BYTES_MAX)
        return error_set(err, STATUS_INPUT, "headers have %llu bytes with its own, at most %d are read",
                         (unsigned long long)list->header_bytes, HEADERS_BYTES_MAX);
    int status = read_json(&list->headers[file], fd, 8, length, err);
    return status ? status : add_entries(list, file, 8 + length, bytes, err);
}

/* ---- all of them ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct tensor_entry *)a)->name, ((const struct tensor_entry *)b)->name);
}

static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static int sort(struct tensor_list *list, struct error *err)
{
    if (list->count) qsort(list->entries, (size_t)list->count, sizeof *list->entries, by_name);
    for (int e = 1; e < list->count; e++) {
        const struct tensor_entry *one = &list->entries[e - 1], *other = &list->entries[e];
        if (strcmp(one->name, other->name) != 0) continue;
        if (one->file == other->file) return error_set(err, STATUS_INPUT, "it has two tensors \"%.80s\"", one->name);
        return error_set(err, STATUS_INPUT, "the tensor \"%.80s\" is in %.100s and in %.100s", one->name,
                         file_name(list->files[one->file]), file_name(list->files[other->file]));
    }
    return STATUS_OK;
}

int tensor_list_read(struct tensor_list *list, int fd, uint64_t bytes, struct error *err)
{
    list->headers = calloc(1, sizeof *list->headers);
    if (!list->headers) return error_set(err, STATUS_RUN, "no memory for a header");
    list->file_count = 1;
    int status = add_file(list, 0, fd, bytes, err);
    return status ? status : sort(list, err);
}

void tensor_list_release(struct tensor_list *list)
{
    for (int f = 0; f < list->file_count; f++) {
        cJSON_Delete(list->headers[f]);
        if (list->files) free(list->files[f]);
    }
    free(list->headers);
    free(list->files);
    free(list->entries);
    *list = (struct tensor_list){0};
}

static struct tensor_entry *find_exactly(const struct tensor_list *list, const char *name)
{
    const struct tensor_entry key = {.name = name};
    return list->count ? bsearch(&key, list->entries, (size_t)list->count, sizeof key, by_name) : NULL;
}

struct tensor_entry *tensor_list_find(const struct tensor_list *list, const char *name)
{
    char full[128];
    struct tensor_entry *found = find_exactly(list, name);
    if (found) return found;
    snprintf(full, sizeof full, "transformer.%s", name);
    return find_exactly(list, full);
}

/* ---- an index ---- */

/* A file of the index lies beside it: a name with a slash in it would lead elsewhere. */
static bool is_name(const cJSON *item)
{
    return cJSON_IsString(item) && *item->valuestring && item->valuestring[0] != '.' &&
           !strchr(item->valuestring, '/') && strlen(item->valuestring) < 256;
}

static int number_of(const struct tensor_list *list, const char *name)
{
    for (int f = list->file_count - 1; f >= 0; f--) /* mostly the last: tensors stand in the order of the files */
        if (strcmp(file_name(list->files[f]), name) == 0) return f;
    return -1;
}

static int list_files(struct tensor_list *list, const cJSON *map, const char *path, struct error *err)
{
    const cJSON *item;
    if (!cJSON_IsObject(map) || cJSON_GetArraySize(map) > TENSORS_MAX)
        return error_set(err, STATUS_INPUT, "is no index of tensors: it has no weight_map");
    list->headers = calloc(FILES_MAX, sizeof *list->headers);
    list->files = calloc(FILES_MAX, sizeof *list->files);
    if (!list->headers || !list->files) return error_set(err, STATUS_RUN, "no memory for a list of files");
    cJSON_ArrayForEach(item, map)
    {
        if (!is_name(item))
            return error_set(err, STATUS_INPUT, "names no file beside it for the tensor \"%.80s\"", item->string);
        if (number_of(list, item->valuestring) >= 0) continue;
        if (list->file_count == FILES_MAX) return error_set(err, STATUS_INPUT, "names more than %d files", FILES_MAX);
        if (asprintf(&list->files[list->file_count], "%.*s%s", (int)(file_name(path) - path), path, item->valuestring) <
            0)
            return list->files[list->file_count] = NULL, error_set(err, STATUS_RUN, "no memory for a list of files");
        list->file_count++;
    }
    return STATUS_OK;
}

static int read_files(struct tensor_list *list, struct error *err)
{
    for (int f = 0; f < list->file_count; f++) {
        uint64_t bytes;
        int fd = weights_open_file(list->files[f], &bytes, err);
        int status = fd < 0 ? STATUS_INPUT : add_file(list, f, fd, bytes, err);
        if (fd >= 0) close(fd);
        if (status) return error_prefix(err, "%.100s", file_name(list->files[f])), status;
    }
    return sort(list, err);
}

/* What the index says against what the files have. */
static int check_map(const struct tensor_list *list, const cJSON *map, struct error *err)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, map)
    {
        struct tensor_entry *entry = find_exactly(list, item->string);
        if (!entry)
            return error_set(err, STATUS_INPUT, "%.100s lacks the tensor \"%.80s\", which the index says is in it",
                             item->valuestring, item->string);
        if (strcmp(file_name(list->files[entry->file]), item->valuestring) != 0)
            return error_set(err, STATUS_INPUT, "the tensor \"%.80s\" is in %.100s, the index says in %.100s",
                             item->string, file_name(list->files[entry->file]), item->valuestring);
        if (entry->indexed) return error_set(err, STATUS_INPUT, "names the tensor \"%.80s\" twice", item->string);
        entry->indexed = true;
    }
    for (int e = 0; e < list->count; e++)
        if (!list->entries[e].indexed)
            return error_set(err, STATUS_INPUT, "the tensor \"%.80s\" is in %.100s, but not in the index",
                             list->entries[e].name, file_name(list->files[list->entries[e].file]));
    return STATUS_OK;
}

int tensor_list_read_index(struct tensor_list *list, int fd, uint64_t bytes, const char *path, struct error *err)
{
    if (bytes > INDEX_BYTES_MAX)
        return error_set(err, STATUS_INPUT, "has %llu bytes, of an index at most %d are read",
                         (unsigned long long)bytes, INDEX_BYTES_MAX);
    cJSON *json = NULL;
    int status = read_json(&json, fd, 0, bytes, err);
    const cJSON *map = json_get(json, "weight_map");
    if (!status) status = list_files(list, map, path, err);
    if (!status) status = read_files(list, err);
    if (!status) status = check_map(list, map, err);
    cJSON_Delete(json);
    return status;
}
