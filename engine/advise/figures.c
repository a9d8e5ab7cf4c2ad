#include "engine/advise/figures.h"

#include <math.h>

#include "engine/base/grouped.h"
#include "engine/base/json.h"

void figures_put(struct figures *figures, const char *name, const char *label, enum figure_unit unit, bool known,
                 double value)
{
    if (name && figures->json) json_number(figures->json, name, known, unit == FIGURE_TIME ? value * 1e-9 : value);
    if (!label || !figures->labelled || figures->count == FIGURES_MAX) return;
    struct figure *figure = &figures->at[figures->count++];
    *figure = (struct figure){.unit = unit, .source = figures->source, .known = known, .value = value};
    snprintf(figure->label, sizeof figure->label, "%s%s", figures->of ? figures->of : "", label);
}

bool figure_is_exact(const struct figure *figure)
{
    return figure->unit <= FIGURE_BYTES && figure->source != FIGURE_MEASURED;
}

bool figure_same(const struct figure *one, const struct figure *other)
{
    if (one->known != other->known) return false;
    return !one->known || fabs(one->value - other->value) <= 1e-9 * fabs(one->value);
}

const char *figure_unit_name(const struct figure *figure)
{
    static const char *const names[] = {"stage", "count", "bytes", "ms", "share", "MB/s", "nats"};
    return names[figure->unit];
}

double figure_in_unit(const struct figure *figure)
{
    return figure->value / (figure->unit == FIGURE_TIME || figure->unit == FIGURE_RATE ? 1e6 : 1);
}

const char *figure_show(char out[32], const struct figure *figure)
{
    const double value = figure_in_unit(figure);
    if (!figure->known) return "n/a";
    switch (figure->unit) {
    case FIGURE_STAGE: snprintf(out, 32, "%.0f", value); break;
    case FIGURE_BYTES: return grouped(out, llround(value));
    case FIGURE_COUNT: snprintf(out, 32, value == rint(value) ? "%.0f" : "%.2f", value); break;
    case FIGURE_TIME: snprintf(out, 32, "%.3f ms", value); break;
    case FIGURE_SHARE: snprintf(out, 32, "%.1f %%", 100 * value); break;
    case FIGURE_RATE: snprintf(out, 32, "%.1f", value); break;
    case FIGURE_LOSS: snprintf(out, 32, "%.4f", value); break;
    }
    return out;
}
