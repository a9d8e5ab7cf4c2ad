/* The functions of clique.h in a build without NCCL. */
#include "kernels/cuda/clique.h"

#include <stdio.h>

#pragma GCC diagnostic ignored "-Wunused-parameter"

static int absent(struct error *err)
{
    return error_set(err, STATUS_USAGE,
                     "zerolab was built without NCCL; put nccl.h where the CUDA toolkit has its headers, or give "
                     "make NCCL=FOLDER");
}

bool clique_build_text(char *text, size_t room)
{
    snprintf(text, room, "no NCCL");
    return false;
}

int clique_library_text(char *text, size_t room, struct error *err)
{
    return absent(err);
}

int clique_open(struct clique **out, int ranks, struct error *err)
{
    return absent(err);
}

void clique_close(struct clique *clique)
{
}

void clique_break(struct clique *clique)
{
}

int communicator_open(struct communicator **out, struct clique *clique, int rank, struct device_stream *stream,
                      struct error *err)
{
    return absent(err);
}

void communicator_close(struct communicator *communicator)
{
}

int communicator_pass(struct communicator *communicator, const struct transfer *transfers, int count, struct error *err)
{
    return absent(err);
}
