#include "engine/zero/plan_records.h"

#include <stdlib.h>
#include <string.h>

#include "engine/plan/footprint.h"
#include "engine/plan/schedule_io.h"

static void put(const struct record_taker *taker, struct trace_record record)
{
    taker->take(taker->user, &record);
}

void records_of_schedule(const struct planned_step *step, const struct record_taker *taker)
{
    char *json = schedule_to_json(step->schedule);
    if (!json) return;
    put(taker, (struct trace_record){.kind = TRACE_SCHEDULE,
                                     .schedule = {step->number,
                                                  (uint8_t)step->schedule->purpose,
                                                  (uint8_t)step->schedule->stage,
                                                  {json, strlen(json)}}});
    free(json);
}

void records_of_memory(const struct planned_step *step, const struct record_taker *taker)
{
    struct footprint of, *footprint = &of;
    struct trace_record record = {.kind = TRACE_PREDICTED};
    footprint_of(footprint, step->schedule);
    for (int tier = 0; tier < TIERS; tier++) {
        for (int c = 0; c < CATEGORIES; c++) {
            if (footprint->category[tier][c].peak_bytes == 0) continue;
            record.predicted = (struct trace_of_predicted){step->number,
                                                           (uint8_t)tier,
                                                           (uint8_t)c,
                                                           (uint64_t)footprint->category[tier][c].peak_bytes,
                                                           (uint64_t)footprint->category[tier][c].at_peak_bytes,
                                                           (uint64_t)footprint->category[tier][c].resting_bytes};
            put(taker, record);
        }
        record.predicted = (struct trace_of_predicted){step->number,
                                                       (uint8_t)tier,
                                                       255,
                                                       (uint64_t)footprint->peak_bytes[tier],
                                                       (uint64_t)footprint->peak_bytes[tier],
                                                       (uint64_t)footprint->resting_bytes[tier]};
        put(taker, record);
    }
}

void records_of_traffic(const struct planned_step *step, int rank, int per_node, const struct record_taker *taker)
{
    struct traffic_sum sums[TRAFFIC_KINDS];
    double theory = traffic_theory_bytes(step->model, step->schedule);
    traffic_of(sums, step->schedule, step->model, rank, per_node);
    for (int kind = 0; kind < TRAFFIC_KINDS; kind++) {
        const enum link link = traffic_link((enum traffic)kind);
        const int64_t across = sums[kind].across_bytes, bytes[] = {sums[kind].sent_bytes - across, across};
        for (int inter = 0; sums[kind].count && inter <= (across > 0); inter++) {
            struct trace_record record = {.kind = TRACE_THEORY};
            record.theory = (struct trace_of_theory){step->number,
                                                     (uint8_t)kind,
                                                     (uint8_t)(inter ? LINK_INTER : link),
                                                     inter ? 0 : (uint32_t)sums[kind].count, /* operations count once */
                                                     (uint64_t)bytes[inter],
                                                     (uint64_t)(theory + 0.5)};
            theory = 0; /* the whole step's volume stands in the first record */
            put(taker, record);
        }
    }
}
