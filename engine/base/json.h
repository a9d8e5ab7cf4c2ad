/* Helpers around cJSON: add and read members that may be unknown, add objects to lists, print. */
#pragma once

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdio.h>

#include "engine/base/error.h"

/* Adds a number; null if it is not known or not finite. */
void json_number(cJSON *object, const char *name, bool known, double value);
/* Adds a string; null if `text` is NULL or empty. */
void json_text(cJSON *object, const char *name, const char *text);

/* Adds members in this order: json_put(object, NUMBER("rank", rank), TEXT("tier", tier_name(tier))). NUMBER_IF() and
 * TEXT_IF() write null as json_number() and json_text() do. TEXT_SOME() adds nothing for an empty text. */
struct json_member { const char *name; enum { JSON_NUMBER, JSON_TEXT, JSON_TEXT_IF, JSON_TEXT_SOME, JSON_TRUTH } kind; bool known; double number; const char *text; };
#define NUMBER(name, value)           NUMBER_IF(name, true, value)
#define NUMBER_IF(name, known, value) {name, JSON_NUMBER, known, (double)(value), NULL}
#define TEXT(name, value)             {name, JSON_TEXT, true, 0, value}
#define TEXT_IF(name, value)          {name, JSON_TEXT_IF, true, 0, value}
#define TEXT_SOME(name, value)        {name, JSON_TEXT_SOME, true, 0, value}
#define TRUTH(name, value)            {name, JSON_TRUTH, value, 0, NULL}
#define json_put(object, ...)         json_put_members(object, (const struct json_member[]){__VA_ARGS__, {.name = NULL}})
#define json_object(...)              json_put(cJSON_CreateObject(), __VA_ARGS__) /* the caller frees */
cJSON *json_put_members(cJSON *object, const struct json_member *members); /* ended by a NULL name; returns `object` */

/* Appends a new object to a list; NULL if `list` is NULL. All functions above accept NULL for `object` and then add nothing. */
cJSON *json_item(cJSON *list);

/* A member of an object, or its text; NULL if there is none, or if it is not text. */
const cJSON *json_get(const cJSON *object, const char *name);
const char *json_get_text(const cJSON *object, const char *name);
/* Copies the text of a member, cut to fit; "" if there is none. */
void json_copy_text(char *out, size_t room, const cJSON *object, const char *name);
/* The value of a member that is a number from 0 to `most`; else `otherwise`. */
double json_get_number(const cJSON *object, const char *name, double most, double otherwise);

/* Both free `json` and escape control characters (printable_json()). json_lines() returns indented text that the caller
 * frees, or NULL without memory. json_print() prints one line; STATUS_RUN: no memory. */
char *json_lines(cJSON *json);
int json_print(FILE *out, cJSON *json, struct error *err);
