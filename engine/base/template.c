#include "engine/base/template.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/grouped.h"
#include "engine/base/text_stream.h"
#include "engine/base/words.h"

enum { NAME_ROOM = 96 };

/* An object, and the one around it. */
struct scope {
    const cJSON *object;
    const struct scope *around;
};

struct writer {
    FILE *out;
    int column;
};

/* What stands between braces. */
struct field {
    char mark; /* # ? ! + - ~ / or 0: a value */
    char name[NAME_ROOM], by[NAME_ROOM], otherwise[NAME_ROOM];
    bool may_lack, sign;
    int width, places;
    char how;
};

/* ---- reading ---- */

/* Copies up to one of these characters; returns where that is. */
static const char *take(char out[NAME_ROOM], const char *at, const char *until)
{
    const size_t length = strcspn(at, until);
    snprintf(out, NAME_ROOM, "%.*s", (int)length, at);
    return at + length;
}

/* After the opening brace; returns what follows the closing one. */
static const char *read_field(struct field *field, const char *at)
{
    char *end;
    *field = (struct field){.otherwise = "n/a"};
    if (*at && strchr("#?!+-~/", *at)) field->mark = *at++;
    at = take(field->name, at, "/:|}");
    if (*at == '/') at = take(field->by, at + 1, ":|}");
    if (*at == ':') {
        field->sign = *++at == '+';
        at += field->sign;
        field->width = (int)strtol(at, &end, 10);
        if (*end == '.') field->places = (int)strtol(end + 1, &end, 10);
        if (!strchr("|}", *end)) field->how = *end++;
        at = end;
    }
    field->may_lack = *at == '|';
    if (field->may_lack) at = take(field->otherwise, at + 1, "}");
    return at + (*at == '}');
}

/* NULL: no object has such a member. Null, where it is a member of null. A name may itself begin with a dot. */
static const cJSON *member(const struct scope *scope, const char *path)
{
    for (; scope; scope = scope->around) {
        const cJSON *item = scope->object;
        char name[NAME_ROOM];
        for (const char *at = path; item && !cJSON_IsNull(item) && *at;) {
            const size_t length = 1 + strcspn(at + 1, ".");
            snprintf(name, sizeof name, "%.*s", (int)length, at);
            item = json_get(item, name);
            at += length + (at[length] == '.');
        }
        if (item) return item;
    }
    return NULL;
}

/* ---- writing ---- */

static bool is_there(const cJSON *item)
{
    if (!item || cJSON_IsNull(item) || cJSON_IsFalse(item)) return false;
    if (cJSON_IsString(item)) return *item->valuestring;
    return cJSON_IsNumber(item) || cJSON_IsTrue(item) || item->child;
}

/* False: it is no number. */
static bool write_number(char text[64], const struct field *field, double value)
{
    const int places = field->places;
    if (!isfinite(value)) return false;
    switch (field->how) {
    case ',': grouped(text, llround(value)); break;
    case '%': snprintf(text, 64, field->sign ? "%+.*f %%" : "%.*f %%", places, 100 * value); break;
    case 'm': snprintf(text, 64, "%.*f", places, 1e3 * value); break;
    case 'M': snprintf(text, 64, "%.*f", places, value / 1e6); break;
    case 'B': snprintf(text, 64, "%.*f", places, value / 1e9); break;
    case 'G': snprintf(text, 64, "%.*f GB", value < 1e10 ? 2 : 1, value / 1e9); break;
    case 'g': snprintf(text, 64, field->sign ? "%+.*g" : "%.*g", places, value); break;
    case 's': snprintf(text, 64, "%s", value == 1 ? "" : "s"); break;
    default: snprintf(text, 64, field->sign ? "%+.*f" : "%.*f", places, value);
    }
    return true;
}

static void write_value(struct writer *writer, const struct field *field, const struct scope *scope)
{
    const cJSON *item = member(scope, field->name), *by = *field->by ? member(scope, field->by) : NULL;
    const bool lacks = !item || (*field->by && !by) || cJSON_IsObject(item) || cJSON_IsArray(item);
    char number[64];
    const char *text = number;
    if (lacks && !field->may_lack) snprintf(number, sizeof number, "{%.60s}", field->name);
    else if (lacks || cJSON_IsNull(item)) text = field->otherwise;
    else if (cJSON_IsString(item)) text = *item->valuestring ? item->valuestring : field->otherwise;
    else if (cJSON_IsBool(item)) text = cJSON_IsTrue(item) ? "true" : "false";
    else if (!write_number(number, field, by ? item->valuedouble / by->valuedouble : item->valuedouble)) text = field->otherwise;
    const int most = cJSON_IsString(item) && field->places ? field->places : -1;
    writer->column += fprintf(writer->out, "%*.*s", field->width, most, text);
}

static const char *write_part(struct writer *writer, const char *at, const struct scope *scope);

static const char *write_each(struct writer *writer, const char *at, const struct scope *scope, const cJSON *list, int most)
{
    const cJSON *item = cJSON_IsArray(list) ? list->child : cJSON_IsObject(list) ? list : NULL;
    for (int count = 0; item && count < most; count++) {
        write_part(writer, at, &(struct scope){item, scope});
        item = cJSON_IsArray(list) ? item->next : NULL;
    }
    return write_part(writer, at, NULL);
}

static const char *write_words(struct writer *writer, const char *at, const struct scope *scope, int hang)
{
    struct text_stream words = {0};
    struct writer inner = {.out = scope ? text_stream_open(&words) : NULL};
    at = write_part(&inner, at, inner.out ? scope : NULL);
    char *text = text_stream_close(&words);
    if (!text) return at;
    words_print(writer->out, writer->column, hang ? hang : writer->column, text);
    writer->column = 0;
    free(text);
    return at;
}

/* Up to the end, or after the closing {/}. scope NULL: writes nothing. */
static const char *write_part(struct writer *writer, const char *at, const struct scope *scope)
{
    while (*at) {
        struct field field;
        if (*at != '{') {
            if (scope) putc(*at, writer->out), writer->column = *at == '\n' ? 0 : writer->column + 1;
            at++;
            continue;
        }
        at = read_field(&field, at + 1);
        const cJSON *item = member(scope, field.name);
        const bool counts = cJSON_IsNumber(item) && item->valuedouble != 0;
        switch (field.mark) {
        case '/': return at;
        case '~': at = write_words(writer, at, scope, field.width); break;
        case '#': at = write_each(writer, at, scope, item, field.width ? field.width : INT_MAX); break;
        case '?': at = write_part(writer, at, is_there(item) ? scope : NULL); break;
        case '!': at = write_part(writer, at, is_there(item) ? NULL : scope); break;
        case '+': at = write_part(writer, at, counts ? scope : NULL); break;
        case '-': at = write_part(writer, at, counts ? NULL : scope); break;
        default:
            if (scope) write_value(writer, &field, scope);
        }
    }
    return at;
}

void template_print(FILE *out, const char *page, const cJSON *facts)
{
    write_part(&(struct writer){.out = out}, page, &(struct scope){facts, NULL});
}

cJSON *template_strip(cJSON *facts)
{
    for (cJSON *item = facts ? facts->child : NULL, *next; item; item = next) {
        next = item->next;
        const bool of_text = (item->string && item->string[0] == '.') || json_get(item, ".");
        if (of_text) cJSON_Delete(cJSON_DetachItemViaPointer(facts, item));
        else template_strip(item);
    }
    return facts;
}

int template_answer(FILE *out, bool as_json, const char *page, cJSON *facts, struct error *err)
{
    if (!facts) return error_set(err, STATUS_RUN, "no memory to print figures");
    if (as_json) return json_print(out, template_strip(facts), err);
    template_print(out, page, facts);
    cJSON_Delete(facts);
    return STATUS_OK;
}
