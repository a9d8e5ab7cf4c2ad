/* safetensors: 8 bytes, the length of the header; the header, JSON, {"name": {"dtype", "shape", "data_offsets"}, ...} and
 * "__metadata__", which has text only; then the tensors, one after the other without holes. How many attention heads there
 * are no shape says: our files have it in their metadata, transformers' in a config.json beside them. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/wire.h"
#include "engine/checkpoint/folder.h"
#include "engine/checkpoint/weights_parts.h"

enum { HEADER_BYTES_MAX = 4 << 20, ALIGN_BYTES = 8, TENSORS_MAX = 100000 };

static const char *const dtype_names[] = {[DTYPE_F32] = "F32", [DTYPE_BF16] = "BF16", [DTYPE_F16] = "F16"};

bool safetensors_is(const uint8_t first[16], uint64_t bytes)
{
    uint64_t length;
    get_u64(first, &length);
    return bytes >= 10 && length >= 2 && length <= bytes - 8 && first[8] == '{';
}

/* ---- one entry of the header ---- */

struct entry {
    const char *name;
    enum dtype dtype;
    bool known_dtype, used;
    int dimensions;
    int64_t shape[4];
    uint64_t begin, end; /* in the data */
};

static bool whole(const cJSON *item, uint64_t *out)
{
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0 && item->valuedouble < 9007199254740992.0)) return false;
    *out = (uint64_t)item->valuedouble;
    return (double)*out == item->valuedouble;
}

static bool read_shape(struct entry *entry, const cJSON *shape)
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
static bool sizes_agree(const struct entry *entry)
{
    uint64_t bytes = (uint64_t)dtype_bytes(entry->dtype);
    for (int d = 0; d < entry->dimensions; d++)
        if (__builtin_mul_overflow(bytes, (uint64_t)entry->shape[d], &bytes)) return false;
    return bytes == entry->end - entry->begin;
}

static int read_entry(struct entry *entry, const cJSON *item, struct error *err)
{
    const cJSON *range = cJSON_GetObjectItemCaseSensitive(item, "data_offsets");
    const char *dtype = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(item, "dtype"));
    *entry = (struct entry){.name = item->string};
    for (int d = 0; dtype && d < 3; d++)
        if (strcmp(dtype, dtype_names[d]) == 0) entry->dtype = (enum dtype)d, entry->known_dtype = true;
    bool good = dtype && read_shape(entry, cJSON_GetObjectItemCaseSensitive(item, "shape")) &&
                cJSON_GetArraySize(range) == 2 && whole(cJSON_GetArrayItem(range, 0), &entry->begin) &&
                whole(cJSON_GetArrayItem(range, 1), &entry->end) && entry->begin <= entry->end &&
                (!entry->known_dtype || sizes_agree(entry));
    return good ? STATUS_OK : error_set(err, STATUS_INPUT, "its header is damaged at \"%.80s\"", item->string);
}

/* ---- all of them ---- */

struct header {
    cJSON *json;
    struct entry *entries; /* sorted by name */
    int count;
    uint64_t data; /* where in the file the data begin */
};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct entry *)a)->name, ((const struct entry *)b)->name);
}

static int by_place(const void *a, const void *b)
{
    const struct entry *one = a, *other = b;
    if (one->begin != other->begin) return one->begin < other->begin ? -1 : 1;
    return (one->end > other->end) - (one->end < other->end);
}

/* No two of one name; and their ranges are the data, each byte once. */
static int check_entries(struct header *header, uint64_t data_bytes, struct error *err)
{
    uint64_t at = 0;
    qsort(header->entries, (size_t)header->count, sizeof *header->entries, by_place);
    for (int e = 0; e < header->count; at = header->entries[e++].end)
        if (header->entries[e].begin != at)
            return error_set(err, STATUS_INPUT, "its tensors overlap or leave a hole at \"%.80s\"",
                             header->entries[e].name);
    if (at != data_bytes)
        return error_set(err, STATUS_INPUT, "its tensors have %llu bytes, the file has %llu; copy it again",
                         (unsigned long long)at, (unsigned long long)data_bytes);
    qsort(header->entries, (size_t)header->count, sizeof *header->entries, by_name);
    for (int e = 1; e < header->count; e++)
        if (strcmp(header->entries[e - 1].name, header->entries[e].name) == 0)
            return error_set(err, STATUS_INPUT, "it has two tensors \"%.80s\"", header->entries[e].name);
    return STATUS_OK;
}

static int read_entries(struct header *header, uint64_t bytes, struct error *err)
{
    const int most = cJSON_GetArraySize(header->json);
    if (!cJSON_IsObject(header->json) || most > TENSORS_MAX)
        return error_set(err, STATUS_INPUT, "its header is not JSON of tensors");
    header->entries = calloc((size_t)most + 1, sizeof *header->entries);
    if (!header->entries) return error_set(err, STATUS_RUN, "no memory for a table of %d tensors", most);
    for (const cJSON *item = header->json->child; item; item = item->next) {
        if (strcmp(item->string, "__metadata__") == 0) continue;
        int status = read_entry(&header->entries[header->count++], item, err);
        if (status) return status;
    }
    return check_entries(header, bytes - header->data, err);
}

static int read_header(struct header *header, int fd, uint64_t bytes, struct error *err)
{
    uint8_t first[8];
    uint64_t length;
    if (!weights_pread(fd, first, sizeof first, 0))
        return error_set(err, STATUS_INPUT, "cannot be read: %s", strerror(errno));
    get_u64(first, &length);
    if (length > bytes - 8)
        return error_set(err, STATUS_INPUT, "its header says %llu bytes, the file has %llu", (unsigned long long)length,
                         (unsigned long long)bytes);
    if (length > HEADER_BYTES_MAX)
        return error_set(err, STATUS_INPUT, "its header has %llu bytes, at most %d are read",
                         (unsigned long long)length, HEADER_BYTES_MAX);
    char *text = malloc(length + 1);
    if (!text) return error_set(err, STATUS_RUN, "no memory for a header of %llu bytes", (unsigned long long)length);
    bool read = weights_pread(fd, text, length, 8);
    if (read) header->json = cJSON_ParseWithLength(text, length);
    free(text);
    header->data = 8 + length;
    return read ? read_entries(header, bytes, err)
                : error_set(err, STATUS_INPUT, "cannot be read: %s", strerror(errno));
}

static void release_header(struct header *header)
{
    cJSON_Delete(header->json);
    free(header->entries);
}

/* transformers' GPT2LMHeadModel says "transformer.wte.weight", GPT2Model and the file on its hub "wte.weight". */
static struct entry *find(const struct header *header, const char *name)
{
    char full[128];
    struct entry key = {.name = name};
    struct entry *found = bsearch(&key, header->entries, (size_t)header->count, sizeof key, by_name);
    if (found) return found;
    snprintf(full, sizeof full, "transformer.%s", name);
    key.name = full;
    return bsearch(&key, header->entries, (size_t)header->count, sizeof key, by_name);
}

/* ---- heads ---- */

static int heads_of(const cJSON *json)
{
    uint64_t heads = 0;
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, "n_head");
    if (cJSON_IsString(item)) heads = strtoull(item->valuestring, NULL, 10);
    else if (!whole(item, &heads)) heads = 0;
    return heads <= 1024 ? (int)heads : 0;
}

/* What makes a GPT-2 another function than ours. */
static int check_architecture(const cJSON *json, struct error *err)
{
    const char *activation = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, "activation_function"));
    const cJSON *epsilon = cJSON_GetObjectItemCaseSensitive(json, "layer_norm_epsilon");
    if (activation && strcmp(activation, "gelu_new") != 0 && strcmp(activation, "gelu_pytorch_tanh") != 0)
        return error_set(err, STATUS_INPUT,
                         "the config.json beside it says activation_function %.40s; only gelu_new is there",
                         activation);
    if (cJSON_IsNumber(epsilon) && (epsilon->valuedouble < 0.9e-5 || epsilon->valuedouble > 1.1e-5))
        return error_set(err, STATUS_INPUT, "the config.json beside it says layer_norm_epsilon %g; only 1e-5 is there",
                         epsilon->valuedouble);
    return STATUS_OK;
}

static int find_heads(const struct header *header, const char *path, int *heads, struct error *err)
{
    char beside[4200];
    const char *slash = strrchr(path, '/');
    snprintf(beside, sizeof beside, "%.*sconfig.json", slash ? (int)(slash + 1 - path) : 0, path);
    char *text = folder_read(beside, 1 << 20, NULL);
    cJSON *json = text ? cJSON_Parse(text) : NULL;
    *heads = heads_of(cJSON_GetObjectItemCaseSensitive(header->json, "__metadata__"));
    if (!*heads) *heads = heads_of(json);
    int status = json ? check_architecture(json, err) : STATUS_OK;
    cJSON_Delete(json);
    free(text);
    return status;
}

/* ---- the layout ---- */

static void tensor_label(char label[64], const struct unit *unit, const struct weight_row *row)
{
    if (unit->kind == UNIT_BLOCK) snprintf(label, 64, "h.%d.%s", unit->block, row->name);
    else snprintf(label, 64, "%s", row->name);
}

static const struct weight_row *row_of(enum tensor_id id)
{
    const struct weight_row *row = weight_rows;
    while (row->id != id) row++;
    return row;
}

static int read_sizes(const struct header *header, struct config_model *shape, struct error *err)
{
    char name[64];
    const struct entry *tokens = find(header, "wte.weight"), *positions = find(header, "wpe.weight");
    if (!tokens || !positions || tokens->dimensions != 2 || positions->dimensions != 2)
        return error_set(err, STATUS_INPUT, "no GPT-2: it lacks the tables wte.weight and wpe.weight");
    for (const struct entry *entry = tokens; entry; shape->layers++) {
        snprintf(name, sizeof name, "h.%d.ln_1.weight", shape->layers);
        if (!(entry = find(header, name))) break;
    }
    shape->vocabulary = (int)tokens->shape[0];
    shape->hidden = (int)tokens->shape[1];
    shape->context = (int)positions->shape[0];
    return STATUS_OK;
}

static int place_tensor(struct weights_layout *layout, const struct header *header, int u, const struct tensor *tensor,
                        struct error *err)
{
    char label[64];
    const struct weight_row *row = row_of(tensor->id);
    tensor_label(label, &layout->model.units[u], row);
    struct entry *entry = find(header, label);
    if (!entry)
        return error_set(err, STATUS_INPUT, "no GPT-2 of %d layers: it lacks %s", layout->model.shape.layers, label);
    if (!entry->known_dtype) return error_set(err, STATUS_INPUT, "%s is not in F32, F16 or BF16", label);
    const int64_t first = row->transposed ? tensor->columns : tensor->rows,
                  second = row->transposed ? tensor->rows : tensor->columns;
    bool fits = tensor->columns == 1 ? entry->dimensions == 1 && entry->shape[0] == tensor->rows
                                     : entry->dimensions == 2 && entry->shape[0] == first && entry->shape[1] == second;
    if (!fits)
        return error_set(err, STATUS_INPUT, "%s has not the shape that goes with wte.weight and wpe.weight", label);
    entry->used = true;
    *weights_place(layout, u, tensor->id) =
        (struct weights_place){row->transposed, entry->dtype, header->data + entry->begin};
    return STATUS_OK;
}

/* A head of its own is another model, unless it is the same numbers. */
static int check_head(const struct header *header, int fd, struct error *err)
{
    const struct entry *head = find(header, "lm_head.weight"), *tokens = find(header, "wte.weight");
    static const char untied[] = "its lm_head.weight differs from wte.weight; only models whose head is tied are there";
    if (!head) return STATUS_OK;
    if (head->dtype != tokens->dtype || head->end - head->begin != tokens->end - tokens->begin)
        return error_set(err, STATUS_INPUT, "%s", untied);
    for (uint64_t at = 0, bytes = tokens->end - tokens->begin; at < bytes;) {
        char one[4096], other[4096];
        const size_t part = bytes - at < sizeof one ? (size_t)(bytes - at) : sizeof one;
        if (!weights_pread(fd, one, part, header->data + head->begin + at) ||
            !weights_pread(fd, other, part, header->data + tokens->begin + at))
            return error_set(err, STATUS_INPUT, "cannot be read: %s", strerror(errno));
        if (memcmp(one, other, part) != 0) return error_set(err, STATUS_INPUT, "%s", untied);
        at += part;
    }
    return STATUS_OK;
}

/* What transformers' GPT-2 keeps beside its weights: masks, and the head, which is checked apart. */
static bool is_known(const char *name)
{
    static const char *const endings[] = {".attn.bias", ".attn.masked_bias", "lm_head.weight"};
    const size_t length = strlen(name);
    for (size_t e = 0; e < sizeof endings / sizeof *endings; e++) {
        const size_t ending = strlen(endings[e]);
        if (length >= ending && strcmp(name + length - ending, endings[e]) == 0) return true;
    }
    return false;
}

/* A tensor that has no place in the model would be lost: a block behind a missing one, or another architecture's. */
static int check_unused(const struct header *header, struct error *err)
{
    for (int e = 0; e < header->count; e++)
        if (!header->entries[e].used && !is_known(header->entries[e].name))
            return error_set(err, STATUS_INPUT, "no GPT-2: its tensor \"%.80s\" has no place in one",
                             header->entries[e].name);
    return STATUS_OK;
}

static int read_layout(struct weights_layout *layout, const struct header *header, const char *path, struct error *err)
{
    struct config_model shape = {0};
    int status = read_sizes(header, &shape, err);
    if (!status) status = find_heads(header, path, &shape.heads, err);
    if (!status) status = weights_layout_init(layout, &shape, find(header, "wte.weight")->dtype, err);
    for (int u = 0; u < layout->model.unit_count && !status; u++)
        for (int t = 0; t < layout->model.units[u].tensor_count && !status; t++)
            status = place_tensor(layout, header, u, &layout->model.units[u].tensors[t], err);
    return status ? status : check_unused(header, err);
}

int safetensors_read(struct weights_layout *layout, int fd, uint64_t bytes, const char *path, struct error *err)
{
    struct header header = {0};
    int status = read_header(&header, fd, bytes, err);
    if (!status) status = read_layout(layout, &header, path, err);
    if (!status) status = check_head(&header, fd, err);
    layout->bytes = bytes;
    release_header(&header);
    return status;
}

/* ---- writing ---- */

static uint64_t print_tensor(FILE *out, const struct weights_layout *layout, const struct unit *unit,
                             const struct tensor *tensor, uint64_t at)
{
    char label[64];
    const struct weight_row *row = row_of(tensor->id);
    const uint64_t end = at + (uint64_t)tensor->elems * (uint64_t)dtype_bytes(layout->model.dtype);
    const int64_t first = row->transposed ? tensor->columns : tensor->rows,
                  second = row->transposed ? tensor->rows : tensor->columns;
    tensor_label(label, unit, row);
    fprintf(out, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[%lld", label, dtype_names[layout->model.dtype],
            (long long)first);
    if (tensor->columns > 1) fprintf(out, ",%lld", (long long)second);
    fprintf(out, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)at, (unsigned long long)end);
    return end;
}

/* Offsets first count from the data's beginning, as the header has them. Returns the bytes of the data. */
static uint64_t print_header(FILE *out, struct weights_layout *layout)
{
    uint64_t at = 0;
    fprintf(out, "{\"__metadata__\":{\"format\":\"pt\",\"n_head\":\"%d\"}", layout->model.shape.heads);
    for (int u = 0; u < layout->model.unit_count; u++) {
        const struct unit *unit = &layout->model.units[u];
        for (int t = 0; t < unit->tensor_count; t++) {
            const struct tensor *tensor = &unit->tensors[t];
            *weights_place(layout, u, tensor->id) =
                (struct weights_place){row_of(tensor->id)->transposed, layout->model.dtype, at};
            at = print_tensor(out, layout, unit, tensor, at);
        }
    }
    fputc('}', out);
    return at;
}

int safetensors_compose(struct weights_layout *layout, struct bytes *head, struct error *err)
{
    char *text = NULL;
    uint8_t length[8];
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    uint64_t data_bytes = out ? print_header(out, layout) : 0;
    while (out && ftell(out) % ALIGN_BYTES) fputc(' ', out);
    bool good = out && fclose(out) == 0;
    put_u64(length, size);
    good = good && bytes_append(head, length, sizeof length) && bytes_append(head, text, size);
    free(text);
    for (int p = 0; p < layout->model.unit_count * TENSOR_IDS; p++) layout->places[p].offset += head->count;
    layout->bytes = head->count + data_bytes;
    return good ? STATUS_OK : error_set(err, STATUS_RUN, "no memory for the head of a file");
}

char *weights_config_json(const struct config_model *shape, enum dtype dtype)
{
    static const char *const torch_names[] = {
        [DTYPE_F32] = "float32", [DTYPE_BF16] = "bfloat16", [DTYPE_F16] = "float16"};
    const bool gpt2 = shape->vocabulary == 50257;
    char *text = NULL;
    return asprintf(&text,
                    "{\n  \"model_type\": \"gpt2\",\n  \"architectures\": [\"GPT2LMHeadModel\"],\n  \"n_layer\": %d,\n "
                    " \"n_head\": %d,\n"
                    "  \"n_embd\": %d,\n  \"n_positions\": %d,\n  \"n_ctx\": %d,\n  \"vocab_size\": %d,\n"
                    "  \"activation_function\": \"gelu_new\",\n  \"layer_norm_epsilon\": 1e-05,\n  "
                    "\"tie_word_embeddings\": true,\n"
                    "  \"bos_token_id\": %s,\n  \"eos_token_id\": %s,\n  \"torch_dtype\": \"%s\"\n}\n",
                    shape->layers, shape->heads, shape->hidden, shape->context, shape->context, shape->vocabulary,
                    gpt2 ? "50256" : "null", gpt2 ? "50256" : "null", torch_names[dtype]) < 0
               ? NULL
               : text;
}
