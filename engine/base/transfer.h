/* Bytes that ranks pass to each other in one go, where none can read another's memory. Every rank has a list, and lists match: of
 * two ranks the n-th send of one is the n-th receive of the other, and all have the same broadcasts and gathers in one order. */
#ifndef ENGINE_BASE_TRANSFER_H
#define ENGINE_BASE_TRANSFER_H

#include <stdint.h>

enum transfer_way {
    TRANSFER_SEND,      /* `from` goes to rank `peer` */
    TRANSFER_RECEIVE,   /* what rank `peer` sends arrives at `to` */
    TRANSFER_BROADCAST, /* `from` of rank `peer` arrives at everyone's `to`, its own too; `from` may be `to` */
    TRANSFER_GATHER,    /* `bytes` at each rank's `from` arrive at everyone's `to`, in rank order; `from` may be its place there */
};

enum { TRANSFER_ALIGN = 64 }; /* a part of a message starts at a multiple of so many bytes */

struct transfer {
    enum transfer_way way;
    int peer;
    const void *from;
    void *to;
    uint64_t bytes;
};

#endif
