/* DeepSpeed's configuration files are Hjson in practice: JSON with comments, trailing commas, line breaks in place of
 * commas, unquoted keys and single quotes. This reads them into a cJSON tree by rewriting the text to plain JSON first.
 * Every number becomes a raw item with its text, because cJSON would keep it as a double; hjson_number() returns that text. */
#pragma once

#include <cjson/cJSON.h>
#include <stddef.h>

#include "engine/base/error.h"

/* Reads `length` bytes, with a NUL after them, into *tree (cJSON_Delete). STATUS_INPUT names the line;
 * a key given twice is an error too. */
int hjson_parse(cJSON **tree, const char *text, size_t length, struct error *err);

/* Parses JSON into a tree that prints every number exactly as in the text; NULL: not JSON, or no memory. cJSON would
 * round integers of more than 15 digits, such as seeds and "no limit". */
cJSON *hjson_exact(const char *text);

/* A value as typed after `=`: JSON if it is JSON ("true", "[0.9, 0.95]", "5e8"), else a string (nano, 256MiB, a path).
 * NULL only without memory. */
cJSON *hjson_value(const char *text);

/* The text of a number, NULL if the item is not one. */
const char *hjson_number(const cJSON *item);

/* The text of a string; NULL: the item is no string. */
const char *hjson_string(const cJSON *item);

/* Whether a value means "off" in DeepSpeed's files: false, null, "none", "auto", empty objects and lists. */
int hjson_is_off(const cJSON *item);

/* Formats a value for messages, cut to `room` bytes. */
const char *hjson_show(const cJSON *item, char *text, size_t room);
