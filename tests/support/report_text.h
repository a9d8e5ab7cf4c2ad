/* The report of a run model as text. Steps that the model has dropped are not in it. */
#pragma once

#include <stdlib.h>

#include "engine/advise/report.h"

/* Caller frees; NULL: no memory. */
static inline char *report_json(const struct run_model *model, const struct report_screen *screen)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    if (!out) return NULL;
    const bool written = report_write(out, model, screen, NULL);
    if (fclose(out) == 0 && written) return text;
    return free(text), NULL;
}
