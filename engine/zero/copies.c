/* The lanes between tiers: a buffer of one tier becomes a buffer of another. On the CPU backend that is a copy in memory; a
 * paced PCIe link gives it the time that it would take. */
#include <string.h>

#include "engine/zero/internal.h"

int zero_copy(struct zero *zero, const struct schedule *schedule, const struct op *op, struct op_stat *stat)
{
    const uint64_t bytes = (uint64_t)op->bytes;
    const enum traffic kind = zero_traffic(op);
    memcpy(zero_buffer(zero, schedule, op->buffer[ROLE_OUTPUT]), zero_buffer(zero, schedule, op->buffer[ROLE_SOURCE]),
           bytes);
    zero->traffic[kind].count++;
    zero->traffic[kind].sent_bytes[0] += bytes;
    *stat = (struct op_stat){.sent_bytes = {[LINK_PCIE] = bytes}, .healthy = true};
    return STATUS_OK;
}
