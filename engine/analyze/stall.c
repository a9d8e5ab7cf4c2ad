#include "engine/analyze/stall.h"

#include "engine/analyze/tape.h"

/* What a lane waits for when it waits for data: the kind of operation that makes it. */
static enum stall stall_of_kind(enum op_kind kind)
{
    switch (kind) {
    case OP_GATHER: return STALL_GATHER;
    case OP_REDUCE_SCATTER:
    case OP_ALL_REDUCE: return STALL_BUCKET;
    case OP_REFRESH: return STALL_REFRESH;
    case OP_AGREE: return STALL_AGREE;
    default: return STALL_COMPUTE;
    }
}

/* A dependency says why it is one; one operation may be awaited for its data and for the memory it gives back, and then
 * the data is what counts. */
static enum stall stall_for(const struct op *op, const struct schedule *schedule, int awaited)
{
    enum stall why = STALL_NONE;
    for (int d = 0; d < op->dependency_count; d++) {
        if (op->dependency[d].op != awaited) continue;
        switch (op->dependency[d].why) {
        case WAIT_DATA: return stall_of_kind(schedule->ops[awaited].kind);
        case WAIT_MEMORY: why = STALL_MEMORY; break;
        case WAIT_LIMIT: why = STALL_LIMIT; break;
        }
    }
    return why != STALL_NONE ? why : stall_of_kind(schedule->ops[awaited].kind);
}

struct stall_reason stall_before(const struct schedule *schedule, const struct span *span)
{
    bool waited = span->waited_on >= 0 && span->waited_on < schedule->op_count &&
                  span->op < (uint32_t)schedule->op_count && span->ready_ns > span->issued_ns;
    if (!waited) return (struct stall_reason){STALL_NONE, 0, -1};
    enum stall why = stall_for(&schedule->ops[span->op], schedule, span->waited_on);
    return (struct stall_reason){why, span->ready_ns - span->issued_ns, span->waited_on};
}

struct stall_reason stall_inside(const struct span *span)
{
    if (span->peers_ns == 0) return (struct stall_reason){STALL_NONE, 0, -1};
    return (struct stall_reason){STALL_PEERS, span->peers_ns, -1};
}

static const struct {
    char letter;
    const char *name, *help;
} stalls[STALLS] = {
#define STALL(ID, letter, name, help) {letter, name, help},
#include "engine/analyze/stalls.def"
#undef STALL
};

const char *stall_name(enum stall why)
{
    return stalls[why].name;
}

char stall_letter(enum stall why)
{
    return stalls[why].letter;
}

const char *stall_help(enum stall why)
{
    return stalls[why].help;
}
