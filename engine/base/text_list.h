/* A short list of borrowed strings (settings, commands, folders); the list does not own them. */
#pragma once

enum { TEXT_LIST_MAX = 64 };
struct text_list { int count; const char *at[TEXT_LIST_MAX]; };
