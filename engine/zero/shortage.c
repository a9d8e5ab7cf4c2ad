/* Out of memory is agreed on: the first rank that failed, in rank order, tells all others what it wanted and who held what. */
#include <stdio.h>
#include <string.h>

#include "engine/zero/internal.h"

/* Fits one control exchange; the tier that ran out is what matters, so only its categories travel. */
struct shortage_message {
    int32_t failed, op, tier, category;
    uint64_t wanted_bytes, budget_bytes, live_bytes, reserved_bytes, peak_bytes;
    uint64_t category_live_bytes[CATEGORIES], category_reserved_bytes[CATEGORIES];
    char text[256];
};

static struct shortage_message message_of(const struct take_failure *mine)
{
    struct shortage_message message = {.failed = mine->failed};
    if (!mine->failed) return message;
    const struct memory_snapshot *memory = &mine->memory;
    message.op = mine->op;
    message.tier = (int32_t)mine->tier;
    message.category = (int32_t)mine->category;
    message.wanted_bytes = mine->wanted_bytes;
    message.budget_bytes = memory->budget_bytes[mine->tier];
    message.live_bytes = memory->tier[mine->tier].live_bytes;
    message.reserved_bytes = memory->tier[mine->tier].reserved_bytes;
    message.peak_bytes = memory->tier[mine->tier].peak_bytes;
    for (int c = 0; c < CATEGORIES; c++) {
        message.category_live_bytes[c] = memory->category[mine->tier][c].live_bytes;
        message.category_reserved_bytes[c] = memory->category[mine->tier][c].reserved_bytes;
    }
    memcpy(message.text, mine->text, sizeof message.text);
    return message;
}

static void describe(const struct shortage_message *message, int rank, struct zero_shortage *shortage)
{
    *shortage = (struct zero_shortage){.rank = rank,
                                       .op = message->op,
                                       .tier = (enum tier)message->tier,
                                       .category = (enum category)message->category,
                                       .wanted_bytes = message->wanted_bytes,
                                       .budget_bytes = message->budget_bytes};
    struct memory_snapshot *memory = &shortage->memory;
    memory->budget_bytes[shortage->tier] = message->budget_bytes;
    memory->tier[shortage->tier] =
        (struct memory_count){message->live_bytes, message->reserved_bytes, message->peak_bytes};
    for (int c = 0; c < CATEGORIES; c++) {
        memory->category[shortage->tier][c].live_bytes = message->category_live_bytes[c];
        memory->category[shortage->tier][c].reserved_bytes = message->category_reserved_bytes[c];
    }
    memcpy(shortage->text, message->text, sizeof shortage->text);
}

int zero_agree_on_failure(struct zero *zero, const struct take_failure *mine, bool *failed,
                          struct zero_shortage *shortage, struct error *err)
{
    struct shortage_message message = message_of(mine), all[zero->ranks];
    struct comm_stat stat = {0};
    int status = comm_exchange(zero->comm, &message, all, sizeof message, &stat, err);
    *failed = false;
    for (int r = zero->ranks - 1; status == STATUS_OK && r >= 0; r--) {
        if (!all[r].failed) continue;
        *failed = true;
        describe(&all[r], r, shortage);
    }
    return status;
}
