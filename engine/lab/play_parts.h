/* Inside a lab that is played: its steps (play.c), its page with the verdicts on it (play_page.c). */
#ifndef ENGINE_LAB_PLAY_PARTS_H
#define ENGINE_LAB_PLAY_PARTS_H

#include "engine/lab/play.h"

/* Paragraphs from number `from` on go. */
void page_clear(struct lab_page *page, int from);
void page_say(struct lab_page *page, enum lab_tone tone, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The step's text, question, choices, and the hints that were asked for. */
void page_ask(struct lab_play *play, const struct lab_scene *scene);
/* ... of which stays what was asked, and nothing of an earlier verdict. */
void page_answered(struct lab_play *play);

/* What the step's checks found, on the page; false: one does not hold. */
bool play_findings(struct lab_play *play, const struct lab_step *step, const struct lab_scene *scene);
/* The verdict on what was answered, or on what the run has shown; play->right and the progress follow from it. */
void play_judge(struct lab_play *play, const struct lab_scene *scene);
void play_fold(struct lab_play *play, enum lab_input_kind kind, const char *said);

#endif
