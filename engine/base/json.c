#include "engine/base/json.h"

#include <math.h>
#include <stdlib.h>

#include "engine/base/printable.h"

void json_number(cJSON *object, const char *name, bool known, double value)
{
    if (known && isfinite(value)) cJSON_AddNumberToObject(object, name, value);
    else cJSON_AddNullToObject(object, name);
}

void json_text(cJSON *object, const char *name, const char *text)
{
    if (text && *text) cJSON_AddStringToObject(object, name, text);
    else cJSON_AddNullToObject(object, name);
}

static void put(cJSON *object, const struct json_member *member)
{
    switch (member->kind) {
    case JSON_NUMBER: json_number(object, member->name, member->known, member->number); break;
    case JSON_TEXT: cJSON_AddStringToObject(object, member->name, member->text); break;
    case JSON_TEXT_IF: json_text(object, member->name, member->text); break;
    case JSON_TEXT_SOME:
        if (*member->text) cJSON_AddStringToObject(object, member->name, member->text);
        break;
    case JSON_TRUTH: cJSON_AddBoolToObject(object, member->name, member->known); break;
    }
}

cJSON *json_put_members(cJSON *object, const struct json_member *members)
{
    for (; members->name; members++) put(object, members);
    return object;
}

cJSON *json_item(cJSON *list)
{
    cJSON *item = list ? cJSON_CreateObject() : NULL;
    cJSON_AddItemToArray(list, item);
    return item;
}

const cJSON *json_get(const cJSON *object, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(object, name);
}

const char *json_get_text(const cJSON *object, const char *name)
{
    return cJSON_GetStringValue(json_get(object, name));
}

void json_copy_text(char *out, size_t room, const cJSON *object, const char *name)
{
    const char *text = json_get_text(object, name);
    snprintf(out, room, "%s", text ? text : "");
}

double json_get_number(const cJSON *object, const char *name, double most, double otherwise)
{
    const cJSON *item = json_get(object, name);
    return cJSON_IsNumber(item) && item->valuedouble >= 0 && item->valuedouble <= most ? item->valuedouble : otherwise;
}

char *json_lines(cJSON *json)
{
    char *text = printable_json(cJSON_Print(json));
    cJSON_Delete(json);
    return text;
}

int json_print(FILE *out, cJSON *json, struct error *err)
{
    char *text = printable_json(cJSON_PrintUnformatted(json));
    cJSON_Delete(json);
    if (!text) return error_set(err, STATUS_RUN, "no memory to print JSON");
    fprintf(out, "%s\n", text);
    free(text);
    return STATUS_OK;
}
