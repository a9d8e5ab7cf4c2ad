/* One rank of an engine for benchmarks of a step's lanes, and when each of its operations ran: by its own records. Ranks are
 * threads; whatever goes wrong ends the benchmark. */
#pragma once

#include <stdio.h>
#include <stdlib.h>

#include "engine/zero/zero.h"

enum { BENCH_RING_BYTES = 1 << 22 };

struct bench_rank {
    struct config config;
    struct data *data;
    struct comm_group *group;
    struct comm *comm;
    struct zero *zero;
    struct trace_ring *rings[LANES];
};

struct bench_span { const struct op *op; uint64_t begin_ns, end_ns; };

static inline _Noreturn void bench_stop(const char *what)
{
    fprintf(stderr, "bench: %s\n", what);
    exit(1);
}

static inline void bench_open(struct bench_rank *rank, const char *const *sets, int count)
{
    struct error err = {0};
    struct zero_shortage shortage;
    if (config_load(&rank->config, "configs/nano.json", sets, count, &err) ||
        data_open(&rank->data, &rank->config, &err) || comm_group_create(&rank->group, 1, 0, &err) ||
        comm_open_thread(&rank->comm, rank->group, 0, &err))
        bench_stop(err.text);
    struct zero_options options = {.config = &rank->config, .comm = rank->comm, .data = rank->data};
    for (int lane = 0; lane < LANES; lane++) {
        void *room = aligned_alloc(64, BENCH_RING_BYTES);
        if (!room) bench_stop("no memory");
        options.rings[lane] = rank->rings[lane] = trace_ring_init(room, BENCH_RING_BYTES);
    }
    if (zero_open(&rank->zero, &options, &shortage, &err)) bench_stop(err.text);
}

static inline void bench_close(struct bench_rank *rank)
{
    comm_close(rank->comm);
    zero_close(rank->zero);
    comm_group_free(rank->group);
    data_close(rank->data);
    config_release(&rank->config);
    for (int lane = 0; lane < LANES; lane++) free(rank->rings[lane]);
}

/* Takes a step; *count says how many spans of it there are (at most `room`). Seconds of the whole. */
static inline double bench_step(struct bench_rank *rank, struct bench_span *spans, int room, int *count)
{
    static unsigned char bytes[BENCH_RING_BYTES];
    struct zero_result result = {0};
    struct error err = {0};
    if (zero_step(rank->zero, &result, &err)) bench_stop(err.text);
    if (result.outcome != ZERO_DONE) bench_stop(result.shortage.text);
    const struct schedule *schedule = zero_schedule(rank->zero);
    *count = 0;
    for (int lane = 0; lane < LANES; lane++) {
        const size_t length = trace_ring_drain(rank->rings[lane], bytes, sizeof bytes);
        struct trace_record record;
        for (size_t at = 0, used; at < length && (used = trace_decode(bytes + at, length - at, &record)); at += used)
            if (record.kind == TRACE_OP_END && record.op_end.op < (uint32_t)schedule->op_count && *count < room)
                spans[(*count)++] = (struct bench_span){&schedule->ops[record.op_end.op], record.op_end.started_ns,
                                                        record.time_ns};
    }
    return 1e-9 * (double)result.total_ns;
}
