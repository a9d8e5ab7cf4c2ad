/* Layout of a trace on disk and on a viewer's socket. All numbers are little-endian.
 *
 *     stream    offset  bytes
 *     head      0       8      "zerolab\n"
 *               8       4      version
 *               12      4      STREAM_ flags (file: 0)
 *     chunk...
 *
 *     chunk     offset  bytes
 *     head      0       4      "CHNK"
 *               4       4      CHUNK_ flags
 *               8       4      stored bytes: length of the part after the head
 *               12      4      raw bytes: length of that part before compression
 *               16      4      step that was last begun when the chunk was begun (0: none; on a socket always 0)
 *               20      4      records
 *               24      8      earliest time of its records
 *               32      8      latest time of its records
 *               40      4      CRC-32 of the stored bytes
 *               44      4      CRC-32 of the 44 bytes before: lengths are believed only after this one is right
 *     stored    48      ...    whole records (record.h), one after the other; zstd where CHUNK_ZSTD says so
 *
 * The last chunk of a closed file has CHUNK_INDEX. Instead of records it holds an entry for each chunk before it. It ends
 * with its own offset and "zlindex\n", so that a reader finds it from the file's end. A reader must work without an index: a run
 * that was killed wrote none.
 *
 *     index     offset  bytes
 *     entry...  0       8      offset of the chunk in the file
 *               8       8      earliest time
 *               16      4      step
 *               20      4      CHUNK_ flags
 *     last      0       8      offset of the index chunk in the file
 *               8       8      "zlindex\n"
 *
 * Behind the index a finished file may have states of the run, from which a reader can begin (engine/observe/states.h), and
 * then an index that also names them. Their chunks have CHUNK_INDEX and one of CHUNK_NEWS, CHUNK_STEPS and CHUNK_STATE, so a
 * reader of records skips them. A state is that of the run just before a STEP_BEGIN: the chunk's step and earliest time are
 * those of this record. In a CHUNK_STEPS, the field of the earliest time holds a count instead: the steps in this
 * chunk and in all earlier ones.
 *
 * What a version promises: kinds may be added and fields appended (record.h says how old readers skip them); anything
 * else raises the version, and readers refuse versions that they do not know. */
#pragma once

#define STREAM_MAGIC "zerolab\n"
#define INDEX_MAGIC "zlindex\n"

enum {
    STREAM_HEAD_BYTES = 16,
    STREAM_VERSION = 1,
    CHUNK_MAGIC = 0x4b4e4843, /* "CHNK" */
    CHUNK_HEAD_BYTES = 48,
    INDEX_ENTRY_BYTES = 24,
    INDEX_LAST_BYTES = 16,
};

enum stream_flag {
    STREAM_DRIVES = 1, /* socket: this viewer's lines are commands */
};

/* The line by which a viewer asks for every record. All other lines are commands, of the viewer with STREAM_DRIVES. */
#define STREAM_WANTS_ALL "everything"

/* A chunk on a socket has CHUNK_ZSTD at most: the others serve to seek in a file. */
enum chunk_flag {
    CHUNK_KEYFRAME = 1, /* starts with the first STEP_BEGIN of its step, from any rank; later steps may follow in it */
    CHUNK_STANDING = 2, /* has records that hold until replaced (RUN, SCHEDULE, BUDGET ...) */
    CHUNK_ZSTD = 4,
    CHUNK_INDEX = 8,
    CHUNK_NEWS = 16,  /* those records since the previous state that every reader needs, even if it begins at a later state */
    CHUNK_STEPS = 32, /* the steps after those of the previous state, without the newest few (engine/observe/states.c) */
    CHUNK_STATE = 64, /* the numbers of the state itself */
    CHUNK_OF_STATES = CHUNK_NEWS | CHUNK_STEPS | CHUNK_STATE,
};

/* Bounds that let a reader allocate without trusting the file: the most raw bytes of a chunk, and the highest
 * compression ratio (a chunk that would exceed the ratio is stored uncompressed). */
enum { CHUNK_BYTES_MAX = 64 << 20, CHUNK_RATIO_MAX = 256 };
