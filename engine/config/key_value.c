/* Values of configuration keys: JSON to a field of struct config and back, with type and range checked on the way. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "engine/base/words.h"
#include "engine/config/hjson.h"
#include "engine/config/keys.h"
#include "engine/config/number.h"
#include "engine/config/resolve.h"

static int refuse(const struct config_key *key, const cJSON *item, struct error *err)
{
    static const char *const types[] = {
        [KEY_BOOL] = "true or false",
        [KEY_INT] = "an integer",
        [KEY_INT64] = "an integer",
        [KEY_UINT64] = "an integer",
        [KEY_FLOAT] = "a number",
        [KEY_DOUBLE] = "a number",
        [KEY_PAIR] = "two numbers",
        [KEY_TEXT] = "a string",
        [KEY_NAMES] = "a list of names",
        [KEY_CHOICE] = "one of",
        [KEY_BYTES] = "bytes, or a size such as \"256MiB\"",
        [KEY_BANDWIDTH] = "bytes per second, or a size such as \"2GB\"",
        [KEY_SECONDS] = "seconds, or a time such as \"20us\"",
        [KEY_OBJECT] = "a section { ... }",
        [KEY_ANY] = "anything",
    };
    char shown[64];
    bool with_range = key->class == CLASS_HONOURED && key->range[0], open = with_range && key->range[0] == '>';
    return error_set(err, STATUS_USAGE, "%s = %s: must be %s%s%s%s", key->path, hjson_show(item, shown, sizeof shown),
                     types[key->type], with_range ? " " : "", with_range ? key->range : "",
                     open && key->type == KEY_INT64 ? ", at most 9223372036854775807" : "");
}

/* "1..64", "0..<1", ">=0", ">0", "": bounds are small, so long double holds them and the value exactly enough. */
static bool in_range(const char *range, long double value)
{
    if (range[0] == '\0') return true;
    if (range[0] == '>') return range[1] == '=' ? value >= strtold(range + 2, NULL) : value > strtold(range + 1, NULL);
    const char *high = strstr(range, "..") + 2;
    bool open = *high == '<';
    return value >= strtold(range, NULL) && (open ? value < strtold(high + 1, NULL) : value <= strtold(high, NULL));
}

/* The place of a word in "a|b|c", ignoring case; -1 if it is not there. */
static int choice_of(const char *choices, const char *word)
{
    for (int n = 0; *choices; n++) {
        size_t length = strcspn(choices, "|");
        if (strlen(word) == length && strncasecmp(choices, word, length) == 0) return n;
        choices += length + (choices[length] == '|');
    }
    return -1;
}

static bool read_int64(const cJSON *item, int64_t *value)
{
    const char *text = hjson_number(item);
    bool negative;
    uint64_t magnitude;
    if (!text || !number_integer(text, &negative, &magnitude) || magnitude > INT64_MAX) return false;
    *value = negative ? -(int64_t)magnitude : (int64_t)magnitude;
    return true;
}

static bool read_uint64(const cJSON *item, uint64_t *value)
{
    const char *text = hjson_number(item);
    bool negative;
    return text && number_integer(text, &negative, value) && !(negative && *value);
}

static bool read_double(const cJSON *item, double *value)
{
    const char *text = hjson_number(item);
    if (!text) return false;
    *value = strtod(text, NULL);
    return isfinite(*value);
}

/* Sizes and times: the text of a number, or a string with a unit. */
static const char *quantity(const cJSON *item)
{
    const char *text = hjson_number(item);
    return text ? text : hjson_string(item) ? hjson_string(item) : "";
}

/* One read value, in the shape of its field. */
union field {
    bool boolean;
    int integer;
    int64_t integer64;
    uint64_t unsigned64;
    float single;
    double reals[2];
    double real;
    char text[4096];
};

static bool read_float(const struct config_key *key, const cJSON *item, float *value)
{
    double real;
    if (!read_double(item, &real) || !in_range(key->range, real) || fabs(real) > 3e38) return false;
    *value = (float)real;
    return true;
}

static bool read_pair(const struct config_key *key, const cJSON *item, double values[2])
{
    return cJSON_IsArray(item) && cJSON_GetArraySize(item) == 2 && read_double(item->child, &values[0]) &&
           read_double(item->child->next, &values[1]) && in_range(key->range, values[0]) &&
           in_range(key->range, values[1]);
}

static bool read_names(const struct config_key *key, const cJSON *item, char *text)
{
    const cJSON *name;
    size_t used = 0;
    *text = '\0';
    cJSON_ArrayForEach(name, item)
    {
        const char *string = hjson_string(name);
        if (!string || strchr(string, '\n') || used + strlen(string) + 2 > key->size) return false;
        used += (size_t)sprintf(text + used, "%s\n", string);
    }
    return cJSON_IsArray(item);
}

static bool read_field(const struct config_key *key, const cJSON *item, union field *field)
{
    const char *range = key->class == CLASS_HONOURED ? key->range : "";
    const char *string = hjson_string(item);
    int64_t integer;
    switch (key->type) {
    case KEY_BOOL: return field->boolean = cJSON_IsTrue(item), cJSON_IsBool(item);
    case KEY_INT:
        if (!read_int64(item, &integer) || !in_range(range, integer)) return false;
        if (integer < INT_MIN || integer > INT_MAX) return false;
        field->integer = (int)integer;
        return true;
    case KEY_INT64: return read_int64(item, &field->integer64) && in_range(range, field->integer64);
    case KEY_UINT64: return read_uint64(item, &field->unsigned64);
    case KEY_FLOAT: return read_float(key, item, &field->single);
    case KEY_DOUBLE: return read_double(item, &field->real) && in_range(range, field->real);
    case KEY_PAIR: return read_pair(key, item, field->reals);
    case KEY_TEXT:
        if (!string || strlen(string) >= (key->size ? key->size : sizeof field->text)) return false;
        memcpy(field->text, string, strlen(string) + 1);
        return true;
    case KEY_NAMES: return read_names(key, item, field->text);
    case KEY_CHOICE:
        if (key->class != CLASS_HONOURED) return string != NULL;
        return string && (field->integer = choice_of(range, string)) >= 0;
    case KEY_BYTES: return number_bytes(quantity(item), &field->unsigned64) && in_range(range, field->unsigned64);
    case KEY_BANDWIDTH:
        if (!number_bytes(quantity(item), &field->unsigned64)) return false;
        field->real = (double)field->unsigned64;
        return true;
    case KEY_SECONDS: return number_seconds(quantity(item), &field->real);
    case KEY_OBJECT: return cJSON_IsObject(item);
    case KEY_ANY: return true;
    }
    return false;
}

int key_read(const struct config_key *key, const cJSON *item, struct config *config, struct error *err)
{
    union field field;
    if (!read_field(key, item, &field)) return refuse(key, item, err);
    if (!config || key->class != CLASS_HONOURED) return STATUS_OK;
    bool text = key->type == KEY_TEXT || key->type == KEY_NAMES;
    size_t bytes = key->type == KEY_PAIR ? 2 * key->size : text ? strlen(field.text) + 1 : key->size;
    memcpy((char *)config + key->offset, &field, bytes);
    return STATUS_OK;
}

int key_read_text(const struct config_key *key, const char *text, struct config *config, struct error *err)
{
    cJSON *item = hjson_value(text);
    const int status = item ? key_read(key, item, config, err) : config_no_memory(err);
    cJSON_Delete(item);
    return status;
}

int key_read_default(const struct config_key *key, struct config *config, struct error *err)
{
    struct config_key plain = *key;
    if (key->type != KEY_CHOICE) plain.range = "";
    return key_read_text(&plain, key->value, config, err);
}

bool key_is_zero(const struct config_key *key, const struct config *config)
{
    static const char zeros[sizeof(uint64_t)];
    return key->size <= sizeof zeros && memcmp((const char *)config + key->offset, zeros, key->size) == 0;
}

__attribute__((format(printf, 1, 2))) static cJSON *raw(const char *format, ...)
{
    char text[96];
    FORMAT_ARGUMENTS(text, sizeof text, format);
    return cJSON_CreateRaw(text);
}

/* The fewest digits that read back as the same number: 0.9 and not 0.899999976. */
static const char *shortest(double value, bool single, char text[32])
{
    if (value == floor(value) && fabs(value) < 1e9) return snprintf(text, 32, "%.0f", value), text; /* 20, not 2e+01 */
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, 32, "%.*g", digits, value);
        double back = strtod(text, NULL);
        if (single ? (float)back == (float)value : back == value) break;
    }
    return text;
}

static cJSON *choice_to_json(const char *choices, int number)
{
    char text[64];
    while (number-- > 0) choices += strcspn(choices, "|") + 1;
    snprintf(text, sizeof text, "%.*s", (int)strcspn(choices, "|"), choices);
    return cJSON_CreateString(text);
}

static cJSON *names_to_json(const char *names)
{
    cJSON *list = cJSON_CreateArray();
    for (; *names; names += strcspn(names, "\n") + 1) {
        char name[256];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(names, "\n"), names);
        cJSON_AddItemToArray(list, cJSON_CreateString(name));
    }
    return list;
}

cJSON *key_to_json(const struct config_key *key, const struct config *config)
{
    const void *field = (const char *)config + key->offset;
    char text[32], second[32];
    switch (key->type) {
    case KEY_BOOL: return cJSON_CreateBool(*(const bool *)field);
    case KEY_INT: return raw("%d", *(const int *)field);
    case KEY_INT64: return raw("%lld", (long long)*(const int64_t *)field);
    case KEY_UINT64:
    case KEY_BYTES: return raw("%llu", (unsigned long long)*(const uint64_t *)field);
    case KEY_FLOAT: return raw("%s", shortest((double)*(const float *)field, true, text));
    case KEY_DOUBLE:
    case KEY_BANDWIDTH:
    case KEY_SECONDS: return raw("%s", shortest(*(const double *)field, false, text));
    case KEY_PAIR:
        return raw("[%s, %s]", shortest(((const double *)field)[0], false, text),
                   shortest(((const double *)field)[1], false, second));
    case KEY_TEXT: return cJSON_CreateString(field);
    case KEY_NAMES: return names_to_json(field);
    case KEY_CHOICE: return choice_to_json(key->range, *(const int *)field);
    case KEY_OBJECT:
    case KEY_ANY: break;
    }
    return cJSON_CreateNull();
}

void key_show(const struct config_key *key, const struct config *config, char *text, size_t room)
{
    const void *field = (const char *)config + key->offset;
    if (key->type == KEY_BYTES && number_show(text, room, (double)*(const uint64_t *)field, false)) return;
    if (key->type == KEY_BANDWIDTH && number_show(text, room, *(const double *)field, false)) return;
    if (key->type == KEY_SECONDS && number_show(text, room, *(const double *)field, true)) return;
    cJSON *item = key_to_json(key, config);
    char *json = cJSON_IsString(item) ? NULL : cJSON_PrintUnformatted(item);
    snprintf(text, room, "%s", cJSON_IsString(item) ? item->valuestring : json ? json : "");
    cJSON_free(json);
    cJSON_Delete(item);
}

bool key_differs(const struct config_key *key, const struct config *a, const struct config *b, char *in_a, char *in_b,
                 size_t room)
{
    if (key->class != CLASS_HONOURED) return false;
    key_show(key, a, in_a, room);
    key_show(key, b, in_b, room);
    return strcmp(in_a, in_b) != 0;
}
