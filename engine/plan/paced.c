#include "engine/plan/paced.h"

#include <math.h>
#include <stdlib.h>

#include "engine/plan/flops.h"

bool op_is_followed(const struct op *op)
{
    return op->bytes > 0 || (op->unit >= 0 && op->phase != PHASE_OPTIMIZER);
}

/* Of a collective among virtual nodes both links carry a part; here all counts for the slower one. */
static double link_seconds(const struct config *config, const struct op *op)
{
    const struct config_link *links = config->topology.links;
    const int ranks = config->topology.ranks, per_node = config->topology.ranks_per_node;
    const bool nodes = per_node && per_node < ranks;
    const double bytes = (double)(op->lane == LANE_COMM ? op->sent_bytes : op->bytes);
    const enum link of[LANES] = {[LANE_COMM] = LINK_INTRA,
                                 [LANE_D2H] = LINK_PCIE,
                                 [LANE_H2D] = LINK_PCIE,
                                 [LANE_NVME_READ] = LINK_NVME,
                                 [LANE_NVME_WRITE] = LINK_NVME};
    double seconds = 0;
    for (int link = 0; link < LINKS; link++) {
        const bool used = link == (int)of[op->lane] || (op->lane == LANE_COMM && nodes && link == LINK_INTER);
        if (!used || bytes <= 0) continue;
        const double pace = links[link].bandwidth_bytes_per_s;
        seconds = fmax(seconds, links[link].latency_s + (pace > 0 ? bytes / pace : 0));
    }
    return seconds;
}

double paced_op_seconds(const struct setup *setup, const struct config *config, const struct op *op)
{
    const double slow = config->topology.slow_motion, flops = config->topology.device_flops;
    double seconds = op->lane == LANE_COMPUTE || op->lane == LANE_HOST ? 0 : link_seconds(config, op);
    if (op->lane == LANE_COMPUTE && flops > 0) seconds = (double)op_flops(&setup->schedule, &setup->model, op) / flops;
    if (slow >= SLOW_MOTION_EYE && op_is_followed(op)) seconds = fmax(seconds, SLOW_MOTION_EYE_SECONDS);
    return seconds * slow;
}

double paced_seconds(const struct setup *setup, const struct config *config)
{
    const struct schedule *schedule = &setup->schedule;
    double *ended = calloc((size_t)schedule->op_count + 1, sizeof *ended), free_at[LANES] = {0}, last = 0;
    for (int o = 0; ended && o < schedule->op_count; o++) {
        const struct op *op = &schedule->ops[o];
        double begins = free_at[op->lane];
        for (int d = 0; d < op->dependency_count; d++) begins = fmax(begins, ended[op->dependency[d].op]);
        ended[o] = free_at[op->lane] = begins + paced_op_seconds(setup, config, op);
        last = fmax(last, ended[o]);
    }
    free(ended);
    return last;
}
