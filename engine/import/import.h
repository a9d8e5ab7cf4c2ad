/* Opens what other programs wrote of a job. One file is one rank; several files, or a folder of them, are the ranks of one job.
 *
 *     if (import_is_foreign(path)) import_files(&import, paths, count, &err);
 *     import_write(&import, out, &err);
 *     import_release(&import); */
#pragma once

#include <cjson/cJSON.h>

#include "engine/import/stream.h"

enum { BESIDE_MAX = 8 };
struct import {
    struct job job;     /* of all else than a stream */
    const char *stream; /* the file or folder of a stream, borrowed; NULL: it is none */
    struct stream_found told; /* after import_write() */
    int files;
    uint64_t bytes; /* uncompressed */
    uint64_t operators, kernels, collectives, memory, skipped; /* events */
    bool has_steps, has_shapes; /* each if any file has it */
    char beside[BESIDE_MAX][256]; /* why files of a folder were left out, of the first */
    int beside_count;             /* of all */
    char cut[256]; /* what was wrong with a damaged file, of which the beginning was read; "": nothing */
};

/* Whether path names something that is not a trace of zerolab but may be another program's: a JSON text, gzip, a pickle, or a folder with
 * such files. False for what cannot be read: the caller's own message says so. */
bool import_is_foreign(const char *path);

/* STATUS_INPUT: not of a known format, two files of one rank, nothing in it. A stream is read by the next two. */
int import_files(struct import *out, const char *const *paths, int count, struct error *err);
void import_release(struct import *import);

/* Once: as a trace; path NULL: reads a stream to its end and writes nothing. STATUS_USAGE, STATUS_RUN: as job_write(). STATUS_INPUT: a stream
 * without a rank. */
int import_write(struct import *import, const char *path, struct error *err);

/* What it is, with the evidence; what was found; what is missing and how to record it. The caller frees the facts. */
cJSON *import_facts(const struct import *import);
extern const char import_page[]; /* their text (engine/base/template.h) */

/* Reads files and makes a trace of them in a file without a name, whose path is written to `path`; closed by close(*fd). */
int import_to_unnamed(const char *const *paths, int count, char path[64], int *fd, struct error *err);
