#include "engine/observe/snapshot.h"

#include <stdlib.h>
#include <string.h>

#include "engine/observe/fold.h"

/* The last steps are copied: a rank may be in them still, or report on them late. */
enum { OPEN_STEPS = 2 };

static void *copy_of(const void *from, size_t bytes)
{
    void *copy = malloc(bytes ? bytes : 1);
    return copy && bytes ? memcpy(copy, from, bytes) : copy;
}

/* Copies the struct itself; its pointers are set to NULL or copied afterwards. */
static struct run_model *bare_copy(struct run_model *from)
{
    struct run_model *model = copy_of(from, sizeof *from);
    if (!model) return NULL;
    model->options.on_step_dropped = NULL;
    if (!header_share(&model->header, &from->header)) return free(model), NULL;
    model->rank = NULL;
    model->schedules = NULL;
    model->schedule_count = 0;
    model->steps = NULL;
    model->step_count = model->step_room = 0;
    model->notices = NULL;
    model->notice_count = model->notice_room = 0;
    model->sample.text = model->lesson.text = NULL;
    return model;
}

/* A copy without steps and notices; NULL: no memory. */
static struct run_model *copy_present(struct run_model *from)
{
    struct run_model *model = bare_copy(from);
    if (!model) return NULL;
    model->rank = copy_of(from->rank, (size_t)from->ranks * sizeof *from->rank);
    model->schedules = plans_share(from->schedules, from->schedule_count);
    if (model->schedules) model->schedule_count = from->schedule_count;
    if (from->sample.text) model->sample.text = copy_of(from->sample.text, from->sample.bytes + 1);
    if (from->lesson.text) model->lesson.text = copy_of(from->lesson.text, from->lesson.bytes + 1);
    if (model->rank && model->schedules && (model->sample.text || !from->sample.text) &&
        (model->lesson.text || !from->lesson.text))
        return model;
    run_model_free(model);
    return NULL;
}

static bool add_steps(struct run_model *model, const struct run_step *steps, int count)
{
    for (int i = 0; i < count; i++) {
        struct run_step *step = array_add(model->steps, model->step_count, model->step_room);
        if (!step) return false;
        *step = steps[i];
        if (step->sent_bytes)
            step->sent_bytes = copy_of(steps[i].sent_bytes, (size_t)step->ranks * sizeof *step->sent_bytes);
    }
    return true;
}

static bool add_notices(struct run_model *model, const struct run_notice *notices, int count)
{
    for (int i = 0; i < count; i++) {
        struct run_notice *notice = array_add(model->notices, model->notice_count, model->notice_room);
        if (!notice) return false;
        *notice = notices[i];
        notice->text = strdup(notices[i].text);
        notice->json = notices[i].json ? strdup(notices[i].json) : NULL;
        if (!notice->text) return false;
    }
    return true;
}

struct run_model *run_snapshot_take(struct run_model *model)
{
    const int open = model->step_count < OPEN_STEPS ? model->step_count : OPEN_STEPS;
    struct run_model *snapshot = copy_present(model);
    if (!snapshot) return NULL;
    snapshot->notices_dropped += (uint64_t)model->notice_count; /* how many there were */
    if (add_steps(snapshot, model->steps + model->step_count - open, open)) return snapshot;
    run_model_free(snapshot);
    return NULL;
}

size_t run_snapshot_bytes(const struct run_model *model)
{
    return sizeof *model + (size_t)model->ranks * sizeof *model->rank +
           (size_t)model->schedule_count * sizeof *model->schedules + model->sample.bytes + model->lesson.bytes +
           (size_t)model->step_count * (sizeof *model->steps + (size_t)model->ranks * sizeof *model->steps->sent_bytes);
}

/* The newest model's steps before the open ones, then the snapshot's open steps. */
struct run_model *run_snapshot_restore(struct run_model *snapshot, const struct run_model *newest)
{
    const uint64_t seen = snapshot->notices_dropped, dropped = newest->notices_dropped;
    const uint64_t kept = seen > dropped ? seen - dropped : 0;
    const int open = snapshot->step_count;
    int before = 0;
    struct run_model *model = copy_present(snapshot);
    if (!model) return NULL;
    model->notices_dropped = seen - kept;
    while (open && before < newest->step_count && newest->steps[before].step < snapshot->steps[0].step) before++;
    if (add_steps(model, newest->steps, before) && add_steps(model, snapshot->steps, open) &&
        add_notices(model, newest->notices, (int)kept))
        return model;
    run_model_free(model);
    return NULL;
}
