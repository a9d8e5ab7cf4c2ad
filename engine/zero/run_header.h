/* The first record of a trace, which describes the run. The engine writes it when a run begins, a simulation at its head. */
#pragma once

#include "engine/config/config.h"
#include "engine/data/data.h"
#include "engine/plan/model.h"

/* Where in the run this engine begins, and on which machine. resumed: the checkpoint folder from which the run
 * continues, or NULL. simulated_ranks: 0, or the run is simulated with so many ranks, of which the first `ranks` are recorded; isa is then
 * the name of the hardware. */
struct run_place { int part, ranks, ranks_per_node, gpus; int64_t steps_done; const char *isa, *resumed; int simulated_ranks; };

/* The JSON text of the first record, which describes the run. data NULL: there is none. The caller frees; NULL: no memory. */
char *run_header_json(const struct config *config, const struct model *model, const struct data *data, const struct run_place *place);
