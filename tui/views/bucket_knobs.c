/* All buckets of a step together, and what the knobs that make them so mean here. */
#include "tui/views/bucket_knobs.h"

#include "engine/base/grouped.h"
#include "engine/observe/cells.h"

struct knobs {
    const struct scene *scene;
    const struct run_schedule *plan;
    struct bucket_sums sums;
    int rank;
};

static void draw_totals(struct canvas canvas, int y, const struct knobs *knobs)
{
    const struct bucket_sums *sums = &knobs->sums;
    const enum units units = knobs->scene->state->units;
    char bytes[FORMAT_ROOM], mean[FORMAT_ROOM];
    draw_format(canvas, 1, y, STYLE_STRONG, "%d bucket%s, %s, mean %s: %d as the next did not fit, %d at the end",
                sums->count, plural(sums->count), format_bytes_bare(bytes, units, (uint64_t)sums->bytes),
                format_bytes_bare(mean, units, (uint64_t)(sums->bytes / sums->count)), sums->full, sums->by_end);
}

static void draw_size_knob(struct canvas canvas, int y, const struct knobs *knobs)
{
    const struct bucket_sums *sums = &knobs->sums;
    const int64_t knob = knobs->plan->ops.knobs.reduce_bucket_elems,
                  knob_bytes = sums->elems ? (int64_t)((double)sums->bytes / (double)sums->elems * (double)knob) : 0;
    char elems[FORMAT_ROOM], bytes[FORMAT_ROOM];
    int x =
        draw_format(canvas, 1, y, STYLE_TEXT, "reduce_bucket_size %s elements", format_count(elems, (uint64_t)knob));
    if (!sums->full) draw_text(canvas, x, y, STYLE_WARN, ": all fit, go at the end");
    else if (sums->largest_bytes > knob_bytes)
        draw_text(canvas, x, y, STYLE_TEXT, ": a tensor larger than that goes by itself");
    else
        draw_format(canvas, x, y, STYLE_TEXT, " (%s)",
                    format_bytes_bare(bytes, knobs->scene->state->units, (uint64_t)knob_bytes));
}

static void draw_memory_line(struct canvas canvas, int y, const struct knobs *knobs)
{
    const struct run_memory *memory =
        &knobs->scene->model->rank[knobs->rank].tier[TIER_DEVICE].category[CATEGORY_BUCKETS];
    const struct run_predicted *planned = &knobs->plan->category[TIER_DEVICE][CATEGORY_BUCKETS];
    const enum units units = knobs->scene->state->units;
    char live[FORMAT_ROOM] = "n/a", most[FORMAT_ROOM] = "n/a";
    if (knobs->plan->stage < 2) {
        draw_text(canvas, 1, y, STYLE_TEXT,
                  knobs->plan->ops.micro_steps > 1
                      ? "reduced in place, in G, after the last micro-step: no memory of their own"
                      : "reduced in place, in G: buckets have no memory of their own");
        return;
    }
    if (memory->known) format_bytes_bare(live, units, memory->live_bytes);
    if (planned->known) format_bytes_bare(most, units, planned->peak_bytes);
    draw_format(canvas, 1, y, STYLE_TEXT, "unreduced gradients now %s, planned peak %s", live, most);
}

void bucket_knobs_draw(struct canvas canvas, const struct scene *scene, const struct progress *at, int rank)
{
    const struct knobs knobs = {scene, at->plan, bucket_sums_of(&at->plan->ops), rank};
    draw_totals(canvas, 0, &knobs);
    draw_size_knob(canvas, 1, &knobs);
    draw_text(canvas, 1, 2, STYLE_TEXT,
              at->plan->ops.knobs.overlap_comm
                  ? "overlap_comm true: a bucket is reduced while backward fills the next one"
                  : "overlap_comm false: backward stands still while a bucket is in flight");
    draw_memory_line(canvas, 3, &knobs);
}
