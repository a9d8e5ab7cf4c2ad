#include "engine/trace/thin.h"

static const size_t most_bytes[THIN_CLASSES] = {THIN_DETAILS_BYTES, THIN_STEPS_BYTES, THIN_REST_BYTES};

static enum thin_class class_of(uint16_t kind)
{
    const unsigned traits = trace_kind_traits(kind);
    return traits & TRACE_DETAIL ? THIN_DETAILS : traits & TRACE_OF_STEP ? THIN_STEPS : THIN_REST;
}

bool thin_is_on(const struct thin *thin)
{
    return thin->class[THIN_DETAILS].out; /* they go first and come back last */
}

bool thin_takes(struct thin *thin, const void *record)
{
    const struct trace_head head = trace_peek(record);
    if (!thin->class[class_of(head.kind)].out) return true;
    if (!thin->records++) thin->since_ns = head.time_ns;
    return false;
}

static void add_gap(struct thin *thin, uint64_t now_ns, latest_records_visit *add, void *user)
{
    uint8_t bytes[TRACE_FIXED_MAX];
    const struct trace_record gap =
        trace_gap(TRACE_RANK_ALL, thin->records, thin->records ? thin->since_ns : now_ns, now_ns);
    trace_encode(&gap, bytes);
    add(user, bytes);
    thin->records = 0;
}

struct repeat {
    enum thin_class class;
    latest_records_visit *add;
    void *user;
};

/* A TRAFFIC record is about one rank: without the other ranks' records it would be counted as a whole step. */
static void repeat(void *user, const void *record)
{
    const struct repeat *repeat = user;
    const uint16_t kind = trace_peek(record).kind;
    if (class_of(kind) == repeat->class && kind != TRACE_TRAFFIC) repeat->add(repeat->user, record);
}

void thin_settle(struct thin *thin, size_t waiting_bytes, const struct latest_records *latest, uint64_t now_ns,
                 latest_records_visit *add, void *user)
{
    const bool was_on = thin_is_on(thin);
    bool comes_back = false;
    for (int class = THIN_CLASSES - 1; class >= 0; class--) { /* what stands comes before what stands on it */
        const bool was_out = thin->class[class].out;
        const bool out = waiting_bytes > (was_out ? THIN_DRAINED_BYTES : most_bytes[class]);
        if (out && !was_out) thin->class[class].since = latest_records_now(latest);
        if (!out && was_out) {
            struct repeat again = {(enum thin_class)class, add, user};
            latest_records_each(latest, thin->class[class].since, repeat, &again);
            comes_back = true;
        }
        thin->class[class].out = out;
    }
    if (comes_back || (!was_on && thin_is_on(thin))) add_gap(thin, now_ns, add, user);
}
