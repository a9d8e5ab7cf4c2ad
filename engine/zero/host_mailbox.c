/* Buffers between host and device: tokens, losses, norms; pinned if the driver accepts it. The agreement reads them when all
 * operations that write them have ended, so no operation of forward and backward waits for a number. */
#include <stdlib.h>
#include <string.h>

#include "engine/memory/pages.h"
#include "engine/zero/internal.h"

/* Tokens and targets of all micro-steps: every load of a step has its own place. */
static uint64_t tokens_bytes(const struct schedule *schedule)
{
    return (uint64_t)schedule->micro_steps * (uint64_t)schedule->B * (uint64_t)schedule->T * 2 * sizeof(int32_t);
}

static void lay_out(struct host_mailbox *mailbox, int units, int micro_steps)
{
    mailbox->unit_squares = mailbox->memory;
    mailbox->losses = (float *)(mailbox->unit_squares + units);
    mailbox->tokens = (int32_t *)(mailbox->losses + micro_steps);
}

int zero_make_mailbox(struct zero *zero, const struct schedule schedules[SCHEDULES], struct error *err)
{
    uint64_t tokens = 0;
    int micro_steps = 1;
    for (int s = 0; s < SCHEDULES; s++) {
        if (schedules[s].op_count && schedules[s].micro_steps > micro_steps) micro_steps = schedules[s].micro_steps;
        if (zero->device && schedules[s].op_count && tokens_bytes(&schedules[s]) > tokens)
            tokens = tokens_bytes(&schedules[s]);
    }
    const uint64_t numbers = (uint64_t)zero->model.unit_count * sizeof(double) + (uint64_t)micro_steps * sizeof(float),
                   bytes = round_up(numbers + tokens, PAGE_BYTES);
    if (bytes > zero->mailbox.bytes) {
        zero_release_mailbox(zero);
        void *memory = aligned_alloc(PAGE_BYTES, bytes);
        if (!memory) return error_set(err, STATUS_RUN, "no memory for a step's tokens and losses");
        memset(memory, 0, bytes);
        zero->mailbox = (struct host_mailbox){.memory = memory, .bytes = bytes};
        const struct pages *pages = zero->device ? zero->device->pages : NULL;
        zero->mailbox.pinned = pages && pages->pin && pages->pin(pages->user, memory, bytes, NULL) == STATUS_OK;
    }
    lay_out(&zero->mailbox, zero->model.unit_count, micro_steps);
    return STATUS_OK;
}

void zero_clean_mailbox(struct zero *zero)
{
    memset(zero->mailbox.memory, 0, (size_t)((char *)zero->mailbox.tokens - (char *)zero->mailbox.memory));
}

void zero_release_mailbox(struct zero *zero)
{
    const struct pages *pages = zero->device ? zero->device->pages : NULL;
    if (zero->mailbox.pinned) pages->unpin(pages->user, zero->mailbox.memory, zero->mailbox.bytes);
    free(zero->mailbox.memory);
    zero->mailbox = (struct host_mailbox){0};
}
