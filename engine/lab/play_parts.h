/* Internals of a lab that is played: its steps (play.c), its page and verdicts (pane.c). */
#pragma once

#include "engine/lab/play.h"

/* Removes the paragraphs from index `from` on. */
void page_clear(struct lab_page *page, int from);
void page_say(struct lab_page *page, enum lab_tone tone, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Writes the step's text, question, choices, and the hints that were asked for. */
void page_ask(struct lab_play *play, const struct lab_scene *scene);
/* Removes an earlier verdict from the page and marks the choice made. */
void page_answered(struct lab_play *play);

/* Writes the findings of the step's checks on the page. False: one does not hold. */
bool play_findings(struct lab_play *play, const struct lab_step *step, const struct lab_scene *scene);
/* Judges the answer or the run's state; sets play->right and the progress. */
void play_judge(struct lab_play *play, const struct lab_scene *scene);
void play_fold(struct lab_play *play, enum lab_input_kind kind, const char *said);
