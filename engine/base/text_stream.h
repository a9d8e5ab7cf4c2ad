/* A text that is written by calls of stdio.
 *
 *     struct text_stream text;
 *     FILE *out = text_stream_open(&text);
 *     if (!out) return NULL;
 *     fprintf(out, "%d ranks", ranks);
 *     return text_stream_close(&text); */
#pragma once

#include <stdio.h>
#include <stdlib.h>

struct text_stream {
    FILE *out;
    char *text;
    size_t bytes; /* of the text, once it is closed */
};

/* NULL: no memory. */
static inline FILE *text_stream_open(struct text_stream *stream)
{
    *stream = (struct text_stream){0};
    return stream->out = open_memstream(&stream->text, &stream->bytes);
}

/* The text, which the caller frees. NULL: there was no memory, or the stream is not open. */
static inline char *text_stream_close(struct text_stream *stream)
{
    if (stream->out && fclose(stream->out) == 0) return stream->text;
    free(stream->text);
    return NULL;
}
