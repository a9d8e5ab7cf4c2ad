#include "engine/config/hjson.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "engine/config/number.h"

/* First byte of the string that stands for a number. Raw control characters are refused inside strings. */
enum { NUMBER_MARK = '\x01' };

/* Rewriting: one pass from `at`, output appended to `out`. `last` is where the last character that is neither space nor
 * comment went, so that a comma can be taken back when a closing bracket follows it; `last_line` is where that token began. */
struct rewrite {
    const char *at, *end;
    char *out;
    size_t length, last;
    int line, last_line;
};

static void emit(struct rewrite *rewrite, char c)
{
    rewrite->out[rewrite->length++] = c;
}

static char peek(const struct rewrite *rewrite, size_t ahead)
{
    return (size_t)(rewrite->end - rewrite->at) > ahead ? rewrite->at[ahead] : '\0';
}

/* Spaces and comments: only the line breaks are kept, so that lines keep their numbers. */
static int skip_space(struct rewrite *rewrite, struct error *err)
{
    for (; rewrite->at < rewrite->end; rewrite->at++) {
        char c = *rewrite->at;
        if (c == '#' || (c == '/' && peek(rewrite, 1) == '/')) {
            while (rewrite->at < rewrite->end && *rewrite->at != '\n') rewrite->at++;
            rewrite->at--;
        } else if (c == '/' && peek(rewrite, 1) == '*') {
            int opened = rewrite->line;
            for (rewrite->at += 2; !(peek(rewrite, 0) == '*' && peek(rewrite, 1) == '/'); rewrite->at++) {
                if (rewrite->at >= rewrite->end)
                    return error_set(err, STATUS_INPUT, "line %d: comment without end", opened);
                if (*rewrite->at == '\n') rewrite->line++, emit(rewrite, '\n');
            }
            rewrite->at++;
        } else if (c == '\n') {
            rewrite->line++;
            emit(rewrite, '\n');
        } else if (c != ' ' && c != '\t' && c != '\r') {
            break;
        }
    }
    return STATUS_OK;
}

/* 'text' is as good as "text". */
static int copy_string(struct rewrite *rewrite, struct error *err)
{
    const char quote = *rewrite->at++;
    emit(rewrite, '"');
    while (rewrite->at < rewrite->end && *rewrite->at != quote && (unsigned char)*rewrite->at >= ' ') {
        const char c = *rewrite->at++;
        if (c == '\\' && rewrite->at < rewrite->end) {
            if (*rewrite->at != '\'') emit(rewrite, c);
            emit(rewrite, *rewrite->at++);
        } else {
            if (c == '"' && quote == '\'') emit(rewrite, '\\');
            emit(rewrite, c);
        }
    }
    if (peek(rewrite, 0) != quote) return error_set(err, STATUS_INPUT, "line %d: string without end", rewrite->line);
    rewrite->at++;
    emit(rewrite, '"');
    return STATUS_OK;
}

static void emit_quoted(struct rewrite *rewrite, const char *mark, const char *word, size_t length)
{
    emit(rewrite, '"');
    if (*mark) emit(rewrite, *mark);
    memcpy(rewrite->out + rewrite->length, word, length);
    rewrite->length += length;
    emit(rewrite, '"');
}

/* A number, a literal, or a key without quotes. */
static int copy_word(struct rewrite *rewrite, struct error *err)
{
    static const char mark[] = {NUMBER_MARK, '\0'};
    const char *word = rewrite->at;
    size_t length = 0;
    while (isalnum((unsigned char)peek(rewrite, length)) ||
           (peek(rewrite, length) && strchr("_-+.$", peek(rewrite, length))))
        length++;
    if (length == 0)
        return error_set(err, STATUS_INPUT, "line %d: unexpected character '%c'", rewrite->line,
                         isprint((unsigned char)*word) ? *word : '?');
    rewrite->at += length;
    int line = rewrite->line;
    int status = skip_space(rewrite, err); /* looks ahead; the line breaks go in front of the word */
    if (status) return status;
    if (peek(rewrite, 0) == ':') emit_quoted(rewrite, "", word, length);
    else if (number_length(word) == length) emit_quoted(rewrite, mark, word, length);
    else if ((length == 4 && (!memcmp(word, "true", 4) || !memcmp(word, "null", 4))) ||
             (length == 5 && !memcmp(word, "false", 5)))
        memcpy(rewrite->out + rewrite->length, word, length), rewrite->length += length;
    else
        return error_set(err, STATUS_INPUT,
                         "line %d: %.*s is neither a number nor true, false or null; put text in double quotes", line,
                         (int)(length > 40 ? 40 : length), word);
    return STATUS_OK;
}

static int copy_punctuation(struct rewrite *rewrite, struct error *err)
{
    char c = *rewrite->at++;
    char before = rewrite->length ? rewrite->out[rewrite->last] : '\0';
    if ((c == '}' || c == ']') && before == ',') rewrite->out[rewrite->last] = ' ';
    if (c == ',' && (before == ',' || before == '{' || before == '['))
        return error_set(err, STATUS_INPUT, "line %d: a comma too many", rewrite->line);
    emit(rewrite, c);
    return STATUS_OK;
}

static int rewrite_all(struct rewrite *rewrite, struct error *err)
{
    for (;;) {
        int status = skip_space(rewrite, err);
        if (status) return status;
        if (rewrite->at >= rewrite->end) break;
        const char c = *rewrite->at, before = rewrite->length ? rewrite->out[rewrite->last] : ',';
        if (rewrite->line > rewrite->last_line && !strchr("{[,:", before) && !strchr("}],:", c))
            emit(rewrite, ','); /* a line break is as good as a comma between two members */
        rewrite->last_line = rewrite->line;
        if (c == '"' || c == '\'') status = copy_string(rewrite, err);
        else if (c && strchr("{}[],:", c)) status = copy_punctuation(rewrite, err);
        else status = copy_word(rewrite, err);
        if (status) return status;
        rewrite->last = rewrite->length - 1;
    }
    emit(rewrite, '\0');
    return STATUS_OK;
}

static int refuse_duplicates(const cJSON *item, struct error *err)
{
    for (const cJSON *child = item->child; child; child = child->next) {
        if (child->string)
            for (const cJSON *other = child->next; other; other = other->next)
                if (strcmp(child->string, other->string) == 0)
                    return error_set(err, STATUS_INPUT, "\"%.60s\" is given twice in one section", child->string);
        int status = refuse_duplicates(child, err);
        if (status) return status;
    }
    return STATUS_OK;
}

static int parse_plain(cJSON **tree, const char *json, struct error *err)
{
    const char *stopped = json;
    if (json[strspn(json, " \t\r\n")] == '\0') return error_set(err, STATUS_INPUT, "empty; a configuration is { ... }");
    *tree = cJSON_ParseWithOpts(json, &stopped, 1);
    if (*tree) return refuse_duplicates(*tree, err);
    int line = 1;
    for (const char *c = json; c < stopped && *c; c++) line += *c == '\n';
    return error_set(err, STATUS_INPUT, "line %d: not JSON (a comma, a colon or a bracket is missing?)", line);
}

/* Makes marked strings raw items, which hold and print the text of their number. */
static void unmark_numbers(cJSON *item)
{
    if (cJSON_IsString(item) && item->valuestring[0] == NUMBER_MARK) {
        memmove(item->valuestring, item->valuestring + 1, strlen(item->valuestring));
        item->type = cJSON_Raw;
    }
    for (cJSON *child = item->child; child; child = child->next) unmark_numbers(child);
}

int hjson_parse(cJSON **tree, const char *text, size_t length, struct error *err)
{
    *tree = NULL;
    if (memchr(text, '\0', length)) return error_set(err, STATUS_INPUT, "not a text file");
    if (length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) text += 3, length -= 3; /* byte order mark */
    struct rewrite rewrite = {.at = text, .end = text + length, .line = 1};
    rewrite.out = malloc(4 * length + 1); /* "1" becomes three more bytes, the worst case */
    if (!rewrite.out) return error_set(err, STATUS_RUN, "no memory for a configuration of %zu bytes", length);
    int status = rewrite_all(&rewrite, err);
    if (!status) status = parse_plain(tree, rewrite.out, err);
    if (status) cJSON_Delete(*tree), *tree = NULL;
    else unmark_numbers(*tree);
    free(rewrite.out);
    return status;
}

cJSON *hjson_exact(const char *text)
{
    cJSON *tree;
    return hjson_parse(&tree, text, strlen(text), NULL) == STATUS_OK ? tree : NULL;
}

cJSON *hjson_value(const char *text)
{
    cJSON *tree = hjson_exact(text);
    return tree ? tree : cJSON_CreateString(text);
}

const char *hjson_number(const cJSON *item)
{
    return cJSON_IsRaw(item) ? item->valuestring : NULL;
}

const char *hjson_string(const cJSON *item)
{
    return cJSON_IsString(item) ? item->valuestring : NULL;
}

int hjson_is_off(const cJSON *item)
{
    const char *string = hjson_string(item);
    if (string) return strcasecmp(string, "none") == 0 || strcasecmp(string, "auto") == 0;
    return cJSON_IsNull(item) || cJSON_IsFalse(item) || ((cJSON_IsObject(item) || cJSON_IsArray(item)) && !item->child);
}

const char *hjson_show(const cJSON *item, char *text, size_t room)
{
    if (hjson_number(item)) snprintf(text, room, "%.40s", hjson_number(item));
    else if (cJSON_IsString(item)) snprintf(text, room, "\"%.40s\"", item->valuestring);
    else
        snprintf(text, room, "%s",
                 cJSON_IsTrue(item)    ? "true"
                 : cJSON_IsFalse(item) ? "false"
                 : cJSON_IsNull(item)  ? "null"
                 : cJSON_IsArray(item) ? "[...]"
                                       : "{...}");
    return text;
}
