/* Simulates training steps: a schedule and hardware give the times of every operation. It follows the executor's rules without
 * the work: lanes take operations in the order of the list, an operation starts when its dependencies have ended, a collective's
 * time begins when the last rank of its group has come. All ranks begin a step together, when the last one has ended the previous
 * step, because rank 0 broadcasts the order for each step.
 *
 * Ranks that behave alike are simulated once. A *class* is a set of ranks that are equal in speed, in the shape of
 * their groups, and in the classes of the ranks in these groups (colour refinement, as in the test for
 * isomorphic graphs). Without jitter and stragglers 65,536 ranks on whole nodes are one class. With jitter each rank is a
 * class.
 *
 * Pure: no files, no clock. The same input gives the same times on every machine. */
#pragma once

#include "engine/plan/setup.h"
#include "engine/simulate/cost.h"

struct slow_rank { int rank; uint32_t thousandths; }; /* time factor x 1000 of its operations other than collectives */

struct simulation_input {
    struct cost_input cost;  /* must live as long as the simulation */
    int recorded;            /* the times of ranks 0 to recorded - 1 are kept */
    bool jitters;            /* operations vary by the hardware's jitter, as `seed` says */
    uint64_t seed;
    const struct slow_rank *slow;
    int slow_count;
};

/* As in an OP_END record. An operation starts when it is ready. */
struct op_time { uint64_t issued_ns, started_ns, ended_ns, peers_ns; int32_t waited_on; };

struct simulation;

/* STATUS_USAGE: the hardware lacks what the schedule needs, or a slow rank does not exist; STATUS_RUN: no memory. */
int simulation_open(struct simulation **out, const struct simulation_input *input, struct error *err);
void simulation_free(struct simulation *simulation);

/* Simulates a step from begin_ns on. Returns the time, in ns, at which the last rank ends it. */
uint64_t simulation_step(struct simulation *simulation, uint32_t step, uint64_t begin_ns);

/* For a recorded rank in the last step: the times of its operations, by number; when it had ended all of them. */
const struct op_time *simulation_times(const struct simulation *simulation, int rank);
uint64_t simulation_ended_ns(const struct simulation *simulation, int rank);

const struct simulation_input *simulation_input_of(const struct simulation *simulation);
int simulation_classes(const struct simulation *simulation);

/* Seconds that each lane of rank 0 worked in the last step, without its waits for other ranks. */
void simulation_busy(const struct simulation *simulation, double busy_s[LANES]);

/* ---- one step: its time and rates ---- */

/* The input for a setup's step; the configuration gives the ranks of a node. Points to setup and hardware. */
struct cost_input cost_of(const struct setup *setup, const struct config *config, const struct hardware *hardware);

/* A step without jitter and stragglers: its seconds, and the busy seconds of rank 0's lanes (may be NULL). Errors: simulation_open()'s. */
int simulate_once(double *step_s, double busy_s[LANES], const struct cost_input *cost, struct error *err);

/* The least time, in seconds, that a training step takes. Only pacing is counted: paced links, a paced device, slow
 * motion, a slow rank. The executor makes every operation last that long, so no machine is faster; the faster a machine, the closer it
 * comes. Above 64 ranks, transfers are timed on some of the ranks (cost.c). 0: nothing is paced. NAN: no memory to simulate the step. */
double paced_seconds(const struct setup *setup, const struct config *config);

/* Rates of a step of step_s seconds. flops, recomputed: FLOPs of one device, without recomputation, and recomputed. mfu, hfu: shares of
 * the peak, without and with recomputed FLOPs. tokens: those of all ranks in a step. */
struct rates { double flops, recomputed, mfu, hfu, tokens, tokens_per_s; };
struct rates rates_of(const struct cost_input *cost, double step_s);
