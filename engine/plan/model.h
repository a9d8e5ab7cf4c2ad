/* The model for the plan: its units (architecture.h) and their tensors, as shapes and offsets without values.
 *
 * A unit is what is gathered and released together: the embeddings (unit 0, used twice: the output layer is tied to it),
 * each block, the final norm. At every stage a unit is one flat array, its tensors in the order of its architecture, padded at
 * the end and cut into N equal shards; rank r owns shard r. So a gather is one collective without reordering, and a switch
 * of stage moves nothing that its owner already holds.
 *
 * Memory-centric tiling (ZeRO-Infinity, section 5.1.3) only cuts a model into more units. With model.mlp_tiles k, the MLP of a
 * block (8 C x C of its 12 C x C parameters) is cut along its hidden width into k units, which follow the block's unit. The
 * struct tensor of a tile says which elements of the whole tensor it has, so initial values, hashes and files do not depend on
 * the tiling. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/config/config.h"
#include "engine/plan/architecture.h"

struct tensor {
    int id; /* its row of the architecture's table */
    const char *name;
    int64_t rows, columns, elems;
    int64_t offset; /* where its first element lies in the unit's flat array */
    /* About the whole tensor. This is the whole tensor, unless it was cut for a tile. */
    int global;              /* number of the tensor in the model: selects the random stream of its initial values */
    int64_t canonical;       /* number of its first element over all of the model's parameters, untiled and unsharded */
    int64_t row, column;     /* where in it the first element of this tensor lies */
    int64_t whole_columns;
    enum tensor_init init;
    bool decay;     /* matrices and embeddings: weight decay applies to them even if not to all tensors */
};

struct unit {
    const struct use *use; /* the unit's own use in the chain; tells its kind */
    int place;        /* place of that use's output in the chain of outputs; tiles have their block's */
    int block;        /* number of the block, or -1 */
    int tile;         /* number of the tile in the MLP of the block, or -1 */
    char name[28];    /* "embed", "block 3", "mlp 3.0", "norm" */
    int64_t elems;    /* without padding */
    int tensor_count;
    struct tensor tensors[UNIT_TENSORS_MAX];
};

struct model {
    const struct architecture *architecture;
    struct config_model shape;
    enum dtype dtype;
    enum optimizer optimizer; /* decides which states are kept */
    enum backend_kind backend;     /* decides how much scratch kernels need */
    bool passes;                   /* NCCL collectives: gradients of other ranks arrive in a buffer (buckets.h) */
    enum dtype gradient, wire; /* types in which gradients accumulate, and travel; backward makes them in `dtype` */
    int mlp_tiles;  /* 1: MLPs are part of their blocks */
    int unit_count; /* includes the tiles of all blocks */
    int places;     /* places of the chain of outputs; the output layer has the last */
    int first;      /* number of the first block's unit, and also its place in the chain of outputs */
    bool tied;      /* the output layer uses the first unit */
    struct unit *units;
    int64_t elems;  /* Psi: all parameters, without padding */
};

/* Shards are cut at multiples of 16 elements: 64 bytes in fp32, so no two ranks write one cache line, and 32 in bf16. */
enum { SHARD_ALIGN_ELEMS = 16 };

/* Returns the key of the first size in which two models differ, and sets `sizes` to both values; NULL: none differs. Sizes that are
 * unknown (0) in `one` are not compared. */
const char *model_difference(const struct config_model *one, const struct config_model *other, int sizes[2]);

/* Makes the model of a shape, untiled, with AdamW; the same in tiles; or the model of a configuration. STATUS_RUN: no memory. */
int model_init(struct model *model, const struct config_model *shape, enum dtype dtype, struct error *err);
int model_init_tiled(struct model *model, const struct config_model *shape, int mlp_tiles, enum dtype dtype, struct error *err);
int model_of(struct model *model, const struct config *config, struct error *err);
void model_release(struct model *model);

/* How many times a forward of the whole model has this use. */
int model_repeats(const struct model *model, const struct use *use);

/* The unit number of a block, and of a tile of its MLP. */
int model_block(const struct model *model, int block);
int model_mlp(const struct model *model, int block, int tile);
bool model_tiled(const struct model *model);
bool model_is_tile(const struct model *model, int unit);
bool model_is_last_tile(const struct model *model, int unit); /* of its MLP */

/* Place of a use of a unit in the chain of outputs. A block and its tiles have the same place. */
int model_place(const struct model *model, const struct use *use, int unit);
/* The unit at a place: of a block and its tiles the block. With a tied output layer the last place is the first unit's, too. */
int model_unit_at(const struct model *model, int place);

/* Bytes of a use's output, [B * T, hidden] in the model's dtype, aligned. */
int64_t activation_output_bytes(const struct model *model, int B, int T);
int64_t activation_aligned(int64_t bytes); /* rounded up to ACTIVATION_ALIGN */

/* Elements of a block with the tiles of its MLP, without padding. All blocks are equal. */
int64_t model_block_elems(const struct model *model);

/* How many elements of a tensor, from number `elem` on and at most `most`, are also contiguous in the whole tensor. *whole: the number
 * of element `elem` in the whole tensor. */
int64_t tensor_run(const struct tensor *tensor, int64_t elem, int64_t most, int64_t *whole);

/* Elements of one shard of a unit of `elems` over `ranks`; the padded unit is ranks times that. */
int64_t shard_elems(int64_t elems, int ranks);

/* First element of the unit's tail: its last tensors, each of at most `threshold` elements, and of at most `most` elements in all.
 * unit.elems: there is no tail. */
int64_t unit_tail_from(const struct unit *unit, int64_t threshold, int64_t most);

/* The same for unit `u` with the persistence thresholds of stage 3. The tails of all units together stay within
 * model_persistence_threshold; earlier units are served first. */
int64_t persistent_from(const struct model *model, const struct config_zero *knobs, int u);
