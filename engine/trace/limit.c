#include "engine/trace/limit.h"

/* Of the run as a whole, small, and few. */
static bool is_news(enum trace_kind kind)
{
    switch (kind) {
    case TRACE_COMMAND:
    case TRACE_EVENT:
    case TRACE_STATE:
    case TRACE_VALIDATION:
    case TRACE_SAMPLE:
    case TRACE_STATE_HASH:
    case TRACE_LOG:
    case TRACE_GAP:
    case TRACE_END: return true;
    default: return false;
    }
}

static bool leave_out(struct trace_limit *limit, const struct trace_record *record)
{
    if (!limit->left_out++) limit->since_ns = record->time_ns;
    return false;
}

/* There has to be room for half as much again as the largest step took. */
static void begin_step(struct trace_limit *limit, uint32_t step, uint64_t file_bytes)
{
    if (step == limit->step || limit->stopped) return;
    limit->step = step;
    limit->step_began_bytes = file_bytes;
    limit->stopped =
        file_bytes + limit->step_most_bytes * 3 / 2 + TRACE_LIMIT_RESERVE_BYTES > limit->most_bytes;
}

bool trace_limit_takes(struct trace_limit *limit, const struct trace_record *record, uint64_t encoded_bytes,
                       uint64_t file_bytes)
{
    uint8_t *past = &limit->rank_is_past[record->rank / 8], bit = (uint8_t)(1u << record->rank % 8);
    const uint64_t reserve = record->kind == TRACE_END ? 0 : TRACE_LIMIT_RESERVE_BYTES / 4,
                   after_bytes = file_bytes + encoded_bytes;
    if (!limit->most_bytes) return true;
    if (record->kind == TRACE_STEP_BEGIN) begin_step(limit, record->step_begin.step, file_bytes);
    if (!limit->stopped && limit->step && after_bytes > limit->step_began_bytes + limit->step_most_bytes)
        limit->step_most_bytes = after_bytes - limit->step_began_bytes;
    if (!is_news(record->kind) && after_bytes + TRACE_LIMIT_RESERVE_BYTES / 2 > limit->most_bytes) limit->stopped = true;
    if (after_bytes + reserve > limit->most_bytes) return leave_out(limit, record);
    if (!limit->stopped || is_news(record->kind)) return true;
    if (record->kind == TRACE_STEP_BEGIN) *past |= bit;
    if (record->rank == TRACE_RANK_ALL || *past & bit) return leave_out(limit, record);
    return after_bytes + TRACE_LIMIT_RESERVE_BYTES / 2 <= limit->most_bytes || leave_out(limit, record);
}
