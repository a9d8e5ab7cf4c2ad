/* Simulates training steps: a schedule and hardware give the times of every operation. It is the executor's rule without the
 * work: lanes take operations in the order of the list, an operation starts when its dependencies have ended, a collective's
 * time begins when the last rank of its group has come. All ranks begin a step together, when the last one has ended the step
 * before, because rank 0's order for it is a broadcast.
 *
 * Ranks that behave alike are simulated once. A *class* is a set of ranks that no difference tells apart: none in speed, none
 * in the shape of their groups, none in the classes of the ranks in these groups (colour refinement, as in the test for
 * isomorphic graphs). Without jitter and stragglers 65,536 ranks on whole nodes are one class. With jitter each rank is a
 * class.
 *
 * Pure: no files, no clock. The same input gives the same times on every machine. */
#pragma once

#include "engine/plan/setup.h"
#include "engine/simulate/cost.h"

struct slow_rank { int rank; uint32_t thousandths; }; /* its operations but collectives last so many thousandths of their time */

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

/* Simulates a step from begin_ns on. Returns when the last rank has ended it. */
uint64_t simulation_step(struct simulation *simulation, uint32_t step, uint64_t begin_ns);

/* Of the last step: by operation, of a recorded rank; when it had ended all of them. */
const struct op_time *simulation_times(const struct simulation *simulation, int rank);
uint64_t simulation_ended_ns(const struct simulation *simulation, int rank);

const struct simulation_input *simulation_input_of(const struct simulation *simulation);
int simulation_classes(const struct simulation *simulation);

/* Of rank 0 in the last step: how long each lane was at work, in seconds, without its waits for other ranks. */
void simulation_busy(const struct simulation *simulation, double busy_s[LANES]);

/* ---- one step, and what it comes to ---- */

/* The step of a configuration, which gives the nodes. */
struct cost_input cost_of(const struct setup *setup, const struct config *config, const struct hardware *hardware);

/* A step without jitter and stragglers: its seconds, and rank 0's busy lanes (may be NULL). Errors as simulation_open(). */
int simulate_once(double *step_s, double busy_s[LANES], const struct cost_input *cost, struct error *err);

/* How long a training step takes at least: each operation lasts what pacing makes it last (paced links, a paced device, slow motion, a
 * slow rank), and nothing else does. The executor makes every operation last that long, so no machine is faster; one whose own work
 * is short beside the pace comes near it. Of more than 64 ranks some are looked at (cost.c). 0: nothing is paced. NAN: there was no
 * memory to follow the step. */
double paced_seconds(const struct setup *setup, const struct config *config);

/* Of a step that takes so long: FLOPs of a device, without and with those made again, as shares of its peak; tokens of all ranks. */
struct rates { double flops, recomputed, mfu, hfu, tokens, tokens_per_s; };
struct rates rates_of(const struct cost_input *cost, double step_s);
