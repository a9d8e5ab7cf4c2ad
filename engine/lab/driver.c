#include "engine/lab/play.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/json.h"
#include "engine/base/words.h"

bool run_waits(const struct run_model *model)
{
    return model->has_state && (model->state == RUN_PAUSED || model->state == RUN_OUT_OF_MEMORY);
}

/* The number of the present part: it grows with each relaunch. */
static int run_part_number(const struct run_model *model)
{
    return model->part_count ? model->parts[model->part_count - 1].number : 0;
}

static bool has_stepped(const struct lab_driver *driver, const struct run_model *model)
{
    const struct run_step *last = run_last_step(model);
    if (!last || last->step < driver->from_step) return false;
    return last->step > driver->from_step || last->attempt > driver->from_attempt;
}

void driver_begin(struct lab_driver *driver, const struct lab_actions *actions)
{
    *driver = (struct lab_driver){.actions = actions};
}

static enum driver_says stuck(struct lab_driver *driver, const char *why)
{
    snprintf(driver->why_stuck, sizeof driver->why_stuck, "%.255s", why);
    return DRIVER_STUCK;
}

static enum driver_says send(struct lab_driver *driver, const struct run_model *model, const char *line)
{
    snprintf(driver->line, sizeof driver->line, "%s", line);
    driver->sent = true;
    driver->notices = run_notices_seen(model);
    const struct run_step *last = run_last_step(model);
    driver->from_step = last ? last->step : 0;
    driver->from_attempt = last ? last->attempt : 0;
    snprintf(driver->reason, sizeof driver->reason, "%s", model->reason);
    return DRIVER_SENDS;
}

/* The first notice since the command was sent that `matches` it; NULL: none. */
typedef bool notice_match(const struct run_notice *notice, const char *line);

static const struct run_notice *since(const struct lab_driver *driver, const struct run_model *model,
                                      notice_match *matches)
{
    for (int n = run_notices_since(model, driver->notices); n < model->notice_count; n++)
        if (matches(&model->notices[n], driver->line)) return &model->notices[n];
    return NULL;
}

static bool answers(const struct run_notice *notice, const char *line)
{
    return notice->kind == NOTICE_COMMAND && strncmp(notice->text, "command ", 8) == 0 &&
           strncmp(notice->text + 8, line, strlen(line)) == 0;
}

static bool is_shortage(const struct run_notice *notice, const char *line)
{
    (void)line;
    return notice->kind == NOTICE_EVENT && notice->level == 2;
}

static enum driver_says next_action(struct lab_driver *driver, const struct lab_scene *scene)
{
    driver->at++;
    driver->left = 0;
    driver->sent = driver->pausing = false;
    return driver_tick(driver, scene);
}

/* The engine refuses a command whose effect is already there; for a lab that counts as done. */
static bool stands_already(const struct command *command, const struct run_model *model)
{
    const struct run_schedule *plan = run_training(model);
    const int wanted = atoi(command->value);
    if (command->id == COMMAND_STAGE) return plan && plan->stage == wanted;
    return command->id == COMMAND_RANKS && model->ranks == wanted;
}

static enum driver_says begin_command(struct lab_driver *driver, const struct lab_action *action,
                                      const struct lab_scene *scene)
{
    struct command command;
    struct error err;
    char line[256], *text = prose_fill(&action->text, scene);
    if (!text) return stuck(driver, "no memory");
    int status = command_parse(&command, text, &err);
    free(text);
    if (status) return stuck(driver, err.text);
    if (stands_already(&command, scene->model)) return next_action(driver, scene);
    command_format(&command, line, sizeof line);
    driver->about_time = command_table[command.id].class == COMMAND_CLASS_TIME;
    driver->relaunches = command_class(&command) == COMMAND_CLASS_RESTART;
    driver->saves = command.id == COMMAND_CHECKPOINT;
    driver->part = run_part_number(scene->model);
    driver->saved_ns = scene->model->save.saved_ns;
    driver->failed_ns = scene->model->save.failed_ns;
    driver->was_short =
        scene->model->state == RUN_OUT_OF_MEMORY && command_table[command.id].class == COMMAND_CLASS_LIVE;
    if (!driver->was_short) return send(driver, scene->model, line);
    memcpy(driver->asked, line, sizeof driver->asked);
    return send(driver, scene->model, "pause");
}

/* The trace keeps no notice of pause, step and their like, unless they are refused; what they do is seen. */
static bool time_has_told(const struct lab_driver *driver, const struct run_model *model)
{
    if (strcmp(driver->line, "pause") == 0) return run_waits(model);
    if (strcmp(driver->line, "resume") == 0 || strcmp(driver->line, "toggle") == 0) return true;
    if (run_is_stuck(model)) return true;
    return run_waits(model) && strcmp(driver->reason, model->reason) != 0; /* it waits somewhere else now */
}

/* After a change, a run that was out of memory retries its step at once. A lab decides itself when to go on, so it asks for a pause
 * before the change: a pause sent after it would come too late now and then. */
static enum driver_says go_on_command(struct lab_driver *driver, const struct lab_scene *scene)
{
    if (driver->was_short && !driver->pausing) {
        driver->pausing = true;
        memcpy(driver->line, driver->asked, sizeof driver->line);
        return DRIVER_SENDS;
    }
    const struct run_notice *answer = since(driver, scene->model, answers);
    if (answer && answer->level > 0) return stuck(driver, answer->text);
    if (driver->saves && scene->model->save.failed_ns != driver->failed_ns)
        return stuck(driver, "the checkpoint could not be written");
    if (driver->saves && scene->model->save.saved_ns == driver->saved_ns) return DRIVER_WAITS;
    if (driver->relaunches && run_part_number(scene->model) == driver->part) return DRIVER_WAITS;
    bool over = driver->about_time ? time_has_told(driver, scene->model) : answer && run_waits(scene->model);
    return over ? next_action(driver, scene) : DRIVER_WAITS;
}

/* One step after the other; running out of memory ends it. */
static enum driver_says run(struct lab_driver *driver, const struct lab_action *action, const struct lab_scene *scene)
{
    const struct run_model *model = scene->model;
    if (!driver->sent) {
        if (!driver->left) driver->left = action->count;
        return send(driver, model, "step");
    }
    const struct run_notice *refused = since(driver, model, answers);
    if (refused) return stuck(driver, refused->text);
    if (!run_waits(model)) return run_is_stuck(model) ? next_action(driver, scene) : DRIVER_WAITS;
    if (since(driver, model, is_shortage))
        return model->state == RUN_OUT_OF_MEMORY ? next_action(driver, scene) : DRIVER_WAITS;
    if (!has_stepped(driver, model)) return DRIVER_WAITS;
    if (--driver->left == 0) return next_action(driver, scene);
    return send(driver, model, "step");
}

static enum driver_says go(struct lab_driver *driver, const struct lab_action *action, const struct lab_scene *scene)
{
    char *text = prose_fill(&action->text, scene);
    snprintf(driver->line, sizeof driver->line, "%s", text ? text : "");
    free(text);
    driver->at++;
    return DRIVER_GOES;
}

enum driver_says driver_tick(struct lab_driver *driver, const struct lab_scene *scene)
{
    if (!driver->actions || driver->at >= driver->actions->count) return DRIVER_DONE;
    const struct lab_action *action = &driver->actions->at[driver->at];
    const struct run_model *model = scene->model;
    if (action->act == LAB_KEEP) return driver->kept = action, driver->at++, DRIVER_KEEPS;
    if (action->act == LAB_GO) return go(driver, action, scene);
    if (model->ended) return stuck(driver, "the run has ended");
    if (!driver->sent && !run_waits(model) && !run_is_stuck(model)) { /* the learner let it run */
        if (!model->has_state || model->state != RUN_RUNNING || driver->pausing) return DRIVER_WAITS;
        driver->pausing = true;
        snprintf(driver->line, sizeof driver->line, "pause");
        return DRIVER_SENDS;
    }
    if (!driver->sent) driver->pausing = false;
    if (action->act == LAB_RUN) return run(driver, action, scene);
    return driver->sent ? go_on_command(driver, scene) : begin_command(driver, action, scene);
}

/* ---- the way back from what a learner changed ---- */

void lab_baseline_take(struct lab_baseline *baseline, const struct run_model *model)
{
    const struct run_step *last = run_last_step(model);
    *baseline = (struct lab_baseline){.known = true, .notices = run_notices_seen(model), .step = last ? last->step : 0};
}

static void show(char *out, size_t room, const cJSON *value)
{
    if (cJSON_IsNumber(value)) snprintf(out, room, "%.0f", value->valuedouble);
    else snprintf(out, room, "%s", cJSON_IsString(value) ? value->valuestring : "");
}

/* {"kind": "stage", "detail": {"from": 1, "to": 3}}; "set" names its key too. */
static bool read_change(struct baseline_change *change, const struct run_notice *notice)
{
    static const char *const kinds[] = {"stage", "budget", "ranks", "set"};
    cJSON *event = notice->kind == NOTICE_EVENT && notice->json ? cJSON_Parse(notice->json) : NULL;
    const char *kind = json_get_text(event, "kind");
    const cJSON *detail = json_get(event, "detail");
    const char *key = json_get_text(detail, "key");
    bool found = false;
    for (size_t k = 0; kind && k < sizeof kinds / sizeof *kinds; k++) found |= !strcmp(kind, kinds[k]);
    if (found) {
        snprintf(change->setting, sizeof change->setting, "%s%s%.80s", kind, key ? " " : "", key ? key : "");
        show(change->from, sizeof change->from, json_get(detail, "from"));
        show(change->to, sizeof change->to, json_get(detail, "to"));
    }
    cJSON_Delete(event);
    return found && *change->from;
}

/* Of several changes of one setting, the first has the old value, the last the present one. */
static int merge(struct baseline_change changes[BASELINE_CHANGES_MAX], int count, const struct baseline_change *change)
{
    for (int c = 0; c < count; c++) {
        if (strcmp(changes[c].setting, change->setting) != 0) continue;
        memcpy(changes[c].to, change->to, sizeof change->to);
        return count;
    }
    if (count < BASELINE_CHANGES_MAX) changes[count++] = *change;
    return count;
}

/* A command is recorded before its effects, so events before the first command are still the lab's own. */
static int find_changes(const struct lab_baseline *baseline, const struct run_model *model,
                        struct baseline_change changes[BASELINE_CHANGES_MAX])
{
    bool others = baseline->notices < model->notices_dropped;
    int count = 0;
    for (int n = run_notices_since(model, baseline->notices); n < model->notice_count; n++) {
        const struct run_notice *notice = &model->notices[n];
        struct baseline_change change;
        others |= notice->kind == NOTICE_COMMAND && notice->level == 0;
        if (others && read_change(&change, notice)) count = merge(changes, count, &change);
    }
    return count;
}

static void add_back(struct lab_baseline *baseline, const struct baseline_change *change)
{
    const int at = baseline->back.count;
    if (strcmp(change->from, change->to) == 0) return;
    snprintf(baseline->line[at], sizeof baseline->line[at], "%.95s=%.159s", change->setting, change->from);
    baseline->piece[at] = (struct prose_piece){.text = baseline->line[at]};
    baseline->back.at[baseline->back.count++] = (struct lab_action){.act = LAB_COMMAND, .text = {1, &baseline->piece[at]}};
    text_append(baseline->said, sizeof baseline->said, "%s%s (it was %s)", *baseline->said ? ", " : "",
                baseline->line[at], change->to);
}

bool lab_baseline_find(struct lab_baseline *baseline, const struct run_model *model)
{
    struct baseline_change changes[BASELINE_CHANGES_MAX];
    const struct run_step *last = run_last_step(model);
    const int count = baseline->known ? find_changes(baseline, model, changes) : 0;
    baseline->back.count = 0;
    baseline->said[0] = '\0';
    for (int c = 0; c < count; c++) add_back(baseline, &changes[c]);
    if (count && last && last->step > baseline->step)
        baseline->back.at[baseline->back.count++] = (struct lab_action){.act = LAB_RUN, .count = 1};
    return baseline->back.count > 0;
}
