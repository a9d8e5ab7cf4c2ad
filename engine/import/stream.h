/* A source of records that reads the JSON lines a running job writes (docs/STREAM.md; tools/zerolab_torch.py), from files that may
 * still grow, or from a Unix socket to which the job connects. Records of all ranks are merged by time: a record comes once every rank
 * has written a line whose time is at least 0.25 s after the record's. While following, a rank without a line for 2 s is not waited
 * for. The reader never blocks the job and sends it nothing. */
#pragma once

#include "engine/import/job.h"
#include "engine/trace/source.h"

struct stream_found {
    uint64_t lines, wrong, lost; /* lines read; lines that could not be understood; lines that the job says it dropped */
    char first_wrong[160];       /* the first line that could not be understood: file, line and why; "": none */
    char recognised[40];
    uint32_t ranks, world;
};

/* Whether path is a file that begins with a stream's header, or a folder with such a file. */
bool stream_is(const char *path);

/* path: a file; a folder, in which each file that begins with a stream's header is a rank; or "unix:PATH", a socket on which this
 * process listens. follow: the source waits for further lines (SOURCE_WAIT); else it ends at the end of the files. STATUS_INPUT: no
 * such file; STATUS_USAGE: the socket cannot be made; STATUS_RUN: no memory or no timer. */
int stream_open(struct source **out, const char *path, bool follow, struct error *err);

/* What a source of stream_open() has found so far; zeros for any other source. */
void stream_told(const struct source *source, struct stream_found *out);
