#include "engine/base/words.h"

#include <string.h>

void text_append(char *text, size_t room, const char *format, ...)
{
    const size_t used = strlen(text);
    FORMAT_ARGUMENTS(text + used, room - used, format);
}

bool text_ends_in(const char *text, const char *ending)
{
    const size_t length = strlen(text), tail = strlen(ending);
    return length >= tail && strcmp(text + length - tail, ending) == 0;
}

void words_print(FILE *out, int column, int hang, const char *text)
{
    bool first = true; /* of its line */
    while (*(text += strspn(text, " "))) {
        const int length = (int)strcspn(text, " ");
        if (!first && column + 1 + length > PAGE_COLUMNS) {
            fprintf(out, "\n%*s", hang, "");
            column = hang;
            first = true;
        }
        column += fprintf(out, "%s%.*s", first ? "" : " ", length, text);
        text += length;
        first = false;
    }
    fputc('\n', out);
}
