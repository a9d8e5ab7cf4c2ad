/* A source of records that reads the JSON lines a running job writes (docs/STREAM.md; tools/zerolab_torch.py), from files that may still
 * grow, or from a Unix socket to which the job connects. Lines of all ranks are merged by time: a record comes HOLD_NS after its
 * time, or when no line has come for that long. The reader never blocks the job and sends it nothing. */
#pragma once

#include "engine/import/job.h"
#include "engine/trace/source.h"

struct stream_found {
    uint64_t lines, wrong, lost; /* read; that could not be understood; that the job says it dropped */
    char first_wrong[160];       /* why the first of them could not: file and line; "": all could */
    char recognised[40];
    uint32_t ranks, world;
};

/* Whether it is a file that begins as such a stream does, with a header, or a folder with one. */
bool stream_is(const char *path);

/* path: a file; a folder, of which every such file is a rank; or "unix:PATH", where this process listens. follow: further lines are waited for
 * (SOURCE_WAIT); else the end of the files is the end. STATUS_INPUT: no such file; STATUS_USAGE: no such socket can be made. */
int stream_open(struct source **out, const char *path, bool follow, struct error *err);

/* Of a source that stream_open() made, as far as it was read. */
void stream_told(const struct source *source, struct stream_found *out);
