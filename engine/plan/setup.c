#include "engine/plan/setup.h"

#include "engine/config/resolve.h"
#include "engine/plan/checker.h"

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

int setup_init_checked(struct setup *setup, const struct config *config, struct error *err)
{
    int status = setup_init(setup, config, err);
    if (status) return status;
    status = schedule_check(&setup->schedule, &setup->model, err);
    if (status) setup_release(setup);
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
    traffic_of(sums, &setup->schedule, &setup->model, rank, 0);
    return traffic_between_ranks(sums).sent_bytes;
}
