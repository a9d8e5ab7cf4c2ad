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
#include "engine/base/json.h"

static inline struct config config_of(const char *const *sets, int count)
{
    struct config config;
    struct error err;
    if (config_load(&config, "configs/nano.json", sets, count, &err)) fail_msg("%s", err.text);
    return config;
}

static inline cJSON *answer_of(const char *name, const struct config *config, const char *with)
{
    const struct convention_row *convention;
    struct error err;
    if (convention_find(&convention, name, &err)) fail_msg("%s", err.text);
    struct text_list list = {with ? 1 : 0, {with}};
    cJSON *answer = convention_facts(convention, config, &list, &err);
    if (!answer) fail_msg("%s", err.text);
    return answer;
}

static inline cJSON *asked(const char *name, const char *with)
{
    struct config config = config_of(NULL, 0);
    cJSON *answer = answer_of(name, &config, with);
    config_release(&config);
    return answer;
}

/* NAN: null, or nothing. */
static inline double number_of(const cJSON *object, const char *name)
{
    const cJSON *item = json_get(object, name);
    return cJSON_IsNumber(item) ? item->valuedouble : NAN;
}

static inline const cJSON *section_of(const cJSON *answer, int section)
{
    return cJSON_GetArrayItem(json_get(answer, "sections"), section);
}

/* "accounting": theirs; "engine": ours. */
static inline double sum_of(const cJSON *answer, int section, const char *side)
{
    return number_of(section_of(answer, section), side);
}

static inline double line_of(const cJSON *answer, int section, const char *label, const char *side)
{
    const cJSON *line;
    cJSON_ArrayForEach(line, json_get(section_of(answer, section), "lines"))
        if (strstr(json_get_text(line, "label"), label)) return number_of(line, side);
    fail_msg("%s: no line %s", json_get_text(answer, "accounting"), label);
    return NAN;
}

static inline int cases_of(const cJSON *answer)
{
    return cJSON_GetArraySize(json_get(answer, "cases"));
}

static inline const cJSON *case_of(const cJSON *answer, int number)
{
    return cJSON_GetArrayItem(json_get(answer, "cases"), number);
}

/* NAN: the section has no sum. */
static inline double case_sum(const cJSON *answer, int number, int section)
{
    int before = 0;
    for (int s = 0; s < section; s++) before += json_get_text(section_of(answer, s), "sum") != NULL;
    if (!json_get_text(section_of(answer, section), "sum")) return NAN;
    return number_of(cJSON_GetArrayItem(json_get(case_of(answer, number), "sums"), before), "accounting");
}

static inline void near(double a, double b)
{
    if (!(fabs(a - b) <= 1e-12 * fabs(b))) fail_msg("%.17g, not %.17g", a, b);
}
