/* The head of `zerolab plan`: the settings that the figures depend on, as many per line as fit. */
#include <inttypes.h>
#include <stdarg.h>

#include "engine/advise/print.h"
#include "engine/base/grouped.h"
#include "engine/base/words.h"

struct list {
    FILE *out;
    int column;
};

__attribute__((format(printf, 2, 3))) static void say(struct list *list, const char *format, ...)
{
    char text[160];
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const bool breaks = list->column + 2 + length + 1 > PAGE_COLUMNS; /* ", " before it, "," after it */
    if (list->column) list->column += fprintf(list->out, breaks ? ",\n" : ", ");
    if (breaks) list->column = 0;
    list->column += fprintf(list->out, "%s", text);
}

static void end_list(struct list *list)
{
    fputc('\n', list->out);
    list->column = 0;
}

static const char *yes(bool value)
{
    return value ? "true" : "false";
}

static void say_offload(struct list *list, const struct config_zero *zero)
{
    const bool swaps = zero->offload_optimizer == OFFLOAD_NVME;
    if (zero->offload_optimizer) say(list, "offload_optimizer %s", offload_name(zero->offload_optimizer));
    if (swaps) say(list, "pipeline_read %s", yes(zero->pipeline_read));
    if (swaps) say(list, "pipeline_write %s", yes(zero->pipeline_write));
    if (zero->offload_optimizer && zero->offload_ratio < 1) say(list, "ratio %g", zero->offload_ratio);
    if (zero->offload_optimizer) say(list, "schedule.update_tile %" PRId64, zero->update_tile_elems);
    if (zero->delayed_update) say(list, "delayed by one step after %" PRId64, zero->delayed_update_after);
    if (zero->offload_param) say(list, "offload_param %s", offload_name(zero->offload_param));
    if (zero->offload_param != OFFLOAD_NVME) return;
    say(list, "max_in_cpu %" PRId64, zero->max_in_cpu_elems);
    say(list, "buffer_count %" PRId64 " of %" PRId64, zero->param_buffers, zero->param_buffer_elems);
}

static void say_stage_3(struct list *list, const struct config_zero *zero)
{
    say(list, "stage3_prefetch_bucket_size %" PRId64, zero->prefetch_bucket_elems);
    say(list, "stage3_max_live_parameters %" PRId64, zero->max_live_parameters);
    say(list, "stage3_max_reuse_distance %" PRId64, zero->max_reuse_distance);
    say(list, "stage3_param_persistence_threshold %" PRId64, zero->param_persistence_threshold);
    if (zero->model_persistence_threshold < INT64_MAX)
        say(list, "stage3_model_persistence_threshold %" PRId64, zero->model_persistence_threshold);
    say(list, "sub_group_size %" PRId64, zero->sub_group_elems);
    if (zero->keep_last_units) say(list, "schedule.keep_last_units %d", zero->keep_last_units);
}

static void say_recompute(struct list *list, const struct config_zero *zero)
{
    if (zero->recompute) say(list, "model.recompute %s", recompute_name(zero->recompute));
    if (zero->recompute != RECOMPUTE_FULL) return;
    say(list, "model.checkpoint_every %d", zero->checkpoint_every);
    if (zero->cpu_checkpointing) say(list, "checkpoints in the host tier");
}

static void say_knobs(struct list *list, const struct config_zero *zero)
{
    say(list, "reduce_bucket_size %" PRId64, zero->reduce_bucket_elems);
    say(list, "allgather_bucket_size %" PRId64, zero->allgather_bucket_elems);
    say(list, "overlap_comm %s", yes(zero->overlap_comm));
    if (zero->stage == 3) say_stage_3(list, zero);
    if (zero->stage >= 2 && zero->no_sync) say(list, "schedule.no_sync true");
    say_offload(list, zero);
    if (zero->prescale_gradients) say(list, "prescale_gradients true");
    else if (zero->gradient_predivide_factor != 1)
        say(list, "gradient_predivide_factor %g", (double)zero->gradient_predivide_factor);
    say_recompute(list, zero);
}

void plan_print_head(FILE *out, const struct setup *setup, const struct config *config)
{
    const int ranks = config->topology.ranks, threads = config->topology.threads_per_rank;
    struct list list = {out, 0};
    char a[32];
    say(&list, "%s: %s parameters (Psi) in %d units", config->model.name, grouped(a, setup->model.elems),
        setup->model.unit_count);
    say(&list, "%s", dtype_name(config->dtype));
    say(&list, "%s", optimizer_table[setup->model.optimizer].name);
    say(&list, "ZeRO stage %d", config->zero.stage);
    say(&list, "%d rank%s x %d thread%s", ranks, plural(ranks), threads, plural(threads));
    say(&list, "micro-batch %d x %d tokens a rank", config->micro_batch_size, config->data.sequence_length);
    say(&list, "%d micro-step%s", config->accumulation_steps, plural(config->accumulation_steps));
    end_list(&list);
    say_knobs(&list, &config->zero);
    end_list(&list);
    fprintf(out, "%d operations, %d buffers; the checker passed\n", setup->schedule.op_count,
            setup->schedule.buffer_count);
}
