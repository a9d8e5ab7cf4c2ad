/* The page of a lab: what is asked, and what was answered. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/lab/play_parts.h"

void page_clear(struct lab_page *page, int from)
{
    while (page->count > from) free(page->at[--page->count].text);
    page->revision++;
}

void page_take(struct lab_page *page, enum lab_tone tone, char *text)
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

bool page_has(const struct lab_page *page, const char *text)
{
    for (int p = 0; p < page->count; p++)
        if (strcmp(page->at[p].text, text) == 0) return true;
    return false;
}

static void page_choices(struct lab_play *play, const struct lab_step *step, const struct lab_scene *scene)
{
    for (int c = 0; c < step->choice_count; c++) {
        char *text = prose_fill(&step->choice[c].text, scene);
        page_say(&play->page, c == play->chosen ? TONE_CHOSEN : TONE_CHOICE, "%c  %s", 'a' + c, text ? text : "");
        free(text);
    }
}

void page_ask(struct lab_play *play, const struct lab_scene *scene)
{
    const struct lab_step *step = lab_play_step(play);
    page_clear(&play->page, 0);
    page_take(&play->page, TONE_TEXT, prose_fill(&step->text, scene));
    page_take(&play->page, TONE_QUESTION, prose_fill(&step->question, scene));
    if (step->ask == LAB_QUIZ) page_choices(play, step, scene);
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
