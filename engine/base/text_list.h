/* A short list of strings (settings, commands, folders). Most lists borrow their strings. A list that owns
 * its strings says so; text_list_release() frees them. */
#pragma once

#include <stdlib.h>

enum { TEXT_LIST_MAX = 64 };
struct text_list { int count; const char *at[TEXT_LIST_MAX]; };

static inline void text_list_release(struct text_list *list)
{
    while (list->count) free((char *)list->at[--list->count]);
}
