/* The model for the plan: its units (architecture.h) and their tensors, as shapes and offsets without values.
 *
 * A unit is what is gathered and released together: the embeddings (unit 0, used twice: the output layer is tied to it),
 * each block, the final norm. At every stage a unit is one flat array, its tensors in the order of its architecture, padded at
 * the end and cut into N equal shards; rank r owns shard r. So a gather is one collective without reordering, and a switch
 * of stage moves nothing that its owner already holds.
 *
 * Memory-centric tiling (ZeRO-Infinity, section 5.1.3) makes more units of a model, and nothing else: with model.mlp_tiles k
 * the MLP of a block, 8 of its 12 C x C parameters, is cut along its hidden width into k units behind the block's. A tile's
 * struct tensor says which elements of which whole tensor it has, so initial values, hashes and files do not depend on how a
 * model is tiled. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/config/config.h"
#include "engine/plan/architecture.h"

struct tensor {
    int id; /* its row of the architecture's table */
    const char *name;
    int64_t rows, columns, elems;
    int64_t offset; /* of its first element in the unit's flat array */
    /* Of the whole tensor, which this is unless it was cut for a tile: */
    int global;              /* number over the model: the stream of its initial values */
    int64_t canonical;       /* number of its first element over all of the model's parameters, untiled and unsharded */
    int64_t row, column;     /* of its elements the one that is the first here */
    int64_t whole_columns;
    enum tensor_init init;
    bool decay;     /* a matrix or an embedding: what decays unless all does */
};

struct unit {
    const struct use *use; /* its kind: its own use in the chain */
    int place;        /* of that use in the chain of outputs; tiles have their block's */
    int block;        /* number of the block, or -1 */
    int tile;         /* of its MLP, or -1 */
    char name[28];    /* "embed", "block 3", "mlp 3.0", "norm" */
    int64_t elems;    /* without padding */
    int tensor_count;
    struct tensor tensors[UNIT_TENSORS_MAX];
};

struct model {
    const struct architecture *architecture;
    struct config_model shape;
    enum dtype dtype;
    enum optimizer optimizer; /* what state is kept */
    enum backend_kind backend;     /* whose kernels: what scratch they need */
    bool passes;                   /* NCCL collectives: gradients of other ranks arrive in a buffer (buckets.h) */
    enum dtype gradient, wire; /* in what gradients accumulate, and travel; backward makes them in dtype */
    int mlp_tiles;  /* 1: MLPs are part of their blocks */
    int unit_count; /* with the tiles of all blocks */
    int places;     /* of the chain of outputs; the tied use has the last */
    int first;      /* unit of the first block, and its place in the chain: as many units stand before it */
    bool tied;      /* the last use is of the first unit */
    struct unit *units;
    int64_t elems;  /* Psi: all parameters, without padding */
};

/* Shards are cut at multiples of 16 elements: 64 bytes in fp32, so no two ranks write one cache line, and 32 in bf16. */
enum { SHARD_ALIGN_ELEMS = 16 };

/* The first size in which two models differ, by its key, and what it is in each; NULL: none. A size that `one` does not know (0)
 * differs from nothing. */
const char *model_difference(const struct config_model *one, const struct config_model *other, int sizes[2]);

/* A shape by itself, untiled, for AdamW; or as a configuration has it. */
int model_init(struct model *model, const struct config_model *shape, enum dtype dtype, struct error *err);
/* The same model in other units. */
int model_init_tiled(struct model *model, const struct config_model *shape, int mlp_tiles, enum dtype dtype, struct error *err);
int model_of(struct model *model, const struct config *config, struct error *err);
void model_release(struct model *model);

/* How often a use stands in a forward of the whole model. */
int model_repeats(const struct model *model, const struct use *use);

/* The unit of a block, and of a tile of its MLP. */
int model_block(const struct model *model, int block);
int model_mlp(const struct model *model, int block, int tile);
bool model_tiled(const struct model *model);
bool model_is_tile(const struct model *model, int unit);
bool model_is_last_tile(const struct model *model, int unit); /* of its MLP */

/* Place of a use of a unit in the chain of outputs: a block and its tiles have the same. */
int model_place(const struct model *model, const struct use *use, int unit);
/* The unit at a place, a block itself rather than its tile; the first unit is at the last place, too. */
int model_unit_at(const struct model *model, int place);

/* Of an output: [B * T, hidden] in the model's dtype. */
int64_t activation_output_bytes(const struct model *model, int B, int T);
int64_t activation_aligned(int64_t bytes); /* to ACTIVATION_ALIGN */

/* Of the first block, which are as large as any other's, with the tiles of its MLP. */
int64_t model_block_elems(const struct model *model);

/* How many elements from number `elem` of a tensor on follow each other in the whole tensor too, at most `most`; *whole: the number
 * of the first of them there. */
int64_t tensor_run(const struct tensor *tensor, int64_t elem, int64_t most, int64_t *whole);

/* Elements of one shard of a unit of `elems` over `ranks`; the padded unit is ranks times that. */
int64_t shard_elems(int64_t elems, int ranks);

/* First element of the tail of small tensors, none over the threshold and all together at most `most` elements (unit.elems:
 * no tail). */
int64_t unit_tail_from(const struct unit *unit, int64_t threshold, int64_t most);

/* The same of unit `u` under stage 3's knobs: what all units keep gathered stays within the model's threshold, and units
 * take of it in their order. */
int64_t persistent_from(const struct model *model, const struct config_zero *knobs, int u);
