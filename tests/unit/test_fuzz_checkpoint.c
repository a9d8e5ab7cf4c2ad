/* Any bytes at all in any file of a checkpoint: nothing may crash, read out of bounds, run without end or allocate without
 * bound, and what is given out without an error must be what was put in. Checksums hide most of a reader from blind
 * mutations, so each is tried a second time with all checksums made right, from the shard's table up to the manifest's own.
 * (Then values may be others, but a reader that accepts them must be able to give all of them out.)
 *
 * As a libFuzzer harness the whole input is one file of a checkpoint, the manifest or a shard by its first byte:
 *     clang -std=c17 -D_GNU_SOURCE -DLIBFUZZER -g -O1 -fsanitize=fuzzer,address,undefined -I. tests/unit/test_fuzz_checkpoint.c
 *         engine/checkpoint/[a-z]*.c build/release/libzerolab.a -lcjson -laio -ldnnl -lgomp -lpthread -lm -o fuzz_checkpoint
 * Without -DLIBFUZZER it is a program that runs a number of random mutations (argument 1), always the same; with
 * FUZZ_SECONDS=N in the environment it goes on for so long. */
#include <assert.h>
#include <malloc.h>

#include "engine/base/bytes.h"
#include "engine/base/clock.h"
#include "engine/base/wire.h"
#include "engine/checkpoint/crc32c.h"
#include "engine/checkpoint/format.h"
#include "tests/support/checkpoint_fixture.h"
#include "tests/support/effort.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

enum { SHARDS = 2, FILES = SHARDS + 2, ALLOCATED_MAX = 256 << 20 };
static const char *const names[FILES] = {"t/shard-0-of-2", "t/shard-1-of-2", "t/manifest.json", "latest"};

static char dir[64];
static struct bytes seed[FILES];

/* ---- a small checkpoint, as bytes ---- */

static void put_file(const char *name, const struct bytes *bytes)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "wb");
    assert(file);
    if (bytes->count) fwrite(bytes->at, 1, bytes->count, file);
    fclose(file);
}

static void get_file(const char *name, struct bytes *bytes)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "rb");
    assert(file && bytes_reserve(bytes, 1 << 20));
    bytes->count = fread(bytes->at, 1, 1 << 20, file);
    fclose(file);
}

static void make_seed(void)
{
    static const char *const sets[] = {"model.layers=1",         "model.hidden=16",      "model.heads=2",
                                       "model.context=16",       "model.vocabulary=256", "topology.ranks=2",
                                       "data.sequence_length=16"};
    struct config config;
    struct error err;
    strcpy(dir, "/tmp/zerolab-fuzz.XXXXXX");
    assert(mkdtemp(dir));
    int status = config_load(&config, "configs/nano.json", sets, 7, &err);
    if (!status) status = write_checkpoint(dir, "t", SHARDS, 0, &config, 2, &err);
    if (status) fprintf(stderr, "%s\n", err.text), abort();
    config_release(&config);
    for (int f = 0; f < FILES; f++) get_file(names[f], &seed[f]);
}

/* ---- readers ---- */

static void read_array(struct checkpoint *checkpoint, int unit, enum state_array array, bool untouched)
{
    const int64_t elems = checkpoint_info(checkpoint)->model.units[unit].elems;
    float *out = malloc((size_t)elems * sizeof *out + 1);
    struct error err;
    assert(out);
    for (int64_t first = 0; first < elems; first += elems / 3 + 1) {
        const int64_t count = elems - first < elems / 3 + 1 ? elems - first : elems / 3 + 1;
        if (checkpoint_read(checkpoint, unit, array, first, count, out, &err)) continue;
        for (int64_t i = 0; untouched && i < count; i++) assert(out[i] == made_up(unit, array, first + i));
    }
    free(out);
}

/* untouched: checksums were left alone, so nothing but what was put in may come out. */
static void read_everything(bool untouched)
{
    struct checkpoint *checkpoint;
    struct error err;
    if (checkpoint_open(&checkpoint, dir, NULL, &err)) {
        assert(err.text[0] && err.status >= STATUS_USAGE);
        return;
    }
    const struct checkpoint_info *info = checkpoint_info(checkpoint);
    checkpoint_lend(checkpoint, lent(1));
    const bool small = info->model.elems < 1 << 22;
    for (int u = 0; small && u < info->model.unit_count; u++)
        for (int a = 0; a < STATE_ARRAYS; a++)
            if (info->has[a]) read_array(checkpoint, u, (enum state_array)a, untouched);
    checkpoint_verify(checkpoint, NULL, NULL, &err);
    checkpoint_close(checkpoint);
    struct mallinfo2 used = mallinfo2(); /* all 0 under a sanitizer, which has bounds of its own */
    assert(used.uordblks + used.hblkhd < ALLOCATED_MAX);
}

/* ---- making checksums right ---- */

static uint32_t repair_shard(struct bytes *shard)
{
    struct shard_head head;
    if (shard->count < SHARD_HEAD_BYTES) return 0;
    shard_head_read(&head, shard->at, shard->count);
    const uint64_t table = shard_table_bytes(&head);
    if (head.table_offset <= shard->count && table <= shard->count - head.table_offset) {
        head.table_crc = crc32c(0, shard->at + head.table_offset, table);
        put_u32(shard->at + 48, head.table_crc);
    }
    head.crc = crc32c(0, shard->at, SHARD_HEAD_BYTES - 4);
    put_u32(shard->at + SHARD_HEAD_BYTES - 4, head.crc);
    return head.crc;
}

static void replace_number(char *text, const char *before, size_t width, const char *by)
{
    char *at = strstr(text, before);
    if (at && strlen(at) > strlen(before) + width) memcpy(at + strlen(before), by, width);
}

/* The first shard's checksum, and then the manifest's own. */
static void repair_manifest(struct bytes *manifest, const char *shard_crc)
{
    static const char last[] = ",\n\t\"checksum\":\t\"";
    if (!bytes_append(manifest, "", 1)) return;
    manifest->count--;
    char *text = (char *)manifest->at, *end = NULL, number[9];
    if (shard_crc) replace_number(text, "\"crc32c\":\t\"", 8, shard_crc);
    for (char *at = text; (at = strstr(at, last)); at++) end = at;
    if (!end || strlen(end) < sizeof last + 8) return;
    snprintf(number, sizeof number, "%08x", crc32c(0, text, (size_t)(end - text)));
    memcpy(end + sizeof last - 1, number, 8);
}

static void try_file(int f, struct bytes *bytes)
{
    char number[9];
    struct bytes manifest = {0};
    put_file(names[f], bytes);
    read_everything(true);
    if (f == 0) {
        snprintf(number, sizeof number, "%08x", repair_shard(bytes));
        bytes_append(&manifest, seed[2].at, seed[2].count);
        repair_manifest(&manifest, number);
        put_file(names[2], &manifest);
    } else if (f == 2) {
        repair_manifest(bytes, NULL);
    }
    if (f == 0 || f == 2) {
        put_file(names[f], bytes);
        read_everything(false);
    }
    bytes_release(&manifest);
    put_file(names[f], &seed[f]);
    put_file(names[2], &seed[2]);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    if (!*dir) make_seed();
    if (count == 0) return 0;
    struct bytes input = {0};
    if (bytes_append(&input, bytes + 1, count - 1)) try_file(bytes[0] % FILES, &input);
    bytes_release(&input);
    return 0;
}

#ifndef LIBFUZZER

static uint32_t next_random(void)
{
    static uint64_t state = 2025; /* always the same mutations */
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33);
}

/* In a shard mostly the head and the table, where the numbers are that a reader acts on. */
static size_t some_place(const struct bytes *bytes, int f)
{
    size_t at = next_random();
    if (f < SHARDS && next_random() % 8)
        at = next_random() % 2 ? at % 56 : 2 * bytes->count - 1 - at % PAGE % bytes->count;
    return at % bytes->count;
}

static void mutate(struct bytes *bytes, int f)
{
    static const uint8_t extremes[] = {0, 1, 0x7f, 0x80, 0xff, '0', '9', '"', '}', '-', 'e'};
    for (uint32_t changes = 1 + next_random() % 3; changes--;) {
        if (!bytes->count) return;
        size_t at = some_place(bytes, f);
        switch (next_random() % 6) {
        case 0: bytes->at[at] ^= (uint8_t)(1 << next_random() % 8); break;
        case 1: bytes->at[at] = extremes[next_random() % sizeof extremes]; break;
        case 2: bytes->at[at] = (uint8_t)next_random(); break;
        case 3:
            if (next_random() % 4 == 0) bytes->count = at;
            break;
        case 4: /* a whole number: the least, the most, or about its middle */
            for (size_t i = at; i < at + 8 && i < bytes->count; i++) bytes->at[i] = extremes[next_random() % 5];
            break;
        case 5: /* a piece moves */
            for (size_t i = at, from = some_place(bytes, f); i < bytes->count && i < at + 32 && from < bytes->count;
                 i++)
                bytes->at[i] = bytes->at[from++];
            break;
        }
    }
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : effort(300, 750, 1500), round = 0;
    const char *seconds = getenv("FUZZ_SECONDS");
    const uint64_t until_ns = clock_ns() + (uint64_t)(seconds ? atoi(seconds) : 0) * 1000000000u;
    make_seed();
    read_everything(true);
    for (; round < rounds || (seconds && clock_ns() < until_ns); round++) {
        static const int often[] = {0, 0, 0, 1, 2, 2, 2, 3};
        const int of = often[next_random() % 8];
        struct bytes input = {0};
        bytes_append(&input, seed[of].at, seed[of].count);
        mutate(&input, of);
        try_file(of, &input);
        bytes_release(&input);
    }
    remove_tree(dir);
    for (int file = 0; file < FILES; file++) bytes_release(&seed[file]);
    printf("ok 1 - no reader minds %d mutations of a checkpoint\n1..1\n", round);
    return 0;
}
#endif
