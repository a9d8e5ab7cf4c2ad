#include "engine/lab/pane.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/json.h"

/* ---- of a play ----------------------------------------------------------------------------------------------------- */

static void ask_for(char *out, size_t room, const struct lab_step *step, bool presents)
{
    const struct unit_name *unit = step->answer.unit;
    const char *reveal = presents ? "; y shows it" : "";
    if (step->ask == LAB_PREDICT)
        snprintf(out, room, "Enter: %s%s%s%s", presents ? "predict" : "type your prediction", unit ? " in " : "",
                 unit ? unit->name : "", reveal);
    if (step->ask == LAB_QUIZ) snprintf(out, room, "choose: a to %c%s", 'a' + step->choice_count - 1, reveal);
    if (step->ask == LAB_TASK) snprintf(out, room, "do it%s Enter checks%s", presents ? ";" : ", then", reveal);
}

static void what_to_do(char *out, size_t room, const struct lab_play *play, bool presents)
{
    const struct lab_step *step = lab_play_step(play);
    switch (play->phase) {
    case PLAY_STARTING:
    case PLAY_RESTART:
        snprintf(out, room, play->lab->trace ? "the trace is being read ..." : "the run is being started ...");
        break;
    case PLAY_BEFORE:
    case PLAY_ACTING: snprintf(out, room, "the run shows it ..."); break;
    case PLAY_STUCK: snprintf(out, room, "U begins this part anew"); break;
    case PLAY_FINISHED: snprintf(out, room, "done; q leaves"); break;
    case PLAY_ASKING: ask_for(out, room, step, presents); break;
    case PLAY_TOLD:
        snprintf(out, room, "n goes on%s%s", step->ask == LAB_READ ? "" : ", x asks again",
                 step->ask != LAB_READ && presents ? "; y hides" : "");
    }
}

/* The learner returned to a step that is already answered. */
static void say_again(struct lab_pane *pane, const struct lab_play *play)
{
    const char *said = play->progress.at[play->progress.step].said;
    if (*said) snprintf(pane->notice, sizeof pane->notice, "you said %s before; n goes on", said);
    else snprintf(pane->notice, sizeof pane->notice, "you did this before; n goes on");
}

void lab_pane_of(struct lab_pane *pane, const struct lab_play *play, bool presents)
{
    const struct lab_progress *progress = &play->progress;
    lab_pane_release(pane);
    *pane = (struct lab_pane){.step = progress->step,
                                .count = progress->count,
                                .minutes = play->lab->minutes,
                                .finished = progress->finished,
                                .waits = play->phase == PLAY_ASKING || play->phase == PLAY_TOLD ||
                                         play->phase == PLAY_STUCK || play->phase == PLAY_FINISHED,
                                .asks = play->phase == PLAY_ASKING ? lab_play_step(play)->ask : LAB_READ,
                                .holds = !presents && lab_play_holds(play),
                                .told_from = play->told_from,
                                .page = &play->page};
    for (int s = 0; s < progress->count; s++) pane->marks[s] = progress->at[s].mark;
    pane->spent_minutes = (int)(lab_progress_sums(progress).seconds / 60 + 0.5);
    snprintf(pane->title, sizeof pane->title, "%s", play->lab->title);
    snprintf(pane->step_title, sizeof pane->step_title, "%s", lab_play_step(play)->title);
    if (!play->notice[0] && lab_play_was_answered(play) && !presents) say_again(pane, play);
    else snprintf(pane->notice, sizeof pane->notice, "%s", play->notice);
    const char *look = lab_play_step(play)->look;
    snprintf(pane->look, sizeof pane->look, "%s", look ? look : "");
    what_to_do(pane->to_do, sizeof pane->to_do, play, presents);
}

void lab_pane_release(struct lab_pane *pane)
{
    while (pane->own.count) free(pane->own.at[--pane->own.count].text);
}

/* ---- as JSON ------------------------------------------------------------------------------------------------------- */

static const char *const tones[] = {[TONE_TEXT] = "text",     [TONE_QUESTION] = "question", [TONE_CHOICE] = "choice",
                                    [TONE_CHOSEN] = "chosen", [TONE_HINT] = "hint",         [TONE_GOOD] = "good",
                                    [TONE_BAD] = "bad",       [TONE_FACT] = "fact",         [TONE_NOTE] = "note"};
enum { TONES = sizeof tones / sizeof *tones };

char *lab_pane_json(const struct lab_pane *pane, bool with_time)
{
    cJSON *json = cJSON_CreateObject(), *list;
    json_put(json, TEXT("title", pane->title), TEXT("step_title", pane->step_title), NUMBER("step", pane->step + 1),
             NUMBER("minutes", pane->minutes));
    if (with_time) cJSON_AddNumberToObject(json, "spent_minutes", pane->spent_minutes);
    json_put(json, TRUTH("finished", pane->finished), TRUTH("waits", pane->waits), TEXT("to_do", pane->to_do),
             TEXT("look", pane->look), NUMBER("told_from", pane->told_from));
    list = cJSON_AddArrayToObject(json, "marks");
    for (int s = 0; s < pane->count; s++)
        cJSON_AddItemToArray(list, cJSON_CreateString(lab_mark_name(pane->marks[s])));
    list = cJSON_AddArrayToObject(json, "page");
    for (int p = 0; p < pane->page->count; p++) {
        cJSON *pair = cJSON_CreateArray();
        cJSON_AddItemToArray(pair, cJSON_CreateString(tones[pane->page->at[p].tone]));
        cJSON_AddItemToArray(pair, cJSON_CreateString(pane->page->at[p].text));
        cJSON_AddItemToArray(list, pair);
    }
    char *text = cJSON_PrintUnformatted(json);
    cJSON_Delete(json);
    return text;
}

static enum lab_tone tone_named(const char *name)
{
    for (int tone = 0; name && tone < TONES; tone++)
        if (strcmp(tones[tone], name) == 0) return (enum lab_tone)tone;
    return TONE_TEXT;
}

static void read_page(struct lab_page *page, const cJSON *list)
{
    const cJSON *pair;
    cJSON_ArrayForEach(pair, list)
    {
        const char *text = cJSON_GetStringValue(cJSON_GetArrayItem(pair, 1));
        char *copy = text && page->count < PAGE_MAX ? strdup(text) : NULL;
        if (!copy) continue;
        const enum lab_tone tone = tone_named(cJSON_GetStringValue(cJSON_GetArrayItem(pair, 0)));
        page->at[page->count++] = (struct lab_paragraph){tone, copy};
    }
}

bool lab_pane_read(struct lab_pane *pane, const char *text)
{
    cJSON *json = cJSON_Parse(text);
    const cJSON *marks = json_get(json, "marks"), *mark;
    const cJSON *page = json_get(json, "page");
    const int count = cJSON_GetArraySize(marks);
    if (!cJSON_IsArray(page) || count < 1 || count > LAB_STEPS_MAX)
        return cJSON_Delete(json), false;
    lab_pane_release(pane);
    *pane = (struct lab_pane){.count = count};
    json_copy_text(pane->title, sizeof pane->title, json, "title");
    json_copy_text(pane->step_title, sizeof pane->step_title, json, "step_title");
    json_copy_text(pane->to_do, sizeof pane->to_do, json, "to_do");
    json_copy_text(pane->look, sizeof pane->look, json, "look");
    int step = (int)json_get_number(json, "step", count, 0);
    pane->step = step ? step - 1 : 0;
    pane->minutes = (int)json_get_number(json, "minutes", 1000, 0);
    pane->spent_minutes = (int)json_get_number(json, "spent_minutes", 100000, 0);
    pane->finished = cJSON_IsTrue(json_get(json, "finished"));
    pane->waits = cJSON_IsTrue(json_get(json, "waits"));
    int s = 0;
    cJSON_ArrayForEach(mark, marks) pane->marks[s++] = lab_mark_named(cJSON_GetStringValue(mark));
    read_page(&pane->own, page);
    pane->page = &pane->own;
    pane->told_from = (int)json_get_number(json, "told_from", pane->own.count, 0);
    cJSON_Delete(json);
    return true;
}
