/* Editing one line of UTF-8 text: pure, so that it can be tested. */
#ifndef TUI_APP_PROMPT_H
#define TUI_APP_PROMPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum prompt_answer { PROMPT_GOES_ON, PROMPT_TAKEN, PROMPT_LEFT };

/* A key typed into `text` of `room` bytes: characters are added, Backspace takes the last one away, Ctrl-U all. Enter takes
 * the line, Esc leaves it. A text that was offered (*offered, which the first key makes false) gives way to the first character; any
 * other key begins to edit it. */
enum prompt_answer prompt_type(char *text, size_t room, uint32_t key, bool *offered);

#endif
