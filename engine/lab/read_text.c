/* Parses the contents of a lab's lines: prose with {expressions}, answers, checks, kept values, actions. */
#include "engine/lab/read_parts.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const struct expression *expression(struct reader *reader, const char **text)
{
    const struct expression *read = NULL;
    struct error err;
    if (expression_parse(&read, text, &reader->names, &reader->lab->pool, &err)) read_fail(reader, "%s", err.text);
    return read;
}

static bool takes(const char **text, const char *word)
{
    size_t length = strlen(word);
    *text += strspn(*text, " \t");
    if (strncmp(*text, word, length) != 0 || isalnum((unsigned char)(*text)[length])) return false;
    *text += length;
    *text += strspn(*text, " \t");
    return true;
}

/* ---- prose --------------------------------------------------------------------------------------------------------- */

static struct prose_piece *piece(struct reader *reader, struct prose *prose)
{
    if (prose->count % 8 == 0) {
        struct prose_piece *pieces = pool_take(&reader->lab->pool, (size_t)(prose->count + 8) * sizeof *pieces);
        if (!pieces) return read_fail(reader, "no memory"), NULL;
        if (prose->count) memcpy(pieces, prose->pieces, (size_t)prose->count * sizeof *pieces);
        prose->pieces = pieces;
    }
    struct prose_piece *added = &prose->pieces[prose->count++];
    *added = (struct prose_piece){.decimals = -1};
    return added;
}

static int plain_piece(struct reader *reader, struct prose *prose, const char *text, size_t length)
{
    struct prose_piece *added = length ? piece(reader, prose) : NULL;
    if (added && !(added->text = pool_text(&reader->lab->pool, text, length))) read_fail(reader, "no memory");
    return reader->status;
}

static int check_unit(struct reader *reader, const struct unit_name *unit, const struct expression *value)
{
    struct dimension own = expression_dimension(value);
    if (dimension_equal(unit->dimension, own)) return STATUS_OK;
    return read_fail(reader, "%s is no unit of %s%s", unit->name, dimension_name(own),
                     dimension_advice(unit->dimension, own));
}

/* "| MB", "| %", "| .2", "| MB .2" */
static int format(struct reader *reader, struct prose_piece *added, const char **text)
{
    size_t length;
    *text += 1 + strspn(*text + 1, " ");
    if ((added->unit = unit_at(*text, &length))) {
        *text += length + strspn(*text + length, " ");
        if (check_unit(reader, added->unit, added->value)) return reader->status;
    }
    if (**text == '.' && isdigit((unsigned char)(*text)[1])) {
        added->decimals = (*text)[1] - '0';
        *text += 2 + strspn(*text + 2, " ");
    } else if (!added->unit) {
        return read_fail(reader, "after | stands a unit (MB, GiB, %%, ms ...), a number of decimals (.2), or both");
    }
    return STATUS_OK;
}

static int value_piece(struct reader *reader, struct prose *prose, const char **text)
{
    const struct expression *value = expression(reader, text);
    struct prose_piece *added = value ? piece(reader, prose) : NULL;
    if (!added) return reader->status;
    added->value = value;
    *text += strspn(*text, " ");
    if (**text == '|' && format(reader, added, text)) return reader->status;
    if (**text != '}') return read_fail(reader, "a } is missing at: %.30s (write {{ for a brace)", *text);
    ++*text;
    return STATUS_OK;
}

int read_prose(struct reader *reader, struct prose *prose, const char *text)
{
    while (*text && !reader->status) {
        const char *brace = strchr(text, '{');
        plain_piece(reader, prose, text, brace ? (size_t)(brace - text) : strlen(text));
        if (!brace || reader->status) break;
        text = brace + 1;
        if (*text == '{') plain_piece(reader, prose, text++, 1);
        else value_piece(reader, prose, &text);
    }
    return reader->status;
}

/* Lines flow together; an empty one ends a paragraph; one that begins with four blanks or a bullet stays a line of its own. */
void read_prose_line(struct reader *reader, const char *text)
{
    bool own = strncmp(text, "    ", 4) == 0 || strncmp(text, "- ", 2) == 0 || strncmp(text, "* ", 2) == 0;
    bool empty = text[strspn(text, " ")] == '\0';
    bool first = !reader->prose.text.out;
    if (first && empty) return;
    if (first) reader->prose.line = reader->line;
    if (first && !text_stream_open(&reader->prose.text)) {
        read_fail(reader, "no memory");
        return;
    }
    if (empty) reader->prose.blank = true;
    else
        fprintf(reader->prose.text.out, "%s%s",
                first                      ? ""
                : reader->prose.blank      ? "\n\n"
                : own || reader->prose.own ? "\n"
                                           : " ",
                text + (own || !*text ? 0 : strspn(text, " ")));
    if (!empty) reader->prose.blank = false, reader->prose.own = own;
}

int read_prose_end(struct reader *reader)
{
    int line = reader->line;
    if (!reader->prose.text.out) return reader->status;
    char *text = text_stream_close(&reader->prose.text);
    reader->line = reader->prose.line;
    if (!text) read_fail(reader, "no memory");
    else if (reader->step) read_prose(reader, reader->in_explain ? &reader->step->explain : &reader->step->text, text);
    free(text);
    reader->prose.text.out = NULL;
    reader->prose.blank = false;
    reader->line = line;
    return reader->status;
}

/* ---- answers and checks -------------------------------------------------------------------------------------------- */

/* "within 5%", "within 10 kB", "within 0", or nothing. */
static int tolerance(struct reader *reader, const char **text, struct dimension of, bool *relative, double *value)
{
    struct quantity within;
    if (!takes(text, "within")) return STATUS_OK;
    size_t length = strcspn(*text, "|");
    char copy[64];
    snprintf(copy, sizeof copy, "%.*s", (int)(length < 63 ? length : 63), *text);
    bool percent = strchr(copy, '%') != NULL;
    if (!quantity_read(&within, copy, NULL))
        return read_fail(reader, "within %.30s: give a share (5%%) or an amount (10 kB)", copy);
    if (within.value < 0 || (percent && within.value >= 0.5))
        return read_fail(reader, "within %.30s accepts %s; give less than 50%%", copy,
                         within.value < 0 ? "nothing" : "nearly anything");
    if (!percent && within.value != 0 && !dimension_equal(within.dimension, of))
        return read_fail(reader, "within %.30s: the tolerance is %s, the value %s", copy,
                         dimension_name(within.dimension), dimension_name(of));
    *relative = percent;
    *value = within.value;
    *text += length;
    return STATUS_OK;
}

static int at_end(struct reader *reader, const char *text)
{
    text += strspn(text, " \t");
    return *text ? read_fail(reader, "this is not understood: %.40s", text) : STATUS_OK;
}

int read_answer_line(struct reader *reader, struct lab_answer *answer, const char *text)
{
    const struct expression *value = expression(reader, &text);
    size_t length;
    if (!value) return reader->status;
    *answer = (struct lab_answer){.value = value, .relative = true, .tolerance = 0.05};
    if (takes(&text, "in")) {
        if (!(answer->unit = unit_at(text, &length)))
            return read_fail(reader, "in %.20s: this is no unit; use MB, GB, KiB, %%, ms ...", text);
        text += length;
        if (check_unit(reader, answer->unit, value)) return reader->status;
    } else if (!dimension_equal(expression_dimension(value), (struct dimension){0, 0})) {
        return read_fail(reader, "say in which unit it is asked for: answer: ... in MB within 5%%");
    }
    if (tolerance(reader, &text, expression_dimension(value), &answer->relative, &answer->tolerance))
        return reader->status;
    return at_end(reader, text);
}

int read_wrong_line(struct reader *reader, struct lab_wrong *wrong, const struct lab_answer *answer, const char *text)
{
    wrong->line = reader->line;
    if (!(wrong->value = expression(reader, &text))) return reader->status;
    if (!dimension_equal(expression_dimension(wrong->value), expression_dimension(answer->value)))
        return read_fail(reader, "the answer is %s, this is %s%s", dimension_name(expression_dimension(answer->value)),
                         dimension_name(expression_dimension(wrong->value)),
                         dimension_advice(expression_dimension(answer->value), expression_dimension(wrong->value)));
    if (*text != '|') return read_fail(reader, "a wrong answer needs a reply: wrong: VALUE | REPLY");
    return read_prose(reader, &wrong->reply, text + 1 + strspn(text + 1, " "));
}

static bool relation(const char **text, enum relation *out)
{
    static const char *const signs[RELATIONS] = {"==", "!=", "<=", ">=", "<", ">"}; /* the longest first */
    for (*out = 0; *out < RELATIONS; ++*out) {
        const size_t length = strlen(signs[*out]);
        if (strncmp(*text, signs[*out], length) == 0) return *text += length, true;
    }
    return false;
}

/* What learners see in place of the check; it is left out of the check's own text. */
static int sentence(struct reader *reader, struct lab_check *check, const char *bar)
{
    const char *said = bar + 1 + strspn(bar + 1, " ");
    size_t length = (size_t)(bar - check->text);
    while (length && check->text[length - 1] == ' ') length--;
    if (!*said) return read_fail(reader, "after | stands what a learner sees: check: peak <= budget | It fits.");
    if (!(check->text = pool_text(&reader->lab->pool, check->text, length))) return read_fail(reader, "no memory");
    return read_prose(reader, &check->said, said);
}

int read_check_line(struct reader *reader, struct lab_check *check, const char *text)
{
    *check = (struct lab_check){.line = reader->line, .text = text};
    if (!(check->left = expression(reader, &text))) return reader->status;
    if (!relation(&text, &check->relation))
        return read_fail(reader, "a check compares two values: ==, !=, <, <=, > or >=");
    if (!(check->right = expression(reader, &text))) return reader->status;
    struct dimension left = expression_dimension(check->left), right = expression_dimension(check->right);
    if (!dimension_equal(left, right))
        return read_fail(reader, "%s are not compared with %s%s", dimension_name(left), dimension_name(right),
                         dimension_advice(left, right));
    if (tolerance(reader, &text, right, &check->relative, &check->tolerance)) return reader->status;
    return *text == '|' ? sentence(reader, check, text) : at_end(reader, text);
}

/* ---- kept values and actions --------------------------------------------------------------------------------------- */

static int name_kept(struct reader *reader, const struct lab_action *keep)
{
    struct lab_names *names = &reader->names;
    for (int n = 0; n < names->count; n++)
        if (strcmp(names->at[n].name, keep->name) == 0) return read_fail(reader, "%s is kept already", keep->name);
    if (names->count == LAB_KEPT_MAX) return read_fail(reader, "a lab keeps at most %d values", LAB_KEPT_MAX);
    memcpy(names->at[names->count].name, keep->name, sizeof keep->name);
    names->at[names->count++].dimension = expression_dimension(keep->value);
    return STATUS_OK;
}

int read_keep_line(struct reader *reader, struct lab_action *keep, const char *text)
{
    size_t length = strspn(text, "abcdefghijklmnopqrstuvwxyz_0123456789");
    const char *sign = text + length + strspn(text + length, " ");
    if (!length || length >= LAB_NAME_MAX || isdigit((unsigned char)*text) || *sign != '=')
        return read_fail(reader, "a kept value is written keep: name = expression, its name in small letters");
    *keep = (struct lab_action){.line = reader->line, .act = LAB_KEEP};
    memcpy(keep->name, text, length);
    text = sign + 1;
    if (!(keep->value = expression(reader, &text)) || at_end(reader, text)) return reader->status;
    return reader->names_only ? name_kept(reader, keep) : STATUS_OK;
}

/* "set KEY=VALUE" of a place, as command_parse() would read it once the braces in it are filled in. */
static bool sets_place(const char *text, char key[CONFIG_PATH_MAX])
{
    const size_t word = strcspn(text, "= \t");
    if (word != strlen("set") || strncmp(text, "set", word) != 0) return false;
    text += word + (text[word] != '\0');
    text += strspn(text, " \t");
    snprintf(key, CONFIG_PATH_MAX, "%.*s", (int)strcspn(text, "="), text);
    return config_is_place(key) || strchr(key, '{');
}

/* "run 3 steps", "go oom", or a command of the command table, which may have {expressions} in it. */
int read_action(struct reader *reader, struct lab_actions *actions, const char *text)
{
    struct command command;
    struct error err;
    char *end, key[CONFIG_PATH_MAX];
    if (actions->count == LAB_ACTIONS_MAX) return read_fail(reader, "there are more than %d actions", LAB_ACTIONS_MAX);
    struct lab_action *action = &actions->at[actions->count++];
    *action = (struct lab_action){.line = reader->line};
    if (takes(&text, "run")) {
        long count = strtol(text, &end, 10);
        end += strspn(end, " ");
        if (count < 1 || count > 200 || (*end && strcmp(end, "steps") && strcmp(end, "step")))
            return read_fail(reader, "run %.20s: give a number of steps from 1 to 200: run 3 steps", text);
        action->act = LAB_RUN;
        action->count = (int)count;
        return STATUS_OK;
    }
    if (takes(&text, "go")) {
        action->act = LAB_GO;
        return *text ? read_prose(reader, &action->text, text)
                     : read_fail(reader, "go where? to an operation: go gather block 2");
    }
    if (sets_place(text, key) && lab_refuse_place(key, &err)) return read_fail(reader, "%s", err.text);
    if (!strchr(text, '{') && command_parse(&command, text, &err))
        return read_fail(reader, "%s (or: run 3 steps)", err.text);
    return read_prose(reader, &action->text, text);
}
