#include "engine/base/words.h"

#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

void text_append(char *text, size_t room, const char *format, ...)
{
    const size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + used, room - used, format, args);
    va_end(args);
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
