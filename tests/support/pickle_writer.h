/* Writes a snapshot of PyTorch's memory as pickle.dump() of protocol 4 does, but without its memo. */
#pragma once

#include <assert.h>
#include <stdint.h>
#include <string.h>

struct written { size_t count; unsigned char at[16384]; };

static inline void put_raw(struct written *out, const void *bytes, size_t count)
{
    assert(out->count + count <= sizeof out->at);
    memcpy(out->at + out->count, bytes, count);
    out->count += count;
}

static inline void put_key(struct written *out, const char *text) /* SHORT_BINUNICODE */
{
    put_raw(out, (unsigned char[]){0x8c, (unsigned char)strlen(text)}, 2);
    put_raw(out, text, strlen(text));
}

static inline void put_number(struct written *out, int64_t number) /* LONG1 */
{
    put_raw(out, "\x8a\x8", 2);
    put_raw(out, &number, sizeof number);
}

static inline void put_pair(struct written *out, const char *key, int64_t number)
{
    put_key(out, key), put_number(out, number);
}

static inline void put_head(struct written *out)
{
    put_raw(out, "\x80\4}(", 4);
}

static inline void end_all(struct written *out)
{
    put_raw(out, "u.", 2);
}

static inline void put_list(struct written *out)
{
    put_raw(out, "](", 2);
}

static inline void end_list(struct written *out)
{
    put_raw(out, "e", 1);
}

static inline void put_segment(struct written *out, int64_t address, int64_t bytes, int device)
{
    put_raw(out, "}(", 2);
    put_pair(out, "address", address), put_pair(out, "total_size", bytes), put_pair(out, "device", device);
    put_key(out, "segment_pool_id"), put_raw(out, "K\0K\0\x86", 5);
    put_key(out, "blocks"), put_list(out);
}

static inline void end_segment(struct written *out)
{
    put_raw(out, "eu", 2);
}

static inline void put_block(struct written *out, int64_t bytes, int64_t requested_bytes, const char *state)
{
    put_raw(out, "}(", 2);
    put_pair(out, "size", bytes), put_pair(out, "requested_size", requested_bytes);
    put_key(out, "state"), put_key(out, state);
    put_raw(out, "u", 1);
}

static inline void put_action(struct written *out, const char *action, int64_t address, int64_t bytes, int64_t time_us,
                              const char *frame)
{
    put_raw(out, "}(", 2);
    put_key(out, "action"), put_key(out, action);
    put_pair(out, strcmp(action, "oom") == 0 ? "device_free" : "addr", address);
    put_pair(out, "size", bytes), put_pair(out, "stream", 0), put_pair(out, "time_us", time_us);
    if (frame) {
        put_key(out, "frames"), put_raw(out, "](}(", 4);
        put_key(out, "name"), put_key(out, frame), put_key(out, "filename"), put_key(out, "train.py");
        put_pair(out, "line", 12);
        put_raw(out, "ue", 2);
    }
    put_raw(out, "u", 1);
}
