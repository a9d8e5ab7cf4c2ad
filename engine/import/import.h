/* Opens files that other programs wrote about a job. One file is one rank; several files, or a folder of them, are the ranks of one job.
 *
 *     if (import_is_foreign(path)) import_files(&import, paths, count, &err);
 *     import_write(&import, out, &err);
 *     import_release(&import); */
#pragma once

#include <cjson/cJSON.h>

#include "engine/import/stream.h"

enum { BESIDE_MAX = 8 };
struct import {
    struct job job;     /* what the files say; empty for a stream */
    const char *stream; /* the file or folder of a stream, borrowed; NULL: it is none */
    struct stream_found told; /* after import_write() */
    int files;
    uint64_t bytes; /* uncompressed */
    uint64_t operators, kernels, collectives, memory, skipped; /* events */
    bool has_steps, has_shapes; /* whether any file has steps; whether any has shapes */
    char beside[BESIDE_MAX][256]; /* files of a folder that were left out, and why: the first BESIDE_MAX */
    int beside_count;             /* number of all files that were left out */
    char cut[256]; /* what is wrong with the first damaged file, whose beginning was read; "": no file is damaged */
};

/* Whether path names something that is not a trace of zerolab but may be another program's: a JSON text, gzip, a pickle, or a folder with
 * such files. False for what cannot be read: the caller's own message says so. */
bool import_is_foreign(const char *path);

/* STATUS_INPUT: no known format, two files of one rank, or nothing in the files. Of a stream only the path is kept; import_write()
 * reads it. */
int import_files(struct import *out, const char *const *paths, int count, struct error *err);
void import_release(struct import *import);

/* Writes the job as a trace; call it once. path NULL: writes nothing, but reads a stream to its end. STATUS_USAGE, STATUS_RUN: as
 * job_write(). STATUS_INPUT: a stream without a rank, or that cannot be read; files in which nothing was observed. */
int import_write(struct import *import, const char *path, struct error *err);

/* Facts about the import: what the job is, with the evidence; what was found; what is missing and how to record it. The caller frees
 * them. */
cJSON *import_facts(const struct import *import);
extern const char import_page[]; /* the template for the text of the facts (engine/base/template.h) */

/* Reads files and makes a trace of them in a file without a name, whose path is written to `path`; closed by close(*fd). */
int import_to_unnamed(const char *const *paths, int count, char path[64], int *fd, struct error *err);
