#include "engine/simulate/cost.h"

#include <math.h>

#include "engine/plan/footprint.h"

enum {
    AGREEMENT_BYTES = 24,    /* of a rank: its loss, sum of squares and state */
    LOOKED_AT = 64,          /* ranks of a collective, one by one */
    PARTS_LOOKED_AT = 65536, /* of all that are looked at, where a rank has as many parts as there are ranks */
};
static const uint64_t second_ns = 1000000000, longest_ns = 1000000000000000000; /* thirty years: sums of longer ones overflow */

/* amount / (rate x share / 1000) seconds, rounded up. */
static uint64_t at_rate(uint64_t amount, uint64_t rate, uint64_t share)
{
    const unsigned __int128 each = (unsigned __int128)rate * share,
                            ns = each ? ((unsigned __int128)amount * second_ns * 1000 + each - 1) / each : 0;
    return ns < longest_ns ? (uint64_t)ns : longest_ns;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t times(uint64_t ns, double factor)
{
    return (uint64_t)fmin((double)ns * factor, (double)longest_ns);
}

static uint64_t straggling_ns(const struct hardware *hardware, uint64_t ns)
{
    return hardware->straggler > 1 ? times(ns, hardware->straggler) : ns;
}

/* ---- collectives ---- */

struct group_shape group_shape_of(const struct process_group *group, int per_node)
{
    struct group_shape shape = {group->count, 0, 0};
    int node = -1, here = 0;
    for (int m = 0; m < group->count; m++) { /* members are in the order of ranks */
        const int of = member_rank(group, m) / per_node;
        if (of != node) node = of, here = 0, shape.nodes++;
        if (++here > shape.most) shape.most = here;
    }
    return shape;
}

static uint64_t intra_ns(const struct hardware *hardware, uint64_t bytes)
{
    return hardware->intra_ns + at_rate(bytes, hardware->intra_rate, hardware->link_efficiency);
}

static uint64_t inter_ns(const struct hardware *hardware, uint64_t bytes)
{
    return hardware->inter_ns + at_rate(bytes, hardware->inter_rate, hardware->link_efficiency);
}

static uint64_t ring_ns(const struct hardware *hardware, const struct group_shape *shape, uint64_t sharers,
                        uint64_t chunk)
{
    const uint64_t rings = (sharers + (uint64_t)shape->most - 1) / (uint64_t)shape->most;
    const uint64_t within = shape->most > 1 ? intra_ns(hardware, chunk) : 0,
                   across = shape->nodes > 1 ? inter_ns(hardware, chunk * rings) : 0;
    return (uint64_t)(shape->ranks - 1) * larger(within, across);
}

static uint64_t tree_ns(const struct hardware *hardware, const struct group_shape *shape, uint64_t sharers,
                        uint64_t chunk)
{
    uint64_t ns = 0;
    for (int64_t have = 1; have < shape->ranks; have *= 2) {
        const int64_t left = shape->ranks - have;
        const uint64_t bytes = chunk * (uint64_t)(left < have ? left : have);
        ns += have < shape->most ? intra_ns(hardware, bytes) : inter_ns(hardware, bytes * sharers);
    }
    return ns;
}

static uint64_t hierarchical_ns(const struct hardware *hardware, const struct group_shape *shape, uint64_t sharers,
                                uint64_t chunk)
{
    const uint64_t nodes = (uint64_t)shape->nodes, most = (uint64_t)shape->most;
    return (nodes - 1) * (nodes > 1 ? inter_ns(hardware, chunk * sharers) : 0) +
           (most - 1) * intra_ns(hardware, nodes * chunk);
}

uint64_t way_ns(const struct hardware *hardware, enum way way, const struct group_shape *shape, int per_node,
                uint64_t chunk)
{
    typedef uint64_t formula(const struct hardware *, const struct group_shape *, uint64_t, uint64_t);
    static formula *const formulas[WAYS] = {
        [WAY_RING] = ring_ns, [WAY_TREE] = tree_ns, [WAY_HIERARCHICAL] = hierarchical_ns};
    uint64_t least = UINT64_MAX;
    if (way != WAY_FASTEST) return formulas[way](hardware, shape, (uint64_t)per_node, chunk);
    for (enum way each = WAY_RING; each <= WAY_HIERARCHICAL; each++) {
        const uint64_t ns = formulas[each](hardware, shape, (uint64_t)per_node, chunk);
        if (ns < least) least = ns;
    }
    return least;
}

/* What a rank sends in a ring or a tree, where it passes on what others brought: all but one part, as in a reduction. */
static uint64_t passed_bytes(const struct cost_input *input, const struct op *op, int rank)
{
    struct op reduction = *op;
    int64_t bytes[LINKS];
    reduction.kind = OP_REDUCE_SCATTER;
    op_link_bytes(bytes, input->schedule, input->model, &reduction, rank, 0); /* 0: all on one node, so all over one link */
    return (uint64_t)bytes[LINK_INTRA];
}

/* Directly a rank sends its own part to all, and copies what is its own: the slowest of the links that it uses. */
static uint64_t links_ns(const struct cost_input *input, const struct op *op, int rank)
{
    const struct hardware *hardware = input->hardware;
    const uint64_t sharers = hardware->paced ? 1 : (uint64_t)input->per_node;
    const struct { uint64_t ns, rate, sharers; } links[LINKS] = {
        [LINK_INTRA] = {hardware->intra_ns, hardware->intra_rate, 1},
        [LINK_INTER] = {hardware->inter_ns, hardware->inter_rate, sharers},
        [LINK_PCIE] = {hardware->pcie_ns, hardware->pcie_rate, 1},
        [LINK_NVME] = {hardware->nvme_ns,
                       op->lane == LANE_NVME_READ ? hardware->nvme_read_rate : hardware->nvme_write_rate, sharers},
    };
    int64_t bytes[LINKS];
    uint64_t most = 0;
    op_link_bytes(bytes, input->schedule, input->model, op, rank, input->per_node);
    for (int link = 0; link < LINKS; link++)
        if (bytes[link] > 0)
            most = larger(most, links[link].ns + at_rate((uint64_t)bytes[link] * links[link].sharers, links[link].rate,
                                                         hardware->link_efficiency));
    return rank == hardware->slow_rank ? straggling_ns(hardware, most) : most;
}

typedef uint64_t rank_measure(const struct cost_input *input, const struct op *op, int rank);

/* That of the rank that has most: the others wait for it. Of more than LOOKED_AT ranks some are looked at: where members have their
 * parts one after the other, those at both ends of each piece, between which all have the same; else the first. */
static uint64_t most_of(const struct cost_input *input, const struct op *op, rank_measure *measure)
{
    const struct schedule *schedule = input->schedule;
    const bool in_turn = op->group == GROUP_WORLD || op->group == GROUP_SHARDS || op->group == GROUP_PARTITION,
               all = schedule->ranks <= LOOKED_AT;
    const int ranks = schedule->ranks, first = all ? ranks : in_turn ? 1 : PARTS_LOOKED_AT / ranks;
    uint64_t most = 0;
    for (int rank = 0; rank < first && rank < LOOKED_AT; rank++) most = larger(most, measure(input, op, rank));
    if (!all && input->hardware->straggler > 1) most = larger(most, measure(input, op, input->hardware->slow_rank));
    for (int p = 0; in_turn && !all && p < 2 * op->piece_count; p++) {
        const struct piece *piece = &schedule->pieces[op->first_piece + p / 2];
        int64_t next, at = piece->first + (p % 2 ? piece->elems - 1 : 0);
        const int owner = op_owner(schedule, input->model, op, piece->unit, 0, 0, at, &next);
        for (int rank = owner - 1; rank <= owner + 1; rank++)
            if (rank >= 0 && rank < ranks) most = larger(most, measure(input, op, rank));
    }
    return most;
}

/* n - 1 chunks in every round; of an all-reduce twice as many. They are the mean over the ranks at least. */
static uint64_t passing_ns(const struct cost_input *input, const struct op *op, const struct group_shape *shape)
{
    const uint64_t rounds = (uint64_t)op_rounds(input->schedule, op), halves = op->kind == OP_ALL_REDUCE ? 2 : 1,
                   parts = rounds * halves * ((uint64_t)shape->ranks - 1);
    const uint64_t bytes = larger(most_of(input, op, passed_bytes) * halves, (uint64_t)op->sent_bytes);
    const uint64_t chunk = op->kind == OP_AGREE ? AGREEMENT_BYTES : (bytes + parts - 1) / parts;
    return rounds * halves * way_ns(input->hardware, input->hardware->way, shape, input->per_node, chunk);
}

static uint64_t direct_ns(const struct cost_input *input, const struct op *op, const struct group_shape *shape)
{
    const struct hardware *hardware = input->hardware;
    if (op->kind != OP_AGREE || hardware->paced) return most_of(input, op, links_ns);
    return shape->nodes > 1 ? inter_ns(hardware, AGREEMENT_BYTES * (uint64_t)input->per_node)
                            : intra_ns(hardware, AGREEMENT_BYTES);
}

static uint64_t array_bytes(const struct schedule *schedule, int buffer, int64_t elems)
{
    if (buffer < 0) return 0;
    const struct buffer *of = &schedule->buffers[buffer];
    const int64_t bytes = dtype_array_bytes(of->dtype, elems);
    return (uint64_t)(bytes < of->bytes ? bytes : of->bytes);
}

/* A rank that is alone copies what it collects, unless that stays where it is. */
static uint64_t own_copy_ns(const struct cost_input *input, const struct op *op)
{
    const struct hardware *hardware = input->hardware;
    uint64_t bytes = 0;
    for (int p = 0; p < op->piece_count; p++) {
        const struct piece *piece = &input->schedule->pieces[op->first_piece + p];
        if (piece->source != piece->destination) bytes += array_bytes(input->schedule, piece->destination, piece->elems);
    }
    return hardware->way == WAY_DIRECT && !hardware->paced ? at_rate(bytes, hardware->intra_rate, hardware->link_efficiency) : 0;
}

static uint64_t collective_ns(const struct cost_input *input, const struct op *op, const struct group_shape *shape)
{
    if (shape->ranks < 2) return own_copy_ns(input, op);
    return (uint64_t)op_rounds(input->schedule, op) * input->hardware->call_ns +
           (input->hardware->way == WAY_DIRECT ? direct_ns(input, op, shape) : passing_ns(input, op, shape));
}

/* ---- computing ---- */

static uint64_t piece_bytes(const struct schedule *schedule, const struct op *op)
{
    uint64_t bytes = 0;
    for (int p = 0; p < op->piece_count; p++) {
        const struct piece *piece = &schedule->pieces[op->first_piece + p];
        bytes += array_bytes(schedule, piece->source, piece->elems) +
                 array_bytes(schedule, piece->destination, piece->elems);
    }
    return bytes;
}

/* Master weights and states are read and written, the gradient is read, parameters are written. */
static uint64_t tile_bytes(const struct cost_input *input, const struct op *op)
{
    int64_t first, end;
    uint64_t bytes = 0;
    update_range(input->schedule, input->model, op, 0, &first, &end);
    for (int role = 0; role < ROLES; role++) {
        const bool twice = role == ROLE_MASTER || role == ROLE_STATE1 || role == ROLE_STATE2,
                   again = role == ROLE_PARAMETERS && op->buffer[role] == op->buffer[ROLE_MASTER];
        if (!again) bytes += (twice ? 2 : 1) * array_bytes(input->schedule, op->buffer[role], end - first);
    }
    return bytes;
}

/* Of all units whose gradient lies in the lane's tier: the slice that the rank owns. */
static uint64_t norm_bytes(const struct cost_input *input, const struct op *op)
{
    const enum tier tier = op->lane == LANE_HOST ? TIER_HOST : TIER_DEVICE;
    uint64_t bytes = 0;
    for (int u = 0; u < input->model->unit_count; u++) {
        const int gradient = input->schedule->layout[u].gradient;
        int64_t first, end;
        slice_range(input->schedule, input->model, u, 0, &first, &end);
        if (gradient >= 0 && input->schedule->buffers[gradient].tier == tier)
            bytes += array_bytes(input->schedule, gradient, end - first);
    }
    return bytes;
}

uint64_t op_touched_bytes(const struct cost_input *input, const struct op *op)
{
    const struct schedule *schedule = input->schedule;
    uint64_t bytes = 0;
    if (op->kind == OP_GRAD_NORM || op->kind == OP_HOST_NORM) return norm_bytes(input, op);
    if (op_is_update(op->kind) || op->kind == OP_HOST_CAST) return tile_bytes(input, op);
    if (op->piece_count) return piece_bytes(schedule, op);
    for (int role = 0; role < ROLES; role++) {
        bool counted = op->buffer[role] < 0 || role == ROLE_SCRATCH;
        for (int before = 0; before < role; before++) counted |= op->buffer[before] == op->buffer[role];
        if (!counted) bytes += (uint64_t)schedule->buffers[op->buffer[role]].bytes;
    }
    return bytes;
}

static uint64_t compute_ns(const struct cost_input *input, const struct op *op)
{
    const struct hardware *hardware = input->hardware;
    const uint64_t flops = (uint64_t)op_flops(input->schedule, input->model, op),
                   attention = hardware->attention_efficiency ? (uint64_t)op_attention_flops(input->schedule, input->model, op) : 0,
                   rate = hardware_flops(hardware, input->model->dtype), bytes = op_touched_bytes(input, op),
                   kernels = dtype_bytes(input->model->dtype) < 4 ? hardware->kernel_half_rate : hardware->kernel_rate;
    if (op->lane == LANE_HOST)
        return hardware->op_ns +
               at_rate(bytes * (uint64_t)input->per_node, hardware->host_rate, hardware->memory_efficiency);
    return hardware->op_ns +
           at_rate(flops - attention, rate, hardware->product_efficiency) +
           at_rate(attention, rate, hardware->attention_efficiency) +
           at_rate(bytes, flops && kernels ? kernels : hardware->memory_rate, hardware->memory_efficiency);
}

/* ---- all ---- */

static uint64_t work_ns(const struct cost_input *input, const struct op *op, const struct group_shape *shape)
{
    if (op->lane == LANE_COMM) return collective_ns(input, op, shape);
    return lane_computes(op->lane) ? compute_ns(input, op) : most_of(input, op, links_ns);
}

uint64_t op_ns(const struct cost_input *input, const struct op *op, const struct group_shape *shape)
{
    const struct hardware *hardware = input->hardware;
    uint64_t ns = work_ns(input, op, shape);
    if (lane_computes(op->lane)) ns = straggling_ns(hardware, ns); /* of moves links_ns() knows whose they are */
    if (op_is_followed(op)) ns = larger(ns, straggling_ns(hardware, hardware->least_ns));
    return hardware->slow_motion > 1 ? times(ns, hardware->slow_motion) : ns;
}

int cost_check(const struct cost_input *input, struct error *err)
{
    const struct hardware *hardware = input->hardware;
    const struct {
        uint64_t rate;
        const char *name;
    } needs[LANES] = {
        [LANE_COMPUTE] = {hardware_flops(hardware, input->model->dtype), "FLOP/s of the model's type"},
        [LANE_COMM] = {input->per_node < input->schedule->ranks ? hardware->inter_rate : 1, "inter.bandwidth"},
        [LANE_D2H] = {hardware->pcie_rate, "pcie.bandwidth"},
        [LANE_H2D] = {hardware->pcie_rate, "pcie.bandwidth"},
        [LANE_HOST] = {hardware->host_rate, "host.bandwidth"},
        [LANE_NVME_READ] = {hardware->nvme_read_rate, "nvme.read"},
        [LANE_NVME_WRITE] = {hardware->nvme_write_rate, "nvme.write"}};
    for (int i = 0; i < input->schedule->op_count && !hardware->paced; i++) {
        const enum lane lane = input->schedule->ops[i].lane;
        if (!needs[lane].rate)
            return error_set(err, STATUS_USAGE, "hardware %s: lacks %s, which this step needs (%s)", hardware->name,
                             needs[lane].name, dtype_name(input->model->dtype));
    }
    return STATUS_OK;
}
