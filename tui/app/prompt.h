/* Edits one line of UTF-8 text; a pure function, so that it can be tested. */
#ifndef TUI_APP_PROMPT_H
#define TUI_APP_PROMPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum prompt_answer { PROMPT_GOES_ON, PROMPT_TAKEN, PROMPT_LEFT };

/* Applies a key to `text` of `room` bytes: a character is appended, Backspace removes the last one, Ctrl-U all. Enter
 * accepts the line, Esc cancels it. A suggested text (*offered, which the first key sets to false) is replaced by the
 * first character; any other key begins to edit it. */
enum prompt_answer prompt_type(char *text, size_t room, uint32_t key, bool *offered);

#endif
