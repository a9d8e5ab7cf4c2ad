/* Lanes at the gate (engine/base/gate.h): stepping by operations. */
#include "engine/base/clock.h"
#include "engine/zero/executor_parts.h"

/* Until this rank has done, on its other lanes too, all that the gate lets. */
static void settle(struct executor *executor, uint32_t limit)
{
    const struct schedule *schedule = executor->schedule;
    bool settled[LANES] = {[LANE_COMPUTE] = true};
    for (int i = (int)limit < schedule->op_count ? (int)limit - 1 : schedule->op_count - 1; i >= 0; i--) {
        struct lane_state *lane = &executor->lanes[schedule->ops[i].lane];
        if (settled[lane->lane]) continue; /* lanes are in order: its last one stands for all */
        settled[lane->lane] = true;
        wait_until_past(&lane->done, (uint32_t)i);
    }
}

void executor_pass_gate(struct executor *executor, enum lane lane, uint32_t number)
{
    const struct executor_host *host = &executor->host;
    const uint64_t since_ns = gate_lets(host->gate, number) ? 0 : clock_ns(), look_ns = 200000000;
    for (uint32_t limit; number >= (limit = gate_limit(host->gate));) {
        if (lane == LANE_COMPUTE && host->at_gate) {
            settle(executor, limit);
            if (gate_limit(host->gate) == limit) host->at_gate(host->user, executor->schedule, limit);
        } else {
            bool watches = lane == LANE_COMM && host->alive;
            gate_wait(host->gate, number, watches ? look_ns : 0);
            if (watches && !host->alive(host->user)) gate_raise(host->gate, GATE_OPEN); /* to meet the failure */
        }
    }
    if (since_ns && lane == LANE_COMPUTE) executor->stood_ns += clock_ns() - since_ns;
}
