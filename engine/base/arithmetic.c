#include "engine/base/arithmetic.h"

#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/words.h"

struct reader {
    const char *at;
    arithmetic_lookup *lookup;
    void *context;
};

enum { NAME_ROOM = 32 };
enum function { FUNCTION_NONE, FUNCTION_MIN, FUNCTION_MAX, FUNCTION_FLOOR, FUNCTION_CEIL, FUNCTION_IF };

static void skip_blanks(struct reader *reader)
{
    reader->at += strspn(reader->at, " ");
}

static bool takes(struct reader *reader, const char *sign)
{
    skip_blanks(reader);
    const size_t length = strlen(sign);
    if (strncmp(reader->at, sign, length) != 0) return false;
    return reader->at += length, true;
}

/* How long the name at `text` is. An x alone is none. */
static size_t name_length(const char *text)
{
    size_t length = 0;
    if (!isalpha((unsigned char)*text)) return 0;
    while (isalnum((unsigned char)text[length]) || text[length] == '_') length++;
    return length == 1 && *text == 'x' ? 0 : length;
}

static size_t number_length(const char *text)
{
    return strspn(text, "0123456789.");
}

static void take_name(struct reader *reader, char name[NAME_ROOM])
{
    const size_t length = name_length(reader->at);
    const size_t kept = length < NAME_ROOM ? length : NAME_ROOM - 1;
    memcpy(name, reader->at, kept);
    name[kept] = '\0';
    reader->at += length;
}

static enum function function_of(const char *name)
{
    static const char *const names[] = {"", "min", "max", "floor", "ceil", "if"};
    for (int f = 1; f <= FUNCTION_IF; f++)
        if (strcmp(names[f], name) == 0) return (enum function)f;
    return FUNCTION_NONE;
}

static double comparison(struct reader *reader);

static double call(struct reader *reader, enum function function)
{
    double argument[3] = {0};
    const int count = function == FUNCTION_IF ? 3 : function <= FUNCTION_MAX ? 2 : 1;
    if (!takes(reader, "(")) return NAN;
    for (int i = 0; i < count; i++) {
        argument[i] = comparison(reader);
        if (!takes(reader, i + 1 < count ? "," : ")")) return NAN;
    }
    if (function == FUNCTION_IF) return isnan(argument[0]) ? NAN : argument[argument[0] != 0 ? 1 : 2];
    if (function == FUNCTION_FLOOR) return floor(argument[0]);
    if (function == FUNCTION_CEIL) return ceil(argument[0]);
    if (isnan(argument[0]) || isnan(argument[1])) return NAN;
    return (function == FUNCTION_MIN) == (argument[0] < argument[1]) ? argument[0] : argument[1];
}

static double factor(struct reader *reader)
{
    char name[NAME_ROOM], *end;
    double value = NAN;
    skip_blanks(reader);
    if (takes(reader, "(")) {
        value = comparison(reader);
        if (!takes(reader, ")")) return NAN;
    } else if (number_length(reader->at)) {
        value = strtod(reader->at, &end);
        reader->at += number_length(reader->at);
    } else if (name_length(reader->at)) {
        take_name(reader, name);
        const enum function function = function_of(name);
        value = function ? call(reader, function) : reader->lookup(name, reader->context);
    }
    return takes(reader, "^") ? pow(value, factor(reader)) : value;
}

/* Whether another factor stands here, after an x or without a sign. */
static bool another_factor(struct reader *reader)
{
    skip_blanks(reader);
    if (*reader->at == 'x' && !name_length(reader->at)) reader->at++;
    skip_blanks(reader);
    return *reader->at == '(' || number_length(reader->at) || name_length(reader->at);
}

static double product(struct reader *reader)
{
    double value = factor(reader);
    for (;;)
        if (takes(reader, "/")) value /= factor(reader);
        else if (another_factor(reader)) value *= factor(reader);
        else return value;
}

static double sum(struct reader *reader)
{
    double value = takes(reader, "-") ? -product(reader) : product(reader);
    for (;;)
        if (takes(reader, "+")) value += product(reader);
        else if (takes(reader, "-")) value -= product(reader);
        else return value;
}

static double comparison(struct reader *reader)
{
    const double left = sum(reader);
    const int sign = takes(reader, "=") ? '=' : takes(reader, ">=") ? '>' : takes(reader, "<") ? '<' : 0;
    if (!sign) return left;
    const double right = sum(reader);
    if (isnan(left) || isnan(right)) return NAN;
    return sign == '=' ? left == right : sign == '>' ? left >= right : left < right;
}

double arithmetic_value(const char *formula, arithmetic_lookup *lookup, void *context)
{
    struct reader reader = {formula, lookup, context};
    const double value = comparison(&reader);
    skip_blanks(&reader);
    return *reader.at ? NAN : value;
}

void arithmetic_numbers(char *text, size_t room, const char *formula, arithmetic_lookup *lookup, void *context)
{
    struct reader reader = {formula, lookup, context};
    char name[NAME_ROOM];
    int depth = 0;
    bool after_factor = false; /* the next factor is joined to it by × */
    *text = '\0';
    while (*reader.at) {
        const size_t digits = number_length(reader.at), letters = name_length(reader.at);
        const char sign = *reader.at, *joint = after_factor && (digits || letters || sign == '(') ? "×" : "";
        after_factor = digits || letters || sign == ')' || (after_factor && (sign == ' ' || sign == 'x'));
        if (letters) {
            take_name(&reader, name);
            const double value = function_of(name) ? 0 : lookup(name, context);
            if (function_of(name)) text_append(text, room, "%s%s", joint, name), after_factor = false;
            else if (isnan(value)) text_append(text, room, "%s?", joint);
            else text_append(text, room, "%s%.15g", joint, value);
            continue;
        }
        reader.at += digits ? digits : 1;
        if (digits) text_append(text, room, "%s%.*s", joint, (int)digits, reader.at - digits);
        else if (sign == '(' || sign == ')')
            text_append(text, room, "%s%c", joint, sign), depth += sign == '(' ? 1 : -1;
        else if (sign == '+' || sign == '-') text_append(text, room, depth ? "%c" : " %c ", sign);
        else if (sign == ',') text_append(text, room, ", ");
        else if (sign != ' ' && sign != 'x') text_append(text, room, "%c", sign);
    }
}
