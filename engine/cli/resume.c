#include "engine/cli/session.h"

#include "engine/base/words.h"
#include "engine/checkpoint/weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The value of the last setting of `path` as a number; 0: none. */
static long number_set(const struct text_list *sets, const char *path)
{
    long value = 0;
    for (int s = 0; s < sets->count; s++)
        if (config_is_set(&sets->at[s], 1, path)) value = strtol(strchr(sets->at[s], '=') + 1, NULL, 10);
    return value;
}

__attribute__((format(printf, 2, 3))) static void add(struct resume *resume, const char *format, ...)
{
    FORMAT_ARGUMENTS(resume->set[resume->sets], sizeof resume->set[0], format);
    resume->sets++;
}

/* A resolved configuration gives all three batch sizes; one of them must give way where the number of ranks, or another of
 * them, is changed. The batch of a step decides what is learned, so it stays as long as it divides. */
static void free_a_batch_size(struct resume *resume, const struct config *saved, const struct text_list *sets)
{
    static const char total[] = "train_batch_size", micro[] = "train_micro_batch_size_per_gpu",
                      steps[] = "gradient_accumulation_steps";
    const bool has_total = config_is_set(sets->at, sets->count, total),
               has_micro = config_is_set(sets->at, sets->count, micro),
               has_steps = config_is_set(sets->at, sets->count, steps);
    const long ranks = number_set(sets, "topology.ranks");
    const char *gives_way = NULL;
    const long each = (long)saved->accumulation_steps * ranks;
    const bool other_ranks = ranks > 0 && ranks != saved->topology.ranks;
    if (has_total) gives_way = !has_micro ? micro : !has_steps ? steps : NULL;
    else if (has_micro || has_steps) gives_way = total;
    else if (other_ranks) gives_way = saved->train_batch_size % each == 0 ? micro : total;
    if (gives_way == total && other_ranks && !has_micro && !has_steps)
        snprintf(
            resume->note, sizeof resume->note,
            "%d samples cannot be dealt out to %ld ranks: train_batch_size is %ld from here on, which changes what is "
            "learned",
            saved->train_batch_size, ranks, saved->micro_batch_size * each);
    if (gives_way) add(resume, "%s=null", gives_way);
}

/* A run that resumes from a folder may also save there. */
static void own_the_folder(struct resume *resume, struct run_spec *spec)
{
    char *real = realpath(resume->folder, NULL), *slash = real ? strrchr(real, '/') : NULL;
    if (slash && (size_t)(slash - real) < sizeof resume->dir) {
        snprintf(resume->dir, sizeof resume->dir, "%.*s", slash > real ? (int)(slash - real) : 1, real);
        spec->own = (struct text_list){1, {resume->dir}};
    }
    free(real);
}

static int put_first(struct resume *resume, struct text_list *sets, struct error *err)
{
    if (sets->count + resume->sets > TEXT_LIST_MAX)
        return error_set(err, STATUS_USAGE, "--set is given more than %d times", TEXT_LIST_MAX - resume->sets);
    memmove(sets->at + resume->sets, sets->at, (size_t)sets->count * sizeof *sets->at);
    for (int s = 0; s < resume->sets; s++) sets->at[s] = resume->set[s];
    sets->count += resume->sets;
    return STATUS_OK;
}

/* Clears keys that the saved configuration has only because a resolved configuration has a value for every key. */
static int go_on_as_saved(struct resume *resume, struct run_spec *spec, struct error *err)
{
    struct config saved;
    int status = config_load_text(&saved, resume->config_json, NULL, 0, err);
    if (status) return status;
    free_a_batch_size(resume, &saved, &spec->sets);
    if (saved.zero.overlap_comm == (saved.zero.stage == 3)) add(resume, "zero_optimization.overlap_comm=null");
    if (saved.number_checkpoints) add(resume, "activation_checkpointing.number_checkpoints=null");
    if (saved.topology.ranks_as == RANKS_AS_MPIRUN) add(resume, "topology.ranks_as=null"); /* of those hosts */
    if (config_has_nccl(&saved)) add(resume, "topology.collectives=null"); /* of that machine */
    /* The folder may have moved since the save: the next saves go where this checkpoint is now. */
    const char *slash = strrchr(resume->folder, '/');
    const int length = slash && slash > resume->folder ? (int)(slash - resume->folder) : 1;
    if (*saved.checkpoint.path && slash) add(resume, "checkpoint.path=\"%.*s\"", length, resume->folder);
    config_release(&saved);
    spec->config_text = resume->config_json;
    return put_first(resume, &spec->sets, err);
}

int resume_prepare(struct resume *resume, struct run_spec *spec, const char *from, bool weights_only, struct error *err)
{
    struct checkpoint *checkpoint;
    int status = checkpoint_open(&checkpoint, from, NULL, err);
    if (status) return status;
    const struct checkpoint_info *info = checkpoint_info(checkpoint);
    strcpy(resume->folder, info->folder);
    resume->steps_done = weights_only ? 0 : info->progress.steps_done;
    resume->data = info->data;
    resume->config_json = strdup(info->config_json);
    if (!resume->config_json) status = error_set(err, STATUS_RUN, "no memory to read %.200s", resume->folder);
    checkpoint_close(checkpoint);
    spec->resume = resume->folder;
    spec->weights_only = weights_only;
    if (!weights_only) own_the_folder(resume, spec);
    return status || spec->config_path ? status : go_on_as_saved(resume, spec, err);
}

/* Shapes of tensors do not show the number of heads, so the file or the user must give it. */
static int check_heads(const struct config_model *shape, const char *path, const struct run_spec *spec,
                       struct error *err)
{
    if (shape->heads || spec->config_path || config_is_set(spec->sets.at, spec->sets.count, "model.heads"))
        return STATUS_OK;
    return error_set(err, STATUS_USAGE, "%.300s does not say how many attention heads it has; give --set model.heads=N",
                     path);
}

/* The built-in default has settings for a small model from initial values, and its own length of a sample. */
static void leave_the_default(struct resume *resume, const struct config_model *shape)
{
    static const char *const neutral[] = {"optimizer.params.lr", "optimizer.params.betas", "optimizer.params.eps",
                                          "optimizer.params.weight_decay", "gradient_clipping"};
    enum { SEQUENCE = 128 };
    for (size_t n = 0; n < sizeof neutral / sizeof *neutral; n++) add(resume, "%s=auto", neutral[n]);
    add(resume, "data.sequence_length=%d", shape->context < SEQUENCE ? shape->context : SEQUENCE);
}

int resume_prepare_weights(struct resume *resume, struct run_spec *spec, const char *path, struct error *err)
{
    struct weights_file *file;
    if (!weights_is(path) && checkpoint_latest(path, resume->folder))
        return error_set(err, STATUS_USAGE,
                         "%.300s has checkpoints; begin with the weights of one: --resume %.100s --weights-only", path,
                         path);
    int status = weights_open(&file, path, err);
    if (status) return status;
    const struct config_model shape = weights_info(file)->shape;
    weights_close(file);
    add(resume, "model.layers=%d", shape.layers);
    add(resume, "model.hidden=%d", shape.hidden);
    add(resume, "model.context=%d", shape.context);
    add(resume, "model.vocabulary=%d", shape.vocabulary);
    if (shape.heads) add(resume, "model.heads=%d", shape.heads);
    if (!spec->config_path && !spec->config_text) leave_the_default(resume, &shape);
    snprintf(resume->folder, sizeof resume->folder, "%s", path);
    spec->resume = resume->folder;
    spec->weights_only = true;
    status = check_heads(&shape, path, spec, err);
    return status ? status : put_first(resume, &spec->sets, err);
}

int resume_check_weights(const char *path, const struct config *config, struct error *err)
{
    struct weights_file *file;
    struct model model;
    struct state_source source;
    int status = model_of(&model, config, err);
    if (!status && !(status = weights_open(&file, path, err))) {
        status = weights_source(&source, file, &model, err);
        weights_close(file);
    }
    model_release(&model);
    return status;
}

void resume_release(struct resume *resume)
{
    free(resume->config_json);
    resume->config_json = NULL;
}
