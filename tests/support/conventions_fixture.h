/* What the tests of conventions share: a configuration, the answer of a convention for it and a line of that answer. */
#pragma once

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/advise/conventions.h"

static inline struct config config_of(const char *const *sets, int count)
{
    struct config config;
    struct error err;
    if (config_load(&config, "configs/nano.json", sets, count, &err)) fail_msg("%s", err.text);
    return config;
}

static inline struct convention_answer *answer_of(const char *name, const struct config *config, const char *with)
{
    const struct convention_row *convention;
    struct error err;
    if (convention_find(&convention, name, &err)) fail_msg("%s", err.text);
    struct text_list list = {with ? 1 : 0, {with}};
    struct convention_answer *answer = convention_open(convention, config, &list, &err);
    if (!answer) fail_msg("%s", err.text);
    return answer;
}

static inline struct convention_answer *asked(const char *name, const char *with)
{
    struct config config = config_of(NULL, 0);
    struct convention_answer *answer = answer_of(name, &config, with);
    config_release(&config);
    return answer;
}

static inline const struct convention_line *line_of(const struct convention_answer *answer, int section, const char *label)
{
    for (int l = 0; l < answer->lines; l++)
        if (answer->line[l].section == section && strstr(answer->line[l].row->label, label)) return &answer->line[l];
    fail_msg("%s: no line %s", answer->convention->label, label);
    return NULL;
}

static inline void near(double a, double b)
{
    if (!(fabs(a - b) <= 1e-12 * fabs(b))) fail_msg("%.17g, not %.17g", a, b);
}
