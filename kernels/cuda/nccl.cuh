/* Pointers to the functions of the NCCL library, which is opened at run time. */
#pragma once

#include <nccl.h>

extern "C" {
#include "engine/base/error.h"
}

/* Non-blocking communicators, which can be aborted at any time, need NCCL 2.14. */
#if NCCL_VERSION_CODE < 21400
#error "NCCL 2.14 or later is needed; NCCL=0 builds without"
#endif

#define NCCL_CALLS(X)                                                                                                  \
    X(ncclGetVersion)                                                                                                  \
    X(ncclGetErrorString)                                                                                              \
    X(ncclGetUniqueId)                                                                                                 \
    X(ncclCommInitRankConfig)                                                                                          \
    X(ncclCommGetAsyncError)                                                                                           \
    X(ncclCommFinalize)                                                                                                \
    X(ncclCommDestroy)                                                                                                 \
    X(ncclCommAbort)                                                                                                   \
    X(ncclGroupStart)                                                                                                  \
    X(ncclGroupEnd)                                                                                                    \
    X(ncclSend)                                                                                                        \
    X(ncclRecv)                                                                                                        \
    X(ncclBroadcast)                                                                                                   \
    X(ncclAllGather)                                                                                                   \
    X(ncclReduce)                                                                                                      \
    X(ncclReduceScatter)

struct nccl {
    void *handle;
#define X(name) decltype(&::name) name;
    NCCL_CALLS(X)
#undef X
};

int nccl_open(struct nccl *nccl, struct error *err); /* on an error nothing stays open */
void nccl_close(struct nccl *nccl);
