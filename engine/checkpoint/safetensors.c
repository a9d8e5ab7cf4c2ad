/* The safetensors format: maps the tensors of a file, or of several with an index (tensor_list.c), to those of a model. Shapes do
 * not give the number of heads: zerolab's files have it in their metadata, transformers' in a config.json beside them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/wire.h"
#include "engine/base/words.h"
#include "engine/checkpoint/folder.h"
#include "engine/checkpoint/weights_parts.h"

enum { ALIGN_BYTES = 8 };

static bool is_index(const char *path)
{
    return text_ends_in(path, ".safetensors.index.json");
}

bool safetensors_is(const char *path, const uint8_t first[16], uint64_t bytes)
{
    uint64_t length;
    get_u64(first, &length);
    return is_index(path) || (bytes >= 10 && length >= 2 && length <= bytes - 8 && first[8] == '{');
}

/* ---- heads ---- */

static int heads_of(const cJSON *json)
{
    const cJSON *item = json_get(json, "n_head");
    double heads = cJSON_IsString(item)   ? strtod(item->valuestring, NULL)
                   : cJSON_IsNumber(item) ? item->valuedouble
                                          : 0;
    return heads >= 1 && heads <= 1024 && heads == (int)heads ? (int)heads : 0;
}

/* Refuses settings of a config.json with which a GPT-2 computes another function than zerolab's. */
static int check_architecture(const cJSON *json, struct error *err)
{
    const char *activation = json_get_text(json, "activation_function");
    static const struct {
        const char *key;
        bool value;
    } computed[] = {{"scale_attn_weights", true},
                    {"scale_attn_by_inverse_layer_idx", false},
                    {"add_cross_attention", false},
                    {"tie_word_embeddings", true}};
    const cJSON *epsilon = json_get(json, "layer_norm_epsilon");
    const char *type = json_get_text(json, "model_type");
    if (type && strcmp(type, "gpt2") != 0)
        return error_set(err, STATUS_INPUT, "the config.json beside it says model_type %.40s; only gpt2 is there",
                         type);
    for (size_t c = 0; c < sizeof computed / sizeof *computed; c++) {
        const cJSON *item = json_get(json, computed[c].key);
        if (cJSON_IsBool(item) && cJSON_IsTrue(item) != computed[c].value)
            return error_set(err, STATUS_INPUT, "the config.json beside it says %s %s; only %s is there",
                             computed[c].key, computed[c].value ? "false" : "true",
                             computed[c].value ? "true" : "false");
    }
    if (activation && strcmp(activation, "gelu_new") != 0 && strcmp(activation, "gelu_pytorch_tanh") != 0)
        return error_set(err, STATUS_INPUT,
                         "the config.json beside it says activation_function %.40s; only gelu_new is there",
                         activation);
    if (cJSON_IsNumber(epsilon) && (epsilon->valuedouble < 0.9e-5 || epsilon->valuedouble > 1.1e-5))
        return error_set(err, STATUS_INPUT, "the config.json beside it says layer_norm_epsilon %g; only 1e-5 is there",
                         epsilon->valuedouble);
    return STATUS_OK;
}

static int find_heads(const struct tensor_list *list, const char *path, int *heads, struct error *err)
{
    char beside[4200];
    const char *slash = strrchr(path, '/');
    snprintf(beside, sizeof beside, "%.*sconfig.json", slash ? (int)(slash + 1 - path) : 0, path);
    char *text = folder_read(beside, 1 << 20, NULL);
    cJSON *json = text ? cJSON_Parse(text) : NULL;
    *heads = 0;
    for (int f = 0; f < list->file_count && !*heads; f++) *heads = heads_of(json_get(list->headers[f], "__metadata__"));
    if (!*heads) *heads = heads_of(json);
    int status = json ? check_architecture(json, err) : STATUS_OK;
    cJSON_Delete(json);
    free(text);
    return status;
}

/* ---- the layout ---- */

static void tensor_label(char label[64], const struct unit *unit, const struct weight_row *row)
{
    if (unit->block >= 0) snprintf(label, 64, "h.%d.%s", unit->block, row->name);
    else snprintf(label, 64, "%s", row->name);
}

static const struct weight_row *row_of(int id)
{
    const struct weight_row *row = weight_rows;
    while (row->id != id) row++;
    return row;
}

static int read_sizes(const struct tensor_list *list, struct config_model *shape, struct error *err)
{
    char name[64];
    const struct tensor_entry *tokens = tensor_list_find(list, "wte.weight"),
                              *positions = tensor_list_find(list, "wpe.weight");
    if (!tokens || !positions || tokens->dimensions != 2 || positions->dimensions != 2)
        return error_set(err, STATUS_INPUT, "no GPT-2: it lacks the tables wte.weight and wpe.weight");
    for (const struct tensor_entry *entry = tokens; entry; shape->layers++) {
        snprintf(name, sizeof name, "h.%d.ln_1.weight", shape->layers);
        if (!(entry = tensor_list_find(list, name))) break;
    }
    shape->vocabulary = (int)tokens->shape[0];
    shape->hidden = (int)tokens->shape[1];
    shape->context = (int)positions->shape[0];
    return STATUS_OK;
}

static int place_tensor(struct weights_layout *layout, const struct tensor_list *list, int u,
                        const struct tensor *tensor, struct error *err)
{
    char label[64];
    const struct weight_row *row = row_of(tensor->id);
    tensor_label(label, &layout->model.units[u], row);
    struct tensor_entry *entry = tensor_list_find(list, label);
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
        (struct weights_place){row->transposed, entry->dtype, entry->file, entry->begin};
    return STATUS_OK;
}

static int open_of(const struct tensor_list *list, const struct tensor_entry *entry, const char *path,
                   struct error *err)
{
    uint64_t bytes;
    return weights_open_file(list->files ? list->files[entry->file] : path, &bytes, err);
}

/* Sets *same if both tensors have the same values. STATUS_INPUT: they cannot be read. */
static int compare(bool *same, int head_fd, const struct tensor_entry *head, int tokens_fd,
                   const struct tensor_entry *tokens, struct error *err)
{
    char one[4096], two[4096];
    const uint64_t bytes = head->end - head->begin;
    *same = head->dtype == tokens->dtype && bytes == tokens->end - tokens->begin;
    for (uint64_t at = 0; at < bytes && *same; at += sizeof one) {
        const size_t part = bytes - at < sizeof one ? (size_t)(bytes - at) : sizeof one;
        const bool read = file_get(head_fd, one, part, head->begin + at) == part;
        if (!read || file_get(tokens_fd, two, part, tokens->begin + at) < part)
            return error_set(err, STATUS_INPUT, "its %s cannot be read: %s", read ? "wte.weight" : "lm_head.weight",
                             strerror(errno));
        *same = memcmp(one, two, part) == 0;
    }
    return STATUS_OK;
}

/* An output layer of its own is refused, unless it has the same values as the token embedding. */
static int check_head(const struct tensor_list *list, const char *path, struct error *err)
{
    const struct tensor_entry *head = tensor_list_find(list, "lm_head.weight"),
                              *tokens = tensor_list_find(list, "wte.weight");
    if (!head) return STATUS_OK;
    int fd = open_of(list, head, path, err), other_fd = open_of(list, tokens, path, err), status = STATUS_INPUT;
    bool same = true;
    if (fd >= 0 && other_fd >= 0) status = compare(&same, fd, head, other_fd, tokens, err);
    if (!same)
        status = error_set(err, STATUS_INPUT,
                           "its lm_head.weight differs from wte.weight; only models whose head is tied are there");
    if (fd >= 0) close(fd);
    if (other_fd >= 0) close(other_fd);
    return status;
}

/* Tensors that transformers' GPT-2 saves beside its weights: masks, and the head, which check_head() checks. */
static bool is_known(const char *name)
{
    return text_ends_in(name, ".attn.bias") || text_ends_in(name, ".attn.masked_bias") ||
           text_ends_in(name, "lm_head.weight");
}

/* A tensor that has no place in the model would be lost: a block behind a missing one, or another architecture's. */
static int check_unused(const struct tensor_list *list, struct error *err)
{
    for (int e = 0; e < list->count; e++)
        if (!list->entries[e].used && !is_known(list->entries[e].name))
            return error_set(err, STATUS_INPUT, "no GPT-2: its tensor \"%.80s\" has no place in one",
                             list->entries[e].name);
    return STATUS_OK;
}

static int read_layout(struct weights_layout *layout, const struct tensor_list *list, const char *path,
                       struct error *err)
{
    struct config_model shape = {0};
    int status = read_sizes(list, &shape, err);
    if (!status) status = find_heads(list, path, &shape.heads, err);
    if (!status) status = weights_layout_init(layout, &shape, tensor_list_find(list, "wte.weight")->dtype, err);
    for (int u = 0; u < layout->model.unit_count && !status; u++)
        for (int t = 0; t < layout->model.units[u].tensor_count && !status; t++)
            status = place_tensor(layout, list, u, &layout->model.units[u].tensors[t], err);
    return status ? status : check_unused(list, err);
}

int safetensors_read(struct weights_layout *layout, int fd, uint64_t bytes, const char *path, struct error *err)
{
    struct tensor_list list = {0};
    int status =
        is_index(path) ? tensor_list_read_index(&list, fd, bytes, path, err) : tensor_list_read(&list, fd, bytes, err);
    if (!status) status = read_layout(layout, &list, path, err);
    if (!status) status = check_head(&list, path, err);
    layout->bytes = list.bytes;
    if (list.files) { /* they go on living in the layout */
        layout->files = list.files;
        layout->file_count = list.file_count;
        list.files = NULL;
    }
    tensor_list_release(&list);
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
    fprintf(out, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[%lld", label, safetensors_dtypes[layout->model.dtype],
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
                (struct weights_place){row_of(tensor->id)->transposed, layout->model.dtype, 0, at};
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
