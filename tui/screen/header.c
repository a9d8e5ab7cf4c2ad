/* The rows at the top: what the run is, how the learning goes, where a step's time goes, and the state of the run with the
 * keys that act on it. Views other than the overview have only the second and the fourth row. */
#include <stdio.h>
#include <string.h>

#include "engine/base/words.h"
#include "engine/config/command.h"
#include "engine/observe/questions.h"
#include "tui/draw/bar.h"
#include "tui/screen/screen.h"

/* Adds a piece if all of it fits. */
static int add(struct canvas canvas, int x, enum style style, const char *text)
{
    return x + utf8_columns(text) < canvas.at.columns ? draw_text(canvas, x, 0, style, text) : x;
}

__attribute__((format(printf, 3, 4))) static int add_format(struct canvas canvas, int x, const char *format, ...)
{
    char text[160];
    FORMAT_ARGUMENTS(text, sizeof text, format);
    return add(canvas, x, STYLE_TEXT, text);
}

/* The backend: the processor's instruction set, or the number of GPUs and how they exchange data. */
static int draw_backend(struct canvas canvas, int x, const struct run_header *header)
{
    if (header->gpus < 1) return add_format(canvas, x, " · %s %s", header->backend, header->isa);
    return add_format(canvas, x, " · %s, %d GPU%s%s", header->backend, header->gpus, plural(header->gpus),
                      header->nccl                   ? ", NCCL"
                      : header->gpus < header->ranks ? ", shared"
                                                     : "");
}

/* What the sensors of all GPUs said last: " · 412 W, 1755 MHz, slowed by power cap". */
static int draw_sensors(struct canvas canvas, int x, const struct run_model *model)
{
    struct run_sensors all;
    char watts[16] = "n/a", clock[16] = "n/a", slowed_by[64];
    if (!run_sensors(model, &all)) return x;
    if (all.power_mw == UINT32_MAX && all.clock_mhz == UINT32_MAX) return add(canvas, x, STYLE_TEXT, " · sensors n/a");
    if (all.power_mw != UINT32_MAX) snprintf(watts, sizeof watts, "%u", (all.power_mw + 500) / 1000);
    if (all.clock_mhz != UINT32_MAX) snprintf(clock, sizeof clock, "%u", all.clock_mhz);
    run_slowed_text(slowed_by, sizeof slowed_by, &all);
    x = add_format(canvas, x, " · %s W, %s MHz", watts, clock);
    return all.slowed_by ? add_format(canvas, x, ", slowed by %s", *slowed_by ? slowed_by : "n/a") : x;
}

/* Where the ranks are, if on several hosts: " on a 0-1, b 2-3", or as much of that as there is room for. */
static int draw_hosts(struct canvas canvas, int x, const struct run_model *model)
{
    const struct trace_machine *machine;
    int hosts = 0;
    struct text text = {""};
    while ((machine = trace_machine(&model->machines, hosts))) {
        text_add(&text, "%s%s %d", hosts++ ? ", " : " on ", machine->host, machine->first_rank);
        if (machine->last_rank > machine->first_rank) text_add(&text, "-%d", machine->last_rank);
    }
    if (hosts < 2) return x;
    const int end = strlen(text.text) < sizeof text - 1 ? add(canvas, x, STYLE_TEXT, text.text) : x;
    return end > x ? end : add_format(canvas, x, " on %d hosts", hosts);
}

static void draw_identity(struct canvas canvas, const struct run_model *model)
{
    const struct run_header *header = &model->header;
    int x = draw_text(canvas, 1, 0, STYLE_TITLE, "zerolab") + 2;
    if (!header->known) {
        draw_text(canvas, x, 0, STYLE_DIM, "the run has not said yet what it is");
        return;
    }
    x = add(canvas, x, STYLE_STRONG, header->model_name[0] ? header->model_name : header->program[0] ? header->program : "unnamed model");
    if (header->parameters > 0)
        x = add_format(canvas, x, header->model_name[0] ? " %s parameters" : " · %s parameters",
                       format_short((uint64_t)header->parameters).text);
    if (header->precision[0]) x = add_format(canvas, x, " · %s", header->precision);
    if (header->world > header->ranks) x = add_format(canvas, x, " · %d of", header->ranks);
    if (header->ranks > 0)
        x = add_format(canvas, x, header->world > header->ranks ? " %d rank%s" : " · %d rank%s", header->world,
                       plural(header->world));
    x = draw_hosts(canvas, x, model);
    if (header->threads_per_rank > 0)
        x = add_format(canvas, x, " × %d thread%s", header->threads_per_rank, plural(header->threads_per_rank));
    if (header->backend[0]) x = draw_backend(canvas, x, header);
    x = draw_sensors(canvas, x, model);
    if (header->micro_batch > 0 && header->sequence_length > 0)
        x = add_format(canvas, x, " · B %d T %d", header->micro_batch, header->sequence_length);
    if (header->accumulation_steps > 1) x = add_format(canvas, x, " × %d", header->accumulation_steps);
    if (header->layers > 0)
        add_format(canvas, x, " · %d layers, hidden %d, %d heads, vocabulary %d", header->layers, header->hidden,
                   header->heads, header->vocabulary);
}

/* Right to left: tokens/s, validation; what is left in the middle is the loss and its curve. */
static void draw_learning(struct canvas canvas, const struct run_model *model)
{
    const struct run_step *step = run_last_step(model);
    const struct run_schedule *plan = run_training(model);
    int x = 1, end = canvas.at.columns - 1;
    double rate;
    if (plan) x = draw_format(canvas, x, 0, STYLE_STAGE, " ZeRO stage %d ", plan->stage) + 2;
    else if (model->header.recognised[0]) x = draw_format(canvas, x, 0, STYLE_STAGE, " %s ", model->header.recognised) + 2;
    else x = draw_text(canvas, x, 0, STYLE_DIM, "ZeRO stage n/a") + 2;
    x = step ? draw_format(canvas, x, 0, STYLE_TEXT, "last step %s", format_count(step->step).text)
             : draw_text(canvas, x, 0, STYLE_DIM, "no step yet");
    x += 2;
    const bool has_rate = run_tokens_per_second(model, &rate);
    const struct text speed = text_of("%s tokens/s", has_rate ? format_count((uint64_t)(rate + 0.5)).text : "n/a"),
                      validation = text_of("val %.4f @%u", (double)model->validation.loss, model->validation.step);
    draw_right(canvas, end, 0, STYLE_STRONG, speed.text);
    end -= utf8_columns(speed.text) + 2;
    if (model->validation.known) {
        draw_right(canvas, end, 0, STYLE_TEXT, validation.text);
        end -= utf8_columns(validation.text) + 2;
    }
    if (!step) return;
    if (!run_learns(model)) {
        draw_text(canvas, x, 0, STYLE_DIM, "loss n/a");
        return;
    }
    x = step->skipped ? draw_text(canvas, x, 0, STYLE_WARN, "step skipped")
                      : draw_format(canvas, x, 0, STYLE_STRONG, "loss %.4f", (double)step->loss);
    draw_sparkline(canvas, x + 1, 0, end - x - 1 > 60 ? 60 : end - x - 1, STYLE_SPARK, model->loss.value,
                   model->loss.count);
}

struct share {
    char letter;
    uint32_t pattern;
    enum style style;
    const char *name, *brief;
};

static const struct share shares[] = {
    {'F', 0x2588, STYLE_FORWARD, " forward", "wd"},  {'V', 0x2593, STYLE_BACKWARD, " backward", " bwd"},
    {'U', 0x2592, STYLE_UPDATE, " optimizer", "pd"}, {'!', 0x25a1, STYLE_EXPOSED, " exposed communication", "exposed"},
    {'.', 0x00b7, STYLE_OTHER, " other", "other"},
};
enum { SHARES = sizeof shares / sizeof shares[0] };

/* Nanoseconds of each share in the mean step; they add up to *total. */
static void fill_shares(uint64_t values[SHARES], const struct run_recent *recent, uint64_t *total)
{
    double known = 0, steps = recent->split_steps;
    *total = (uint64_t)((double)recent->split_total_ns / steps);
    for (int i = 0; i < SHARES - 1; i++) {
        double value = (i < PHASES ? recent->phase_ns[i] : recent->exposed_ns) / steps;
        values[i] = (uint64_t)value;
        known += value;
    }
    values[SHARES - 1] = known < (double)*total ? *total - (uint64_t)known : 0;
}

/* Right-aligned, after their letters; on a narrow screen short names. Returns where they begin. */
static int draw_share_names(struct canvas canvas, const uint64_t values[SHARES], uint64_t total)
{
    bool brief = canvas.at.columns < 120;
    int columns = 1;
    struct text text[SHARES];
    for (int i = 0; i < SHARES; i++) {
        text[i] = text_of("%s%3.0f%%", brief ? shares[i].brief : shares[i].name,
                          total ? 100.0 * (double)values[i] / (double)total : 0.0);
        columns += utf8_columns(text[i].text) + 2;
    }
    int begin = canvas.at.columns - columns, x = begin;
    for (int i = 0; i < SHARES; i++) {
        draw_bar(canvas, x, 2, 1, &(struct segment){1, shares[i].letter, shares[i].pattern, shares[i].style}, 1, 1);
        x = draw_text(canvas, x + 1, 2, STYLE_TEXT, text[i].text) + 1;
    }
    return begin;
}

/* While a run goes on, its figures stand as long as the step that is shown. */
static void draw_split(struct canvas canvas, const struct scene *scene)
{
    const struct history_step *shown = shown_moves(scene) ? shown_step(scene) : NULL;
    struct run_recent recent;
    uint64_t values[SHARES], total;
    struct segment segments[SHARES];
    if (!run_recent(scene->model, shown ? shown->step : UINT32_MAX, &recent)) return;
    uint64_t mean = recent.total_ns / (uint64_t)recent.steps;
    int x = canvas.at.columns < 120
                ? draw_format(canvas, 1, 2, STYLE_TEXT, "mean step %s ", format_time(mean).text)
                : draw_format(canvas, 1, 2, STYLE_TEXT, "mean of %d step%s %s ", recent.steps,
                              plural((uint64_t)recent.steps), format_time(mean).text);
    if (!recent.split_steps) {
        draw_text(canvas, x, 2, STYLE_DIM, "where the time goes is not known");
        return;
    }
    fill_shares(values, &recent, &total);
    int end = draw_share_names(canvas, values, total) - 1;
    for (int i = 0; i < SHARES; i++)
        segments[i] = (struct segment){values[i], shares[i].letter, shares[i].pattern, shares[i].style};
    draw_character(canvas, x, 2, STYLE_FRAME, '[');
    draw_bar(canvas, x + 1, 2, end - x - 2, segments, SHARES, total);
    draw_character(canvas, end - 1, 2, STYLE_FRAME, ']');
}

/* A hint replaces the reason where that one is told at length elsewhere. */
struct badge {
    enum style style;
    const char *name, *live_hint, *hint;
    bool only_hint;
};

static const struct badge badges[] = {
    [RUN_STARTING] = {STYLE_STRONG, "STARTING", "", "", false},
    [RUN_RUNNING] = {STYLE_GOOD, "RUNNING", "", "", false},
    [RUN_PAUSED] = {STYLE_WARN, "PAUSED", "Space goes on, . trains one step", "", false},
    [RUN_OUT_OF_MEMORY] = {STYLE_BAD, "OUT OF MEMORY", "", "I shows why", true}, /* live: way_out() */
    [RUN_ENDED] = {STYLE_STRONG, "ENDED", "", "", false},
    [RUN_RELAUNCHING] = {STYLE_WARN, "STARTING AGAIN", "", "", false},
};

/* The checkpoint that is being saved, else when the last one was completed. */
static struct text save_text(const struct run_model *model)
{
    const struct run_save *save = &model->save;
    const unsigned long long ago_s =
        model->now_ns > save->saved_ns ? (model->now_ns - save->saved_ns) / 1000000000u : 0;
    if (save->saving) return text_of("saving %s", save->tag);
    if (save->failed) return text_of("%s was not saved (E)", save->tag);
    if (!*save->saved_tag) return (struct text){""};
    return ago_s < 60 ? text_of("saved %s, %llu s ago", save->saved_tag, ago_s)
                      : text_of("saved %s, %llu min ago", save->saved_tag, ago_s / 60);
}

/* Out of memory: the keys of the stages that fit; where none does, the command that makes room, if one is known. */
static struct text way_out(const struct run_shortage *shortage, const struct view_state *state)
{
    const bool shown = state->view == VIEW_SHORTAGE, of_lab = state->lab && state->lab_focus;
    const char *why = !shown   ? "I shows why"
                      : of_lab ? "K, then Enter makes the chosen change"
                               : "Enter makes the chosen change";
    struct text stages = {""};
    for (int i = 0; i < shortage->fit_count; i++) {
        const int stage = command_stage(shortage->fits[i].command);
        if (stage >= 0) text_add(&stages, "%s%d", *stages.text ? " " : "", stage);
    }
    if (*stages.text) return text_of("%s; a stage that fits (%s) goes on", why, stages.text);
    if (shortage->fit_count) return text_of("%s; :%.80s goes on", why, shortage->fits[0].command);
    return text_of("%s", shown ? "" : why);
}

/* Whether the user has moved the cursor of a live run into its past. */
static bool looks_back(const struct view_state *state)
{
    return state->live && state->behind && !state->held && !state->last.step && state->speed != 0;
}

static struct text back_text(const struct scene *scene)
{
    const struct run_model *model = scene->model;
    const struct run_step *last = run_last_step(model);
    const enum run_state newest = scene->state->newest;
    const char *training = newest == RUN_PAUSED  ? "training is paused"
                           : newest == RUN_ENDED ? "training has ended"
                                                 : "training goes on";
    if (model->rank[0].open.begun) return text_of("in step %u; %s", model->rank[0].open.step, training);
    return text_of("after step %u; %s", last ? last->step : 0, training);
}

static void state_text(char *text, size_t room, const struct scene *scene)
{
    struct run_waiting waiting;
    const struct run_model *model = scene->model;
    const struct view_state *state = scene->state;
    const struct badge *badge = &badges[model->state];
    const struct text way = model->state == RUN_OUT_OF_MEMORY ? way_out(&model->shortage, state) : NO_TEXT;
    const bool takes_keys =
        view_key_mode(scene) == KEY_MODE_LIVE && !state->readonly && !(state->lab && state->lab->holds);
    const bool shown = state->view == VIEW_SHORTAGE;
    const char *hint = !takes_keys                         ? (shown ? "" : badge->hint)
                       : model->state == RUN_OUT_OF_MEMORY ? way.text
                                                           : badge->live_hint;
    if (looks_back(state)) snprintf(text, room, "%s", back_text(scene).text);
    else if (*state->later) snprintf(text, room, "%s takes effect after this step; . trains to its end", state->later);
    else if (state->last.step) snprintf(text, room, "shown: the last whole step, slowly");
    else if (state->held) snprintf(text, room, "an operation begins; , shows its end");
    else if (!model->has_state) snprintf(text, room, "%s", model->first_ns ? "" : "waiting for the first record");
    else if (run_is_stuck(model) && run_waiting(model, &waiting)) run_waiting_text(text, room, model, &waiting);
    else if (model->state == RUN_RUNNING && !model->reason[0]) snprintf(text, room, "%s", save_text(model).text);
    else if (model->state == RUN_ENDED && model->ended)
        snprintf(text, room, "%s%s%s%s", run_outcome_name(model->outcome), model->error[0] ? ": " : "", model->error,
                 state->live && state->trace_file ? "; Backspace replays it from here" : "");
    else
        snprintf(text, room, "%s%s%s", badge->only_hint ? "" : model->reason,
                 !badge->only_hint && model->reason[0] && hint[0] ? "; " : "", hint);
}

/* Shortens a text by whole clauses, from its end. */
static void drop_clauses(char *text, int columns)
{
    while (utf8_columns(text) > columns) {
        char *last = NULL;
        for (char *at = text; *at; at++)
            if ((*at == ';' || *at == ',') && at[1] == ' ') last = at;
        if (!last) return;
        *last = '\0';
    }
}

/* "×2", "×1/64", "×-4" */
static struct text format_speed(double speed)
{
    double size = speed < 0 ? -speed : speed;
    return text_of(size < 1 ? "×%s1/%.0f" : "×%s%.0f", speed < 0 ? "-" : "", size < 1 ? 1 / size : size);
}

/* Where the cursor is: "LIVE" ("WATCHING": live, but another viewer drives), "3.2 s behind (F: live)", "REPLAY stopped ×1";
 * on a printed frame nothing. */
static struct text place_text(const struct scene *scene)
{
    const struct view_state *state = scene->state;
    uint64_t behind_ns = state->newest_ns > state->cursor_ns ? state->newest_ns - state->cursor_ns : 0;
    if (!state->speed) return (struct text){""};
    const struct text speed = format_speed(state->speed);
    if (!state->live) return text_of("REPLAY %s %s  ", state->playing ? "▶" : "stopped", speed.text);
    if (state->last.step) return text_of("LAST STEP  ");
    if (!state->behind || state->held)
        return text_of("%s", scene->model->ended ? "" : state->watches ? "WATCHING  " : "LIVE  ");
    return text_of("%s behind%s%s (F: live)  ", format_time(behind_ns).text, state->playing ? " ▶ " : "",
                   state->playing ? speed.text : "");
}

/* One paced link with its rate, more without theirs. */
static struct text links_text(const struct run_pace *pace)
{
    int paced = 0, which = LINK_INTRA;
    for (int link = 0; link < LINKS; link++) {
        if (pace->links[link].bandwidth_bytes_per_s <= 0 && pace->links[link].latency_s <= 0) continue;
        paced++;
        which = link;
    }
    if (paced != 1) return text_of(paced ? "links paced  " : "");
    const char *name = which == LINK_INTRA ? "link" : link_name((enum link)which);
    if (pace->links[which].bandwidth_bytes_per_s <= 0) return text_of("%s paced  ", name);
    return text_of("%s %s  ", name, format_rate(UNITS_GB, pace->links[which].bandwidth_bytes_per_s).text);
}

/* Names all settings that make times on the screen longer than the machine needs: slow motion and paced links. */
static struct text pace_text(const struct scene *scene)
{
    const struct run_pace *pace = &scene->model->pace;
    struct text out = {""};
    if (scene->model->fault.kind)
        text_add(&out, "rank %d %s  ", scene->model->fault.rank, fault_name(scene->model->fault.kind));
    if (!pace->known) return out;
    if (pace->slow_motion > 1) text_add(&out, "slow x%g  ", pace->slow_motion);
    if (pace->slow_rank >= 0) text_add(&out, "rank %d slow  ", pace->slow_rank);
    if (pace->device_flops > 0) text_add(&out, "device paced  ");
    text_add(&out, "%s", links_text(pace).text);
    return out;
}

/* Returns where it begins. */
static int draw_clock(struct canvas canvas, const struct scene *scene)
{
    const struct run_model *model = scene->model;
    uint64_t now_ns =
        scene->state->behind && scene->state->cursor_ns > model->now_ns ? scene->state->cursor_ns : model->now_ns;
    uint64_t seconds = (now_ns - (model->first_ns ? model->first_ns : now_ns)) / 1000000000u;
    const struct text clock = text_of("%s%s%llu:%02llu", pace_text(scene).text, place_text(scene).text,
                                      (unsigned long long)(seconds / 60), (unsigned long long)(seconds % 60));
    draw_right(canvas, canvas.at.columns - 1, 0,
               scene->state->live && view_key_mode(scene) == KEY_MODE_ALWAYS ? STYLE_WARN : STYLE_DIM, clock.text);
    return canvas.at.columns - 1 - utf8_columns(clock.text);
}

bool header_offers(const struct view_state *state)
{
    return state->offer && state->view == VIEW_OVERVIEW;
}

static void draw_state(struct canvas canvas, const struct scene *scene)
{
    const struct run_model *model = scene->model;
    char text[700];
    const struct badge *badge = &badges[scene->state->held ? RUN_PAUSED
                                        : model->has_state ? model->state
                                                           : RUN_STARTING];
    enum style style = looks_back(scene->state) ? STYLE_WARN
                       : model->ended && model->outcome != OUTCOME_FINISHED && model->outcome != OUTCOME_STOPPED
                           ? STYLE_BAD
                           : badge->style;
    bool trouble = scene->state->trouble && !model->ended, lost = trouble && scene->state->live;
    const bool replayed = !scene->state->live && scene->state->speed != 0; /* place_text() says whether it plays */
    int x = draw_text(canvas, 1, 0, lost ? STYLE_BAD : style,
                      lost                                      ? "CONNECTION LOST"
                      : model->header.simulated                 ? "SIMULATED"
                      : model->header.program[0] && model->ended && !scene->state->live ? "IMPORTED"
                      : looks_back(scene->state)                ? "LOOKING BACK"
                      : !model->has_state && model->first_ns    ? "STATE N/A"
                      : replayed && model->state == RUN_RUNNING ? "RECORDED"
                                                                : badge->name) +
            2;
    int end = draw_clock(canvas, scene);
    state_text(text, sizeof text, scene);
    drop_clauses(text, end - x - 1);
    const char *offer = header_offers(scene->state) ? scene->state->offer : NULL, *said = trouble
                                                                                              ? scene->state->trouble
                                                                                          : offer ? offer
                                                                                                  : text;
    draw_words(canvas_part(canvas, x, 0, end - x - 1, 1), 0, 0,
               trouble ? STYLE_WARN
               : offer ? STYLE_FOCUS
                       : STYLE_TEXT,
               said);
}

static struct canvas row(struct canvas canvas, int y)
{
    return canvas_part(canvas, 0, y, canvas.at.columns, 1);
}

void header_draw(struct canvas canvas, const struct scene *scene)
{
    bool brief = canvas.at.rows < 4;
    if (!brief) draw_identity(canvas, scene->model);
    if (!brief) draw_split(canvas, scene);
    draw_learning(row(canvas, brief ? 0 : 1), scene->model);
    draw_state(row(canvas, brief ? 1 : 3), scene);
}
