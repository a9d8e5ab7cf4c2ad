/* A short list of strings (settings, commands, folders). Most lists borrow them; one that owns them says so, and is released. */
#pragma once

#include <stdlib.h>

enum { TEXT_LIST_MAX = 64 };
struct text_list { int count; const char *at[TEXT_LIST_MAX]; };

static inline void text_list_release(struct text_list *list)
{
    while (list->count) free((char *)list->at[--list->count]);
}
