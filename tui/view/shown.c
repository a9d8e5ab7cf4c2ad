/* Chooses the step that a screen shows. While a run goes on, it shows one of the last whole steps for two seconds,
 * because nobody can read a picture that changes faster. A step that is long enough to follow is shown while it runs. */
#include "tui/view/view.h"

enum { STEP_STAYS_S = 2, SLOW_MOTION_STEP_NS = 300000000 };
static const uint64_t second_ns = 1000000000;

uint64_t shown_now(const struct scene *scene)
{
    uint64_t last_ns = history_last_ns(scene->history);
    return scene->model->now_ns > last_ns ? scene->model->now_ns : last_ns;
}

const struct history_step *shown_whole_at(const struct history *history, uint64_t time_ns)
{
    for (int i = history_step_count(history) - 1; i >= 0; i--) {
        const struct history_step *at = history_step(history, i);
        if (at->ended_ns && at->ended_ns <= time_ns) return at;
    }
    return NULL;
}

bool shown_moves(const struct scene *scene)
{
    const struct view_state *state = scene->state;
    const bool runs = scene->model->state == RUN_RUNNING && !run_is_stuck(scene->model);
    return state->playing || (state->live && !state->behind && runs);
}

/* Trace time that passes in a second of the user's. */
static double pace(const struct view_state *state)
{
    double speed = state->speed < 0 ? -state->speed : state->speed;
    return state->playing && speed > 0 ? speed : 1;
}

/* So long that eyes can follow it; of one that has not ended, as far as it and the one before it tell. */
static bool is_slow(const struct scene *scene, const struct history_step *step)
{
    const uint64_t least_ns =
        scene->model->pace.slow_motion > 1 ? SLOW_MOTION_STEP_NS : (uint64_t)STEP_STAYS_S * second_ns;
    const struct history_step *before = shown_whole_at(scene->history, step->begun_ns);
    uint64_t so_far_ns = (step->ended_ns ? step->ended_ns : shown_now(scene)) - step->begun_ns;
    if (!step->ended_ns && before && before->ended_ns - before->begun_ns > so_far_ns)
        so_far_ns = before->ended_ns - before->begun_ns;
    return (double)so_far_ns > (double)least_ns * pace(scene->state);
}

/* The last step that ended in an interval of two seconds before this one, but of the newest schedule: a switch of stage
 * is seen at once. */
static const struct history_step *calm_step(const struct scene *scene, uint64_t at_ns)
{
    const uint64_t beat_ns = (uint64_t)((double)(STEP_STAYS_S * second_ns) * pace(scene->state)) + 1;
    const struct history_step *found = NULL;
    for (int i = history_step_count(scene->history) - 1; i >= 0; i--) {
        const struct history_step *at = history_step(scene->history, i);
        if (!at->ended_ns || at->ended_ns > at_ns) continue;
        if (found && at->schedule != found->schedule) break;
        found = at;
        if (at->ended_ns <= at_ns - at_ns % beat_ns) break;
    }
    return found;
}

const struct history_step *shown_step(const struct scene *scene)
{
    uint64_t at_ns = scene->state->behind ? scene->state->cursor_ns : shown_now(scene);
    const struct history_step *step = history_step_at(scene->history, at_ns), *calm;
    if (!step || !shown_moves(scene) || is_slow(scene, step)) return step;
    calm = calm_step(scene, at_ns);
    return calm ? calm : step;
}
