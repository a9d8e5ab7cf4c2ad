/* What all printers and readers of JSON share: members that may be unknown, objects in a list, and the whole as text. */
#ifndef ENGINE_BASE_JSON_H
#define ENGINE_BASE_JSON_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "engine/base/error.h"

/* null where it is not known, or not finite. */
void json_number(cJSON *object, const char *name, bool known, double value);
/* null where it is NULL or empty. */
void json_text(cJSON *object, const char *name, const char *text);

/* Members in this order: json_put(object, NUMBER("rank", rank), TEXT("tier", tier_name(tier))). Of what may be unknown NUMBER_IF()
 * and TEXT_IF() are as the functions above; TEXT_SOME() leaves out what is empty. */
struct json_member { const char *name; enum { JSON_NUMBER, JSON_TEXT, JSON_TEXT_IF, JSON_TEXT_SOME, JSON_TRUTH } kind; bool known; double number; const char *text; };
#define NUMBER(name, value)           NUMBER_IF(name, true, value)
#define NUMBER_IF(name, known, value) {name, JSON_NUMBER, known, (double)(value), NULL}
#define TEXT(name, value)             {name, JSON_TEXT, true, 0, value}
#define TEXT_IF(name, value)          {name, JSON_TEXT_IF, true, 0, value}
#define TEXT_SOME(name, value)        {name, JSON_TEXT_SOME, true, 0, value}
#define TRUTH(name, value)            {name, JSON_TRUTH, value, 0, NULL}
#define json_put(object, ...)         json_put_members(object, (const struct json_member[]){__VA_ARGS__, {.name = NULL}})
#define json_object(...)              json_put(cJSON_CreateObject(), __VA_ARGS__) /* the caller frees */
cJSON *json_put_members(cJSON *object, const struct json_member *members); /* up to one without a name; returns `object` */

/* A new object at the end of a list; NULL of no list. All of these take NULL for an object, and add nothing then. */
cJSON *json_item(cJSON *list);

/* A member of an object; NULL: there is none such, or it is no text. */
const cJSON *json_get(const cJSON *object, const char *name);
const char *json_get_text(const cJSON *object, const char *name);
/* ... copied, cut to fit; "": none. */
void json_copy_text(char *out, size_t room, const cJSON *object, const char *name);
/* ... a number from 0 to `most`; else `otherwise`. */
double json_get_number(const cJSON *object, const char *name, double most, double otherwise);

/* Frees `json`. Text for terminals (printable_json()), on lines of its own or, for json_print(), as one line; NULL or STATUS_RUN: no
 * memory. */
char *json_lines(cJSON *json);
int json_print(FILE *out, cJSON *json, struct error *err);

#endif
