/* One entry in a list of transfers between ranks that cannot read each other's memory. Each rank passes a list, and the lists match:
 * a rank's n-th send to a peer is the peer's n-th receive from it, and broadcasts and gathers have one order on all ranks. */
#pragma once

#include <stdint.h>

#include "engine/base/dtype.h"

enum transfer_way {
    TRANSFER_SEND,      /* sends `from` to rank `peer` */
    TRANSFER_RECEIVE,   /* receives from rank `peer` into `to` */
    TRANSFER_BROADCAST, /* copies `from` of rank `peer` to every rank's `to`, its own too; `from` may be `to` */
    TRANSFER_GATHER,    /* all-gathers `bytes` at each rank's `from` into every rank's `to`, in rank order; `from` may be its place there */
    TRANSFER_SUM,       /* writes the sum of all ranks' `from` to rank `peer`'s `to`, which may be its `from`; the order is the library's */
    TRANSFER_SUM_RANGES, /* reduce-scatters: `from` has `bytes` for each rank, in rank order; `to` gets the own part's sum, may lie in it */
};

enum { TRANSFER_ALIGN = 64 }; /* each part of a message starts at a multiple of this number of bytes */

struct transfer {
    enum transfer_way way;
    int peer;
    const void *from;
    void *to;
    uint64_t bytes;
    enum dtype dtype; /* of a sum's elements */
};
