/* Whether the collectives of a trace of several machines lie beside each other: overlap FILE [SHIFT_NS] prints how many operations of
 * every rank sent bytes in a step, and by how much the ranks' times of the worst of them miss each other, in ns. In a collective no
 * rank ends before all have begun, so that is 0 or what the clocks are off. backwards: steps of a rank that begin before the one before.
 * open: operations of the last rank that have begun and not ended. SHIFT_NS is added to the times of the last rank, to see that the count can fail. */
#include <stdio.h>
#include <stdlib.h>

#include "engine/trace/source.h"

enum { OPS_MOST = 4096, RANKS_MOST = 64 };

static struct meeting { uint32_t step, schedule, ranks; uint64_t begun_ns, ended_ns; } meeting[OPS_MOST];

static void meet(const struct trace_record *record, uint64_t shift_ns)
{
    const struct trace_of_op_end *op = &record->op_end;
    struct meeting *at = &meeting[op->op % OPS_MOST];
    const uint64_t begun_ns = op->started_ns + shift_ns, ended_ns = record->time_ns + shift_ns;
    if (at->step != op->step || at->schedule != op->schedule) *at = (struct meeting){.step = op->step, .schedule = op->schedule};
    if (!at->ranks || begun_ns > at->begun_ns) at->begun_ns = begun_ns;
    if (!at->ranks || ended_ns < at->ended_ns) at->ended_ns = ended_ns;
    at->ranks++;
}

int main(int argc, char **argv)
{
    struct source *source;
    struct trace_record record;
    struct error err;
    const uint64_t shift_ns = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    uint64_t worst_ns = 0, met = 0, backwards = 0;
    static uint64_t before_ns[RANKS_MOST];
    uint32_t ranks = 0;
    int open = 0;
    if (argc < 2 || source_open_file(&source, argv[1], &err)) return 2;
    while (source_next(source, &record) == SOURCE_RECORD) {
        if (record.kind == TRACE_HOST && record.rank >= ranks) ranks = record.rank + 1u;
        if (record.kind == TRACE_STEP_BEGIN && record.rank < RANKS_MOST) {
            backwards += record.time_ns < before_ns[record.rank];
            before_ns[record.rank] = record.time_ns;
        }
        open += record.rank + 1u == ranks ? (record.kind == TRACE_OP_BEGIN) - (record.kind == TRACE_OP_END) : 0;
        if (record.kind != TRACE_OP_END || !record.op_end.sent_bytes) continue;
        meet(&record, record.rank + 1u == ranks ? shift_ns : 0);
        const struct meeting *at = &meeting[record.op_end.op % OPS_MOST];
        if (at->ranks != ranks) continue;
        met++;
        if (at->begun_ns > at->ended_ns && at->begun_ns - at->ended_ns > worst_ns) worst_ns = at->begun_ns - at->ended_ns;
    }
    source_close(source);
    printf("ranks %u met %llu worst_ns %llu backwards %llu open %d\n", ranks, (unsigned long long)met, (unsigned long long)worst_ns,
           (unsigned long long)backwards, open);
    return 0;
}
