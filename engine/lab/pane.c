#include "engine/lab/pane.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/json.h"
#include "engine/lab/play_parts.h"

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
    const char *said = progress->at[progress->step].said;
    const bool again = !play->notice[0] && lab_play_was_answered(play) && !presents;
    if (again && *said) snprintf(pane->notice, sizeof pane->notice, "you said %s before; n goes on", said);
    else snprintf(pane->notice, sizeof pane->notice, "%s", again ? "you did this before; n goes on" : play->notice);
    const char *look = lab_play_step(play)->look;
    snprintf(pane->look, sizeof pane->look, "%s", look ? look : "");
    what_to_do(pane->to_do, sizeof pane->to_do, play, presents);
}

void lab_pane_release(struct lab_pane *pane)
{
    while (pane->own.count) free(pane->own.at[--pane->own.count].text);
}

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

static void read_page(struct lab_page *page, const cJSON *list)
{
    const cJSON *pair;
    cJSON_ArrayForEach(pair, list)
    {
        const char *name = cJSON_GetStringValue(cJSON_GetArrayItem(pair, 0)),
                   *text = cJSON_GetStringValue(cJSON_GetArrayItem(pair, 1));
        char *copy = text && page->count < PAGE_MAX ? strdup(text) : NULL;
        int tone = TONES - 1;
        while (name && tone > TONE_TEXT && strcmp(tones[tone], name) != 0) tone--;
        if (copy) page->at[page->count++] = (struct lab_paragraph){name ? (enum lab_tone)tone : TONE_TEXT, copy};
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

/* ---- the page of a lab: what is asked, what was answered, and what is said of an answer: verdict, findings, explanation ---- */

void page_clear(struct lab_page *page, int from)
{
    while (page->count > from) free(page->at[--page->count].text);
    page->revision++;
}

/* Takes the text; NULL or empty: nothing. */
static void page_take(struct lab_page *page, enum lab_tone tone, char *text)
{
    bool empty = !text || !*text;
    if (empty || page->count == PAGE_MAX) free(text);
    else page->at[page->count++] = (struct lab_paragraph){tone, text};
    page->revision++;
}

void page_say(struct lab_page *page, enum lab_tone tone, const char *format, ...)
{
    char *text;
    va_list args;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0) text = NULL;
    va_end(args);
    page_take(page, tone, text);
}

/* Whether a paragraph says just this. */
static bool page_has(const struct lab_page *page, const char *text)
{
    for (int p = 0; p < page->count; p++)
        if (strcmp(page->at[p].text, text) == 0) return true;
    return false;
}

void page_ask(struct lab_play *play, const struct lab_scene *scene)
{
    const struct lab_step *step = lab_play_step(play);
    page_clear(&play->page, 0);
    page_take(&play->page, TONE_TEXT, prose_fill(&step->text, scene));
    page_take(&play->page, TONE_QUESTION, prose_fill(&step->question, scene));
    for (int c = 0; c < step->choice_count; c++) {
        char *text = prose_fill(&step->choice[c].text, scene);
        page_say(&play->page, c == play->chosen ? TONE_CHOSEN : TONE_CHOICE, "%c  %s", 'a' + c, text ? text : "");
        free(text);
    }
    play->told_from = play->page.count;
    for (int h = 0; h < play->progress.at[play->progress.step].hints && h < step->hint_count; h++) {
        page_take(&play->page, TONE_HINT, prose_fill(&step->hint[h], scene));
        play->told_from = play->page.count;
    }
}

void page_answered(struct lab_play *play)
{
    page_clear(&play->page, play->told_from);
    for (int p = 0; p < play->page.count; p++) {
        struct lab_paragraph *at = &play->page.at[p];
        if (at->tone == TONE_CHOICE && *at->text == 'a' + play->chosen) at->tone = TONE_CHOSEN;
    }
}

/* ---- what is said of an answer ---- */

/* A check in the lab's own words, where it has some; with what was expected, if it does not hold. The caller frees. */
static char *worded(const struct lab_check *check, const struct lab_finding *finding, const struct lab_scene *scene)
{
    char *text = NULL, *said;
    if (!check->said.count) return strdup(finding->said);
    if (!finding->known) return asprintf(&text, "Not known: %s.", finding->why) < 0 ? NULL : text;
    if (!(said = prose_fill(&check->said, scene))) return NULL;
    if (finding->holds) return said;
    if (asprintf(&text, "%s (%s)", said, finding->why) < 0) text = NULL;
    free(said);
    return text;
}

bool play_findings(struct lab_play *play, const struct lab_step *step, const struct lab_scene *scene)
{
    bool all = true;
    for (int c = 0; c < step->check_count; c++) {
        struct lab_finding finding = lab_check_hold(&step->check[c], scene);
        all &= finding.known && finding.holds;
        if (!finding.holds && finding.where.known && !play->where.known) play->where = finding.where;
        char place[160] = "";
        if (!finding.holds && finding.where.known && finding.where.step)
            snprintf(place, sizeof place, " (step %u, rank %d%s%s)", finding.where.step, finding.where.rank,
                     *finding.where.what ? ", " : "", finding.where.what);
        char *said = worded(&step->check[c], &finding, scene);
        bool told = said && page_has(&play->page, said); /* several checks may wait for the same thing */
        if (!told)
            page_say(&play->page, finding.known && finding.holds ? TONE_FACT : TONE_BAD, "%s%s", said ? said : "",
                     place);
        free(said);
    }
    return all;
}

/* What somebody who said this may have thought. */
static void say_wrong(struct lab_play *play, const struct lab_step *step, const struct lab_scene *scene)
{
    for (int w = 0; w < step->wrong_count; w++) {
        struct lab_value believed = expression_evaluate(step->wrong[w].value, scene);
        if (!lab_answer_near(&step->answer, believed, play->said)) continue;
        char *reply = prose_fill(&step->wrong[w].reply, scene);
        snprintf(play->believed, sizeof play->believed, "%s", reply ? reply : "");
        page_take(&play->page, TONE_BAD, reply);
        return;
    }
    snprintf(play->believed, sizeof play->believed, "another value");
}

static void judge_prediction(struct lab_play *play, const struct lab_step *step, const struct lab_scene *scene)
{
    char said[QUANTITY_ROOM], got[QUANTITY_ROOM];
    struct lab_value right = expression_evaluate(step->answer.value, scene);
    if (play->revealed) play->said = right.quantity;
    play->right = lab_answer_near(&step->answer, right, play->said);
    play->where = right.where;
    quantity_format(said, play->said, step->answer.unit, -1);
    if (right.known) quantity_format(got, right.quantity, step->answer.unit, -1);
    if (!right.known) page_say(&play->page, TONE_BAD, "The answer cannot be known: %s", right.why_not);
    else if (play->revealed) page_say(&play->page, TONE_GOOD, "It is %s.", got);
    else if (play->right) page_say(&play->page, TONE_GOOD, "Right: it is %s. You said %s.", got, said);
    else page_say(&play->page, TONE_BAD, "You said %s; it is %s.", said, got);
    if (right.known && !play->right) say_wrong(play, step, scene);
}

/* After a wrong choice: which one was right, and why. */
static void say_right(struct lab_play *play, const struct lab_step *step, const struct lab_scene *scene)
{
    int right = 0;
    while (right < step->choice_count && !step->choice[right].right) right++;
    if (right == step->choice_count) return;
    char *text = prose_fill(&step->choice[right].text, scene), *reply = prose_fill(&step->choice[right].reply, scene);
    page_say(&play->page, TONE_GOOD, "Right is %c, %s. %s", 'a' + right, text ? text : "", reply ? reply : "");
    free(text);
    free(reply);
}

static void judge_quiz(struct lab_play *play, const struct lab_step *step, const struct lab_scene *scene)
{
    const struct lab_choice *choice = &step->choice[play->chosen];
    char *reply = prose_fill(&choice->reply, scene);
    play->right = choice->right;
    page_say(&play->page, choice->right ? TONE_GOOD : TONE_BAD, "%s %s", choice->right ? "Right." : "No.",
             reply ? reply : "");
    free(reply);
    if (choice->right) return;
    char *text = prose_fill(&choice->text, scene);
    snprintf(play->believed, sizeof play->believed, "%s", text ? text : "");
    free(text);
    say_right(play, step, scene);
}

void play_fold(struct lab_play *play, enum lab_input_kind kind, const char *said)
{
    lab_progress_fold(
        &play->progress,
        &(struct lab_input){.kind = kind, .right = play->right, .said = said, .believed = play->believed});
}

void play_judge(struct lab_play *play, const struct lab_scene *scene)
{
    const struct lab_step *step = lab_play_step(play);
    char said[QUANTITY_ROOM] = "";
    *play->believed = '\0';
    if (step->ask == LAB_READ) page_ask(play, scene);
    else page_answered(play); /* what was asked stays as it was asked */
    if (step->ask == LAB_PREDICT)
        judge_prediction(play, step, scene), quantity_format(said, play->said, step->answer.unit, -1);
    if (step->ask == LAB_QUIZ) judge_quiz(play, step, scene), snprintf(said, sizeof said, "%c", 'a' + play->chosen);
    bool all = play_findings(play, step, scene);
    if (step->ask == LAB_TASK) play->right = all;
    if (step->ask == LAB_READ) play_fold(play, LAB_INPUT_READ, NULL);
    else play_fold(play, LAB_INPUT_ANSWERED, said);
    page_take(&play->page, TONE_TEXT, prose_fill(&step->explain, scene));
    play->phase = PLAY_TOLD;
}
