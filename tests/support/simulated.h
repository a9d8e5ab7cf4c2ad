/* For tests of simulated times: hardware whose times are easily added up, and the time of a step of nano on it. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/plan/setup.h"
#include "engine/simulate/simulate.h"

/* One ns a byte in memory and within a node, two between nodes. */
static const struct hardware plain = {
    .name = "plain",
    .way = WAY_DIRECT,
    .flops_fp32 = 1000000000,
    .product_efficiency = 1000,
    .memory_efficiency = 1000,
    .link_efficiency = 1000,
    .memory_bytes = 1,
    .memory_rate = 1000000000,
    .node_devices = 2,
    .intra_rate = 1000000000,
    .intra_ns = 10,
    .inter_rate = 500000000,
    .inter_ns = 100,
};

static inline void load(struct setup *setup, struct config *config, const char *const *sets, int count)
{
    struct error err;
    if (config_load(config, "configs/nano.json", sets, count, &err) || setup_init(setup, config, &err))
        fail_msg("%s", err.text);
}

/* The end of a step that begins at 1, of ranks four a node. */
static inline uint64_t ended(const struct setup *setup, const struct hardware *hardware, bool jitters, uint64_t seed)
{
    struct simulation *simulation;
    struct error err;
    const struct simulation_input input = {
        .cost = {&setup->schedule, &setup->model, hardware, 4}, .recorded = 1, .jitters = jitters, .seed = seed};
    if (simulation_open(&simulation, &input, &err)) fail_msg("%s", err.text);
    const uint64_t end_ns = simulation_step(simulation, 1, 1);
    simulation_free(simulation);
    return end_ns;
}
