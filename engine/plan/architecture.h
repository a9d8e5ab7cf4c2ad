/* Describes an architecture: its units and tensors, the order in which a step uses the units, and what it saves for backward. The
 * plan and everything after it read this table, so no other code names kinds of units, tensors or activations
 * (except printed formulas, the FLOPs profile, and files of weights). GPT-2 is the only one (gpt2.h, gpt2.c); its row also describes
 * LLaMA, Qwen2, OPT and BLOOM. The arithmetic of its uses is in engine/gpt.
 *
 * A model is a chain of uses: single units, repeated blocks, single units, the output layer. The output layer is tied to the first
 * unit, which is then used twice, or is a unit of its own. A use whose unit has no tensors at
 * this shape is left out. Every use but the last has an output of [B * T, hidden] in the model's dtype, which
 * is the next one's input. Other data for backward is saved in several buffers, because recomputation releases one and keeps
 * another. */
#pragma once

#include <stdint.h>

#include "engine/config/config.h"
#include "engine/plan/ops.h"

struct model;

enum { UNIT_TENSORS_MAX = 20, SAVED_MAX = 8, SAVED_SLOTS_MAX = 24, ACTIVATION_ALIGN = 64 };

/* Initial values: standard deviation 0.02; 0.02 / sqrt(2 layers), for projections into the residual stream; all 1; all 0. */
enum tensor_init { INIT_NORMAL, INIT_RESIDUAL, INIT_ONE, INIT_ZERO };

/* Which part of a block's tensor an MLP tile gets: none, it stays with the block; some rows; some columns; all, in the first tile. */
enum cut { CUT_STAYS, CUT_ROWS, CUT_COLUMNS, CUT_FIRST };

struct tensor_row {
    const char *name;
    int use; /* number of the use whose unit has it */
    enum tensor_init init;
    bool decay;
    enum cut cut;
};

/* How often a use stands in the chain. TIED is the output layer: if it has no tensors at this shape, it uses the first unit again. HALF is
 * the part of a block's forward that attention recomputation repeats; it uses the block's unit and stands in no forward. */
enum repeat { REPEAT_ONCE, REPEAT_BLOCK, REPEAT_TILE, REPEAT_TIED, REPEAT_HALF };

struct use {
    int number;             /* in the architecture's list */
    enum repeat repeat;
    const char *unit;       /* the unit's name, to which the numbers of block and tile are added */
    bool output;
    unsigned saves;         /* bits of the buffers that it saves for backward */
    const struct op_words *as; /* [USE_KINDS]: what its forward, backward and recompute are called */
};

struct saved_row {
    const char *name, *tiled_name; /* name of the buffer; its name if MLPs are tiled */
    unsigned remade;               /* bits of enum recompute: the kinds with which it is not kept from forward to backward */
};

struct activation_layout {
    int64_t offset[SAVED_SLOTS_MAX]; /* by slot: bytes from the buffer's start, multiples of ACTIVATION_ALIGN */
    int64_t bytes;
};

struct architecture {
    const char *name;
    const struct tensor_row *tensors; /* within a unit, in the order of its flat array */
    int tensor_count;
    void (*tensor_shape)(int tensor, const struct config_model *shape, int64_t *rows, int64_t *columns);
    const struct use *uses; /* in the order of the chain, a tile behind its block */
    int use_count;
    const struct saved_row *saved;
    int saved_count;
    int saved_for_tiles; /* number of the saved buffer of a block that its tiles read, too */
    /* Where the slots of a saved buffer lie, for B sequences of T tokens. */
    void (*layout)(struct activation_layout *layout, const struct model *model, int saved, int B, int T);
    /* Bytes of scratch that a use needs while it runs (0 for most), for `threads` compute threads. */
    int64_t (*scratch_bytes)(const struct model *model, enum op_kind kind, const struct use *use, int B, int T, int threads);
    /* Floating-point operations of a use: matrix products and attention, two to a multiply-add. output: the use also makes its output. */
    double (*flops)(const struct model *model, enum op_kind kind, const struct use *use, int B, int T, bool output);
    double (*attention_flops)(const struct model *model, enum op_kind kind, const struct use *use, int B, int T); /* part of flops() */
};

extern const struct architecture *const architectures[]; /* ends with NULL; every model uses the first */
