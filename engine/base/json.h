/* What all printers of JSON share: members that may be unknown, objects in a list, and the whole as text. */
#ifndef ENGINE_BASE_JSON_H
#define ENGINE_BASE_JSON_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "engine/base/error.h"

/* null where it is not known, or not finite. */
void json_number(cJSON *object, const char *name, bool known, double value);
void json_bytes(cJSON *object, const char *name, uint64_t bytes);
/* null where it is NULL or empty; json_some_text() leaves it out there. */
void json_text(cJSON *object, const char *name, const char *text);
void json_some_text(cJSON *object, const char *name, const char *text);

/* A new object at the end of a list; NULL of no list. All of these take NULL for an object, and add nothing then. */
cJSON *json_item(cJSON *list);

/* Frees `json`. Text for terminals (printable_json()), on lines of its own or, for json_print(), as one line; NULL or STATUS_RUN: no
 * memory. */
char *json_lines(cJSON *json);
int json_print(FILE *out, cJSON *json, struct error *err);

#endif
