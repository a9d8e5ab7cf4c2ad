/* Prints the result of `zerolab check`, as text and as JSON. */
#include <inttypes.h>

#include "engine/base/grouped.h"
#include "engine/trace/check.h"

static const struct {
    const char *name, *needs;
} uses[TRACE_USES] = {
#define X(id, name, needs) {name, needs},
    TRACE_USE_TABLE(X)
#undef X
};

static const char *outcome_text(uint8_t outcome)
{
    static const char *const texts[] = {"finished", "out of memory", "failed", "stopped"};
    return outcome < sizeof texts / sizeof texts[0] ? texts[outcome] : "an outcome this version does not know";
}

static void print_defects(const struct trace_check *check, FILE *out)
{
    if (!check->header_first) fputs("  the run header is not the first record: the beginning is missing\n", out);
    if (check->damage[0]) fprintf(out, "  %s\n", check->damage);
    if (check->torn) fputs("  cut off inside a chunk; all before it is whole\n", out);
    if (!check->ended) fputs("  no end record: the run was killed, or still goes on\n", out);
    if (check->limited)
        fprintf(out, "  recording stopped after step %u, at the size of --trace-limit\n", check->last_step);
    if (check->gaps)
        fprintf(out, "  %" PRIu64 " gaps, %" PRIu64 " records lost: drawn as unknown\n", check->gaps, check->lost);
    if (check->steps_unfinished) fprintf(out, "  %u steps begun by a rank and not ended\n", check->steps_unfinished);
    if (check->ops_open) fprintf(out, "  %" PRIu64 " operations begun and not ended\n", check->ops_open);
    if (check->ops_homeless)
        fprintf(out, "  %" PRIu64 " operations of a schedule that is not in the trace\n", check->ops_homeless);
    if (check->out_of_order)
        fprintf(out, "  %" PRIu64 " records later in the file than in time\n", check->out_of_order);
    if (check->unknown_kinds)
        fprintf(out, "  %" PRIu64 " records of kinds that this version does not know, skipped\n", check->unknown_kinds);
}

static void print_part(const struct trace_check_part *part, int number, FILE *out)
{
    fprintf(out, "  part %d: %u rank%s", number + 1, part->ranks, plural(part->ranks));
    if (part->first_step) fprintf(out, ", steps %u to %u\n", part->first_step, part->last_step);
    else fputs(", no step\n", out);
}

void trace_check_print(const struct trace_check *check, FILE *out)
{
    fprintf(out, "%" PRIu64 " records of %u ranks over %.3f s", check->records, check->ranks,
            (double)(check->last_ns - check->first_ns) / 1e9);
    if (check->steps) fprintf(out, ", steps %u to %u", check->first_step, check->last_step);
    if (check->ended) fprintf(out, "; the run ended: %s", outcome_text(check->outcome));
    fputs("\n", out);
    for (int i = 0; check->parts > 1 && i < check->parts; i++) print_part(&check->part[i], i, out);
    print_defects(check, out);
    fputs("usable for\n", out);
    for (int use = 0; use < TRACE_USES; use++)
        fprintf(out, "  %-10s %s%s\n", uses[use].name, check->usable[use] ? "yes" : "no: needs ",
                check->usable[use] ? "" : uses[use].needs);
    fputs("records by kind\n", out);
    for (int kind = 0; kind < TRACE_CHECK_KINDS; kind++)
        if (check->by_kind[kind])
            fprintf(out, "  %-12s %12" PRIu64 "\n", trace_kind_name((enum trace_kind)kind), check->by_kind[kind]);
}

static const char *truth(bool value)
{
    return value ? "true" : "false";
}

void trace_check_print_json(const struct trace_check *check, FILE *out)
{
    fprintf(out,
            "{\"whole\": %s, \"records\": %" PRIu64
            ", \"ranks\": %u, \"first_step\": %u, \"last_step\": %u, \"seconds\": %.9f,\n",
            truth(trace_check_status(check) == STATUS_OK), check->records, check->ranks, check->first_step,
            check->last_step, (double)(check->last_ns - check->first_ns) / 1e9);
    fprintf(out, " \"header\": %s, \"ended\": %s, \"outcome\": ", truth(check->header_first), truth(check->ended));
    if (check->ended) fprintf(out, "\"%s\"", outcome_text(check->outcome));
    else fputs("null", out);
    fprintf(out, ", \"torn\": %s, \"damaged\": %s, \"gaps\": %" PRIu64 ", \"lost\": %" PRIu64 ",\n", truth(check->torn),
            truth(check->damage[0]), check->gaps, check->lost);
    fprintf(out,
            " \"steps_unfinished\": %u, \"operations_open\": %" PRIu64 ", \"operations_without_schedule\": %" PRIu64
            ", \"out_of_order\": %" PRIu64 ", \"unknown_kinds\": %" PRIu64 ",\n \"usable\": {",
            check->steps_unfinished, check->ops_open, check->ops_homeless, check->out_of_order, check->unknown_kinds);
    for (int use = 0; use < TRACE_USES; use++)
        fprintf(out, "%s\"%s\": %s", use ? ", " : "", uses[use].name, truth(check->usable[use]));
    fputs("},\n \"kinds\": {", out);
    const char *comma = "";
    for (int kind = 0; kind < TRACE_CHECK_KINDS; kind++)
        if (check->by_kind[kind]) {
            fprintf(out, "%s\"%s\": %" PRIu64, comma, trace_kind_name((enum trace_kind)kind), check->by_kind[kind]);
            comma = ", ";
        }
    fputs("},\n \"parts\": [", out);
    for (int i = 0; i < check->parts; i++)
        fprintf(out, "%s{\"ranks\": %u, \"first_step\": %u, \"last_step\": %u}", i ? ", " : "", check->part[i].ranks,
                check->part[i].first_step, check->part[i].last_step);
    fputs("]}\n", out);
}
