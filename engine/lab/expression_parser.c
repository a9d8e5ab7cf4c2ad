/* What all of a parser needs: characters, words, texts in quotes; nodes that are added; and the first thing that is wrong. */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/lab/expression_parser.h"

enum { NODES_MAX = 256, TEXT_ROOM = 400 };

void parser_skip_blanks(struct parser *parser)
{
    while (*parser->at == ' ' || *parser->at == '\t') parser->at++;
}

bool parser_takes(struct parser *parser, char character)
{
    parser_skip_blanks(parser);
    if (*parser->at != character) return false;
    return parser->at++, true;
}

size_t parser_word_length(const char *text)
{
    size_t length = 0;
    if (!isalpha((unsigned char)*text) && *text != '_') return 0;
    while (isalnum((unsigned char)text[length]) || text[length] == '_' || text[length] == '\'') length++;
    return length;
}

bool parser_word(struct parser *parser, char out[WORD_ROOM])
{
    parser_skip_blanks(parser);
    size_t length = parser_word_length(parser->at);
    if (!length || length >= WORD_ROOM) return false;
    memcpy(out, parser->at, length);
    out[length] = '\0';
    parser->at += length;
    return true;
}

int parser_fail(struct parser *parser, const char *format, ...)
{
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (!parser->status) parser->status = error_set(parser->err, STATUS_USAGE, "%s", text);
    return -1;
}

int parse_quoted(struct parser *parser, char **out)
{
    const char *end = parser_takes(parser, '"') ? strchr(parser->at, '"') : NULL;
    if (!end || end - parser->at >= TEXT_ROOM)
        return parser_fail(parser, "a text in quotes is missing here: %.30s", parser->at);
    free(*out);
    *out = strndup(parser->at, (size_t)(end - parser->at));
    parser->at = end + 1;
    return *out ? 0 : parser_fail(parser, "no memory for an expression");
}

int parser_add(struct parser *parser, struct node node)
{
    struct expression *out = parser->out;
    if (out->count == NODES_MAX)
        return free(node.plan), free(node.of.text), parser_fail(parser, "the expression is too long");
    if (out->count == out->room) {
        int room = out->room ? 2 * out->room : 8;
        struct node *nodes = realloc(out->nodes, (size_t)room * sizeof *nodes);
        if (!nodes) return free(node.plan), free(node.of.text), parser_fail(parser, "no memory for an expression");
        out->nodes = nodes;
        out->room = room;
    }
    out->nodes[out->count] = node;
    return out->count++;
}

struct dimension parser_dimension(const struct parser *parser, int node)
{
    return parser->out->nodes[node].dimension;
}
