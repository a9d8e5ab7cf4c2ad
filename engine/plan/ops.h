/* Properties of the kinds of operations, of lanes and of phases; equal in every schedule.
 *
 * The kinds of a unit's operations are forward, backward and recompute. The unit's use (struct use in architecture.h) says which work
 * they do. So an architecture with other kinds of units adds no kind of operation. */
#pragma once

#include <stdbool.h>

struct use;

/* Schedules use the first seven. The others are for other programs, which have several streams and threads of a kind. */
enum lane {
    LANE_COMPUTE, LANE_COMM, LANE_D2H, LANE_H2D, LANE_HOST, LANE_NVME_READ, LANE_NVME_WRITE,
    LANE_COMPUTE_2, LANE_COMM_2, LANE_COMM_3, LANE_HOST_2,
    LANES
};
enum phase { PHASE_FORWARD, PHASE_BACKWARD, PHASE_OPTIMIZER, PHASES };

enum op_kind {
    OP_FORWARD, OP_BACKWARD, OP_RECOMPUTE, /* uses of a unit; recompute: forward again, because not all activations were kept */
#define OP(ID, code, name, lane, phase, help) OP_##ID,
#include "engine/plan/ops.def"
#undef OP
    OP_KINDS,
    USE_KINDS = OP_RECOMPUTE + 1
};

/* Traces and labs know an operation by a code, which stands for its kind and its use. Codes begin at 0 and have no gaps. */
enum { OP_CODES_MAX = 64 };
struct op_words { int code; const char *name, *help; };
const struct op_words *op_words(enum op_kind kind, const struct use *use); /* use NULL: the kind is not a use of a unit */
const char *op_name(enum op_kind kind, const struct use *use);
bool op_coded(int code, enum op_kind *kind, const struct use **use);       /* false: there is no such code */
const char *op_code_name(int code);                                        /* NULL: there is no such code */

enum lane op_lane(enum op_kind kind);
enum phase op_usual_phase(enum op_kind kind); /* the phase in ops.def; but a gather has the phase of the use that it is for */
enum lane lane_kind(enum lane lane);  /* COMPUTE_2 becomes COMPUTE, COMM_3 becomes COMM, ...; else the lane itself */
bool lane_computes(enum lane lane);   /* COMPUTE and HOST lanes: their work is arithmetic and has a phase; other lanes move bytes */
bool op_is_hosts(enum op_kind kind);  /* a CPU thread does it even with a GPU: operations of the lane HOST, and `agree` */
bool op_is_update(enum op_kind kind); /* an optimizer update, on the device or the host */
bool op_swaps(enum op_kind kind);     /* it moves bytes between host memory and NVMe */
const char *lane_name(enum lane lane);
const char *lane_short_name(enum lane lane); /* four letters at most */
const char *phase_name(enum phase phase);
