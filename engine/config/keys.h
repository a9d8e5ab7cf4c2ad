/* config_keys.def as a table of rows, and functions to find a row and to parse, store and print its value. */
#pragma once

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>

#include "engine/config/config.h"

enum key_type {
    KEY_BOOL, KEY_INT, KEY_INT64, KEY_UINT64, KEY_FLOAT, KEY_DOUBLE,
    KEY_PAIR,      /* two doubles */
    KEY_TEXT,
    KEY_NAMES,     /* a list of strings, kept as text with one a line */
    KEY_CHOICE,    /* an enum; the range names its values in order */
    KEY_BYTES,     /* uint64_t from "256MiB" */
    KEY_BANDWIDTH, /* double, bytes per second, from "2GB" */
    KEY_SECONDS,   /* double from "20us" */
    KEY_OBJECT, KEY_ANY,
};

/* config_keys.def says what each class means. */
enum key_class { CLASS_HONOURED, CLASS_FIXED, CLASS_INERT, CLASS_QUIET, CLASS_SWITCH, CLASS_OPAQUE, CLASS_ALIAS };

struct config_key {
    const char *path;
    enum key_type type;
    enum key_class class;
    size_t offset, size;  /* of the field in struct config (honoured keys) */
    const char *value;    /* default; FIXED: the accepted value; INERT: the value for which no note is printed; ALIAS: the real key */
    const char *range;
    bool live;
    const char *text;     /* help, or the reason */
};

enum { CONFIG_KEYS_MAX = 512 };

extern const struct config_key config_keys[];
extern const int config_key_count;

/* The row of a full path, or -1. */
int key_index(const char *path);

/* "prefix.name"; no prefix: "name". */
void key_join(char path[CONFIG_PATH_MAX], const char *prefix, const char *name);

/* Whether a path is a section, the part of a key's path before a dot ("zero_optimization"). */
bool key_is_section(const char *path);

/* The last word of a path. */
const char *key_leaf(const char *path);

/* A short name for a key: its last word, or two words if one is unclear ("pcie.bandwidth"); for a key `device`, its
 * section ("offload_optimizer"). */
void key_short_name(char *name, size_t room, const char *path);

/* The unit of a key's value: "elements", "samples", "/s"; "": none, or the value includes it. */
const char *key_unit(const char *path);

/* Whether an honoured key's value, as key_show() writes it, is the table's default. */
bool key_is_default(const struct config_key *key, const char *value);

/* STATUS_USAGE "path: unknown key; did you mean ...". */
int key_unknown(const char *path, struct error *err);

/* Checks the item against the row's type and range and, for honoured keys with a config, stores it. */
int key_read(const struct config_key *key, const cJSON *item, struct config *config, struct error *err);

/* The same for a value as typed after `=`; and for the default, which may be out of range: 0 stands for "not given" there. */
int key_read_text(const struct config_key *key, const char *text, struct config *config, struct error *err);
int key_read_default(const struct config_key *key, struct config *config, struct error *err);

/* Whether a key's field in config is zero. */
bool key_is_zero(const struct config_key *key, const struct config *config);

/* The value of an honoured key as JSON; numbers are exact. */
cJSON *key_to_json(const struct config_key *key, const struct config *config);

/* The same as text, as a user would type it: sizes and times have a unit if that is exact. */
void key_show(const struct config_key *key, const struct config *config, char *text, size_t room);

/* Whether an honoured key's values in a and b differ; if so, formats both. */
bool key_differs(const struct config_key *key, const struct config *a, const struct config *b, char *in_a, char *in_b, size_t room);
