/* A short list of texts that somebody else owns: settings, commands, folders. */
#ifndef ENGINE_BASE_TEXT_LIST_H
#define ENGINE_BASE_TEXT_LIST_H

enum { TEXT_LIST_MAX = 64 };
struct text_list { int count; const char *at[TEXT_LIST_MAX]; };

#endif
