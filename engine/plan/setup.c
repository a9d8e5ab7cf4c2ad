#include "engine/plan/setup.h"

#include <math.h>
#include <stdlib.h>

#include "engine/config/resolve.h"
#include "engine/plan/footprint.h"

int setup_init(struct setup *setup, const struct config *config, struct error *err)
{
    int status = config_check_bounds(config, err); /* of a changed configuration, too: a deeper model, other tiles */
    if (!status) status = model_of(&setup->model, config, err);
    if (status) return status;
    struct schedule_input input = schedule_input_of(config, &setup->model, PURPOSE_TRAIN);
    status = schedule_build(&setup->schedule, &input, err);
    if (status) model_release(&setup->model);
    else footprint_of(&setup->footprint, &setup->schedule);
    return status;
}

void setup_release(struct setup *setup)
{
    schedule_release(&setup->schedule);
    model_release(&setup->model);
}

int64_t setup_sent_bytes(const struct setup *setup, int rank)
{
    struct traffic_sum sums[TRAFFIC_KINDS];
    int64_t sent_bytes = 0;
    traffic_of(sums, &setup->schedule, &setup->model, rank);
    for (int kind = 0; kind < TRAFFIC_KINDS; kind++)
        if (!traffic_is_copy((enum traffic)kind)) sent_bytes += sums[kind].sent_bytes;
    return sent_bytes;
}

bool op_is_followed(const struct op *op)
{
    return op->bytes > 0 || (op->unit >= 0 && op->phase != PHASE_OPTIMIZER);
}

enum { PACED_RANKS_MAX = 64 }; /* as many as train on a machine; of more, the first are looked at */

/* The slower of the links that it uses; what goes over each, as the executor will count it. */
static double link_seconds(const struct setup *setup, const struct config *config, const struct op *op, int rank)
{
    int64_t bytes[LINKS];
    double seconds = 0;
    op_link_bytes(bytes, &setup->schedule, &setup->model, op, rank, config->topology.ranks_per_node);
    for (int link = 0; link < LINKS; link++) {
        const struct config_link *paced = &config->topology.links[link];
        if (bytes[link] <= 0) continue;
        const double pace = paced->bandwidth_bytes_per_s;
        seconds = fmax(seconds, paced->latency_s + (pace > 0 ? (double)bytes[link] / pace : 0));
    }
    return seconds;
}

static bool links_are_paced(const struct config *config)
{
    bool paced = false;
    for (int link = 0; link < LINKS; link++)
        paced |= config->topology.links[link].bandwidth_bytes_per_s > 0 || config->topology.links[link].latency_s > 0;
    return paced;
}

double paced_op_seconds(const struct setup *setup, const struct config *config, const struct op *op)
{
    const double slow = config->topology.slow_motion, flops = config->topology.device_flops;
    double seconds = 0; /* of a collective the rank that sends most: the others wait for it */
    for (int rank = 0; links_are_paced(config) && rank < setup->schedule.ranks && rank < PACED_RANKS_MAX; rank++)
        seconds = fmax(seconds, link_seconds(setup, config, op, rank));
    if (op->lane == LANE_COMPUTE && flops > 0) seconds = op_flops(&setup->schedule, &setup->model, op) / flops;
    if (slow >= SLOW_MOTION_EYE && op_is_followed(op)) seconds = fmax(seconds, SLOW_MOTION_EYE_SECONDS);
    return seconds * slow;
}

double paced_seconds(const struct setup *setup, const struct config *config)
{
    const struct schedule *schedule = &setup->schedule;
    double *ended = calloc((size_t)schedule->op_count + 1, sizeof *ended), free_at[LANES] = {0}, last = 0;
    if (!ended) return NAN;
    for (int o = 0; o < schedule->op_count; o++) {
        const struct op *op = &schedule->ops[o];
        double begins = free_at[op->lane];
        for (int d = 0; d < op->dependency_count; d++) begins = fmax(begins, ended[op->dependency[d].op]);
        ended[o] = free_at[op->lane] = begins + paced_op_seconds(setup, config, op);
        last = fmax(last, ended[o]);
    }
    free(ended);
    return last;
}
