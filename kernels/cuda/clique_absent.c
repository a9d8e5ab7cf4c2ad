/* The functions of clique.h in a build without NCCL. */
#include "kernels/cuda/clique.h"

#include <stdio.h>

#define ABSENT_WHY                                                                                                     \
    "zerolab was built without NCCL; put nccl.h where the CUDA toolkit has its headers, or give make NCCL=FOLDER"
#include "kernels/cuda/absent.h"

bool clique_build_text(char *text, size_t room)
{
    snprintf(text, room, "no NCCL");
    return false;
}

ABSENT(clique_library_text, char *text, size_t room, struct error *err)
ABSENT(clique_make_id, struct clique_id *id, struct error *err)
ABSENT(clique_open, struct clique **out, int ranks, const struct clique_id *id, struct error *err)
NOTHING(clique_close, struct clique *clique)
NOTHING(clique_break, struct clique *clique)
ABSENT(clique_look, struct clique *clique, struct error *err)
ABSENT(communicator_open, struct communicator **out, struct clique *clique, int rank, struct device_stream *stream,
       struct error *err)
NOTHING(communicator_close, struct communicator *communicator)
ABSENT(communicator_pass, struct communicator *communicator, const struct transfer *transfers, int count,
       struct error *err)
ABSENT(communicator_meet, struct communicator *communicator, struct error *err)
