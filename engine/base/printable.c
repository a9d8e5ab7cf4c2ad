#include "engine/base/printable.h"

#include <errno.h>
#include <langinfo.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/text_stream.h"
#include "engine/base/utf8.h"

/* ---- characters ---- */

/* Marks, embeddings, overrides and isolates of right-to-left text, and separators of lines and paragraphs. */
static bool reorders(uint32_t character)
{
    return character == 0x61c || character == 0x200e || character == 0x200f ||
           (character >= 0x2028 && character <= 0x202e) || (character >= 0x2066 && character <= 0x2069);
}

static bool is_printable(uint32_t character)
{
    if (character < ' ') return character == '\n' || character == '\t';
    return !(character >= 0x7f && character < 0xa0) && !reorders(character);
}

/* ---- streams ---- */

struct filter {
    FILE *below;
    bool ascii, owns;
    int cause;    /* errno of the first write that failed */
    char held[4]; /* first bytes of an incomplete character */
    size_t count, ready;
    char out[BUFSIZ]; /* written in one call, so that lines of several processes do not mix */
};

static struct {
    FILE *stream;
    struct filter filter;
} standard[2]; /* stdout, stderr */

static void put_out(struct filter *filter)
{
    if (fwrite(filter->out, 1, filter->ready, filter->below) < filter->ready && !filter->cause) filter->cause = errno;
    filter->ready = 0;
}

static void put(struct filter *filter, int length)
{
    const uint32_t character = length > 0 ? utf8_character(filter->held, length) : 0;
    const bool shown = is_printable(character) && (character < 0x80 || !filter->ascii);
    const size_t taken = length > 0 ? (size_t)length : 1;
    if (filter->ready + taken > sizeof filter->out) put_out(filter);
    if (shown) memcpy(filter->out + filter->ready, filter->held, taken);
    else
        filter->out[filter->ready] = character == 0xd7 ? 'x' : '?'; /* the sign of multiplication, which formulas use */
    filter->ready += shown ? taken : 1;
    filter->count -= taken;
    memmove(filter->held, filter->held + taken, filter->count);
}

static ssize_t filter_write(void *cookie, const char *bytes, size_t count)
{
    struct filter *filter = cookie;
    for (size_t i = 0; i < count; i++) {
        filter->held[filter->count++] = bytes[i];
        for (int length; filter->count && (length = utf8_length(filter->held, filter->count)) != 0;)
            put(filter, length);
    }
    put_out(filter);
    if (fflush(filter->below) != 0) return 0;
    if (ferror(filter->below)) return errno = filter->cause ? filter->cause : EIO, 0;
    return (ssize_t)count;
}

static int filter_close(void *cookie)
{
    struct filter *filter = cookie;
    while (filter->count) put(filter, -1);
    put_out(filter);
    const int closed = filter->owns ? fclose(filter->below) : fflush(filter->below);
    if (filter->owns) free(filter);
    return closed;
}

static FILE *open_filter(struct filter *filter, int buffering)
{
    const bool terminal = isatty(fileno(filter->below));
    filter->ascii = terminal && strcmp(nl_langinfo(CODESET), "UTF-8") != 0;
    FILE *stream = fopencookie(filter, "w", (cookie_io_functions_t){.write = filter_write, .close = filter_close});
    if (stream) setvbuf(stream, NULL, buffering == _IOFBF && terminal ? _IOLBF : buffering, BUFSIZ);
    return stream;
}

FILE *printable_over(FILE *below)
{
    struct filter *filter = calloc(1, sizeof *filter);
    FILE *stream = NULL;
    if (filter) {
        *filter = (struct filter){.below = below, .owns = true};
        stream = open_filter(filter, _IOFBF);
    }
    if (!stream) free(filter), fclose(below);
    return stream;
}

static FILE *over_standard(int which, FILE *below, int buffering)
{
    standard[which].filter = (struct filter){.below = below};
    standard[which].stream = open_filter(&standard[which].filter, buffering);
    if (!standard[which].stream) abort(); /* no memory at the very start of a program */
    return standard[which].stream;
}

void printable_standard(void)
{
    stdout = over_standard(0, stdout, _IOFBF); /* glibc's are variables, for this purpose */
    stderr = over_standard(1, stderr,
                           _IOLBF); /* unbuffered, glibc 2.37 writes a line in pieces, between those of other ranks */
}

FILE *printable_below(FILE *out)
{
    for (int which = 0; which < 2; which++)
        if (out == standard[which].stream && out) return fflush(out), standard[which].filter.below;
    return out;
}

/* ---- JSON ---- */

char *printable_json(char *text)
{
    struct text_stream escaped = {0};
    const char *end = text ? text + strlen(text) : NULL;
    FILE *out = text ? text_stream_open(&escaped) : NULL;
    for (const char *at = text; out && *at;) {
        const char *from = at;
        const uint32_t character = utf8_take(&at, end);
        if (is_printable(character) && character != 0xfffd) fwrite(from, 1, (size_t)(at - from), out);
        else fprintf(out, "\\u%04x", (unsigned)character);
    }
    free(text);
    return text_stream_close(&escaped);
}
