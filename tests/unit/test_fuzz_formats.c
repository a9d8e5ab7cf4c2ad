/* Any bytes at all, given to the readers of files that other programs make: safetensors, one or several with an index, llm.c's
 * model files, token shards, vocab.json with merges.txt. Nothing may crash, read out of bounds, run without end or allocate
 * without bound. A blind mutation mostly breaks what a file says of its own sizes, so most mutations go into the head, and
 * each input is tried a second time with those sizes made right.
 *
 * Runs a number of mutations of each (argument 1), always the same; with FUZZ_SECONDS=N in the environment each goes on for
 * so long, and FUZZ_READER=NAME names the only one. */
#include <assert.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/base/bytes.h"
#include "engine/base/clock.h"
#include "engine/base/wire.h"
#include "engine/data/bpe.h"
#include "engine/data/corpus.h"
#include "tests/support/effort.h"
#include "tests/support/lent.h"
#include "tests/support/weights_fixture.h"

static uint64_t
    accepted; /* by a reader, for the last line: a fuzzer whose inputs are all refused at once tests nothing */

static uint32_t next_random(void)
{
    static uint64_t state = 2025;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33);
}

/* A file without a name of these bytes, `size` long. */
static int file_of(const struct bytes *bytes, uint64_t size, char path[64])
{
    int fd = memfd_create("input", MFD_CLOEXEC);
    assert(fd >= 0 && ftruncate(fd, (off_t)size) == 0);
    const size_t count = bytes->count < size ? bytes->count : (size_t)size;
    assert(pwrite(fd, bytes->at, count, 0) == (ssize_t)count);
    snprintf(path, 64, "/proc/self/fd/%d", fd);
    return fd;
}

static void check_error(const struct error *err)
{
    assert(err->text[0] && !strchr(err->text, '\n') && (err->status == STATUS_INPUT || err->status == STATUS_USAGE));
}

/* ---- weights ---- */

enum { SIZE_MAX_BYTES = 8 << 20 };

static void read_all(struct weights_file *file)
{
    struct model model;
    struct error err;
    weights_lend(file, lent(1));
    assert(model_init(&model, &weights_info(file)->shape, DTYPE_F32, &err) == STATUS_OK);
    for (int u = 0; u < model.unit_count; u++)
        for (int64_t first = 0, part; first < model.units[u].elems; first += part) {
            float values[4096];
            part = model.units[u].elems - first < 4096 ? model.units[u].elems - first : 4096;
            if (weights_read(file, u, first, part, values, &err)) check_error(&err);
        }
    model_release(&model);
}

static void read_weights(const struct bytes *bytes, uint64_t size)
{
    char path[64];
    struct weights_file *file;
    struct error err;
    int fd = file_of(bytes, size, path);
    if (weights_open(&file, path, &err)) check_error(&err);
    else {
        assert(weights_info(file)->bytes == size && (uint64_t)weights_info(file)->elems <= size);
        read_all(file);
        weights_close(file);
        accepted++;
    }
    close(fd);
}

/* The length of the header is made right: it ends with the last brace of the first 16 KiB. */
static void read_safetensors(struct bytes *bytes)
{
    read_weights(bytes, bytes->count);
    if (bytes->count < 16) return;
    size_t end = bytes->count < 16384 ? bytes->count : 16384;
    while (end > 8 && bytes->at[end - 1] != '}') end--;
    uint64_t length = end - 8, last = 0;
    put_u64(bytes->at, length);
    for (size_t i = 8; i < end; i++) /* the largest number behind a comma is likely where the data end */
        if (bytes->at[i] == ',' && bytes->at[i + 1] >= '0' && bytes->at[i + 1] <= '9') {
            uint64_t number = strtoull((const char *)bytes->at + i + 1, NULL, 10);
            if (number > last && number < SIZE_MAX_BYTES) last = number;
        }
    read_weights(bytes, end + last);
}

static uint64_t product(const uint8_t *head, const int *factors)
{
    uint64_t result = 1;
    for (; *factors >= 0; factors++) {
        uint32_t number;
        get_u32(head + 4 * *factors, &number);
        result *= number % 4096;
    }
    return result;
}

/* The file is made as long as its head says, if that is not too long. */
static void read_llmc(struct bytes *bytes)
{
    read_weights(bytes, bytes->count);
    if (bytes->count < 1024) return;
    enum { VERSION = 1, X, V, L, NH, C, PADDED };
    const uint8_t *head = bytes->at;
    uint32_t version;
    get_u32(head + 4 * VERSION, &version);
    const uint64_t tables = product(head, (const int[]){PADDED, C, -1}) + product(head, (const int[]){X, C, -1});
    const uint64_t blocks =
        12 * product(head, (const int[]){L, C, C, -1}) + 13 * product(head, (const int[]){L, C, -1});
    const uint64_t size = 1024 + (version == 5 ? 2 : 4) * (tables + blocks + 2 * product(head, (const int[]){C, -1}));
    if (size < SIZE_MAX_BYTES) read_weights(bytes, size);
}

/* ---- an index and its files ---- */

enum { INDEXED = 5 }; /* files of the folder: the index, and what it names */
static char indexed[64];
static struct bytes seed_indexed[INDEXED];

static void put_indexed(int f, const struct bytes *bytes)
{
    char path[128];
    if (f == 0) snprintf(path, sizeof path, "%s/model.safetensors.index.json", indexed);
    else snprintf(path, sizeof path, "%s/model-%05d-of-00004.safetensors", indexed, f);
    FILE *file = fopen(path, "wb");
    assert(file && fwrite(bytes->at, 1, bytes->count, file) == bytes->count);
    fclose(file);
}

static void open_indexed(void)
{
    struct weights_file *file;
    struct error err;
    if (weights_open(&file, indexed, &err)) {
        check_error(&err);
        return;
    }
    read_all(file);
    weights_close(file);
    accepted++;
}

/* The index as it is; and then some of its bytes in place of the head of one of the files. */
static void read_index(struct bytes *bytes)
{
    put_indexed(0, bytes);
    open_indexed();
    put_indexed(0, &seed_indexed[0]);
    const int f = 1 + (int)(next_random() % (INDEXED - 1));
    struct bytes shard = {0};
    if (!bytes_append(&shard, seed_indexed[f].at, seed_indexed[f].count)) abort();
    for (uint32_t changes = 1 + next_random() % 3; changes--;)
        shard.at[next_random() % 2000] = bytes->at[next_random() % bytes->count];
    put_indexed(f, &shard);
    open_indexed();
    put_indexed(f, &seed_indexed[f]);
    bytes_release(&shard);
}

/* ---- token shards ---- */

static void read_shard(const struct bytes *bytes)
{
    char path[64];
    struct corpus corpus;
    struct error err;
    static uint64_t counts[65536];
    int fd = file_of(bytes, bytes->count, path);
    if (corpus_open(&corpus, path, DATA_TOKENS, &err)) check_error(&err);
    else {
        int32_t tokens[64];
        assert(corpus.length > 0 && corpus.length * 2 + 1024 == bytes->count);
        assert(!corpus_count(&corpus, corpus.length, counts, NULL));
        const uint64_t part = corpus.length < 64 ? corpus.length : 64;
        assert(!corpus_read(&corpus, corpus.length - part, (size_t)part, tokens, NULL));
        corpus_close(&corpus);
        accepted++;
    }
    close(fd);
}

static void read_shards(struct bytes *bytes)
{
    read_shard(bytes);
    if (bytes->count < 1024) return;
    put_u32(put_u32(bytes->at, 20240520), 1);
    put_u32(bytes->at + 8, (uint32_t)(bytes->count - 1024) / 2);
    read_shard(bytes);
}

/* ---- byte-pair encodings ---- */

static struct bytes seed_vocabulary, seed_merges;

static void use(const struct bpe *bpe)
{
    char text[200];
    struct bytes tokens = {0}, back = {0};
    const size_t bytes = next_random() % sizeof text;
    for (size_t i = 0; i < bytes; i++) text[i] = i % 2 ? (char)next_random() : "etaoin \n's"[next_random() % 9];
    assert(bpe_encode(bpe, text, bytes, true, &tokens) == (int64_t)bytes && tokens.count <= 4 * bytes);
    for (size_t i = 0; i < tokens.count; i += 4) {
        int32_t token;
        memcpy(&token, tokens.at + i, sizeof token);
        assert(token >= 0 && token < bpe_vocabulary(bpe) && bpe_decode(bpe, token, &back));
    }
    assert(back.count == bytes && (!bytes || memcmp(back.at, text, bytes) == 0));
    bytes_release(&tokens);
    bytes_release(&back);
}

static void read_bpe(const struct bytes *vocabulary, const struct bytes *merges)
{
    char vocabulary_path[64], merges_path[64];
    struct bpe *bpe;
    struct error err;
    int one = file_of(vocabulary, vocabulary->count, vocabulary_path),
        other = file_of(merges, merges->count, merges_path);
    if (bpe_open(&bpe, vocabulary_path, merges_path, &err)) check_error(&err);
    else {
        use(bpe);
        bpe_close(bpe);
        accepted++;
    }
    close(one);
    close(other);
}

static void read_vocabulary(struct bytes *bytes)
{
    read_bpe(bytes, &seed_merges);
    static const char none[] = "#version: 0.2\n";
    const struct bytes no_merges = {(uint8_t *)(uintptr_t)none, sizeof none - 1, 0};
    read_bpe(bytes, &no_merges); /* a vocabulary may have become good for itself */
}

static void read_merges(struct bytes *bytes)
{
    read_bpe(&seed_vocabulary, bytes);
}

/* ---- seeds and mutations ---- */

static struct bytes whole_file(const char *path)
{
    size_t count;
    unsigned char *bytes = file_bytes(path, &count);
    return (struct bytes){bytes, count, count};
}

static struct bytes seed_weights(enum weights_format format, enum dtype dtype)
{
    static const struct config_model shape = {"custom", 1, 8, 2, 5, 11, .kind = KIND_GPT2};
    char path[] = "/tmp/zerolab-fuzz.XXXXXX";
    struct model model;
    struct error err;
    struct bytes seed = {0};
    struct made_up made_up = {&model, 0};
    const struct state_source source = {.user = &made_up, .read = made_up_read};
    int fd = mkstemp(path);
    if (fd >= 0 && !model_init(&model, &shape, DTYPE_F32, &err) &&
        !weights_write(&(struct weights_target){path, format, dtype, lent(0)}, &model, &source, NULL, NULL, &err))
        seed = whole_file(path);
    model_release(&model);
    close(fd);
    unlink(path);
    return seed;
}

static struct bytes seed_index(void)
{
    strcpy(indexed, "/tmp/zerolab-fuzz.XXXXXX");
    if (!mkdtemp(indexed)) abort();
    for (int f = 0; f < INDEXED; f++) {
        char path[128];
        snprintf(path, sizeof path, "tests/reference/weights/sharded/model-%05d-of-00004.safetensors", f);
        seed_indexed[f] = whole_file(f ? path : "tests/reference/weights/sharded/model.safetensors.index.json");
        put_indexed(f, &seed_indexed[f]);
    }
    struct bytes copy = {0};
    if (!bytes_append(&copy, seed_indexed[0].at, seed_indexed[0].count)) abort();
    return copy;
}

static void remove_indexed(void)
{
    for (int f = 0; f < INDEXED; f++) {
        char path[128];
        snprintf(path, sizeof path, f ? "%s/model-%05d-of-00004.safetensors" : "%s/model.safetensors.index.json",
                 indexed, f);
        unlink(path);
        bytes_release(&seed_indexed[f]);
    }
    rmdir(indexed);
}

static struct bytes seed_shard(void)
{
    struct bytes seed = {0};
    bytes_reserve(&seed, 1200);
    memset(seed.at, 7, seed.count = 1200);
    put_u32(put_u32(put_u32(seed.at, 20240520), 1), 88);
    return seed;
}

static void change(struct bytes *bytes, size_t at)
{
    static const uint8_t extremes[] = {0, 1, 0x7f, 0x80, 0xff}, signs[] = "0123456789-.e,:[]{}\"\\ \n";
    switch (next_random() % 7) {
    case 0: bytes->at[at] ^= (uint8_t)(1 << next_random() % 8); break;
    case 1: bytes->at[at] = extremes[next_random() % sizeof extremes]; break;
    case 2: bytes->at[at] = (uint8_t)next_random(); break;
    case 3: bytes->at[at] = signs[next_random() % (sizeof signs - 1)]; break;
    case 4: /* a small whole number */
        if (at % 4 == 0 && at + 4 <= bytes->count) put_u32(bytes->at + at, next_random() % 20);
        break;
    case 5: { /* a piece is there twice, or moves over another */
        const size_t to = next_random() % bytes->count, most = bytes->count - (at > to ? at : to),
                     length = next_random() % 64;
        memmove(bytes->at + to, bytes->at + at, length < most ? length : most);
        break;
    }
    case 6:
        if (next_random() % 8 == 0) bytes->count = at + 1;
        break;
    }
}

static void mutate(struct bytes *bytes, size_t head)
{
    for (uint32_t changes = next_random() % 5; changes--;)
        change(bytes, next_random() % (next_random() % 4 ? head < bytes->count ? head : bytes->count : bytes->count));
}

struct reader {
    const char *name;
    struct bytes seed;
    size_t head;
    void (*read)(struct bytes *bytes);
};

static int fuzz(const struct reader *reader, int number, int rounds, uint64_t nanoseconds)
{
    const uint64_t until_ns = clock_ns() + nanoseconds;
    int round = 0;
    accepted = 0;
    for (; round < rounds || (nanoseconds && clock_ns() < until_ns); round++) {
        struct bytes input = {0};
        if (!bytes_append(&input, reader->seed.at, reader->seed.count)) abort();
        mutate(&input, reader->head);
        reader->read(&input);
        bytes_release(&input);
    }
    printf("%sok %d - %s: %d mutations of %zu bytes, %llu were files all the same\n", accepted ? "" : "not ", number,
           reader->name, round, reader->seed.count, (unsigned long long)accepted);
    fflush(stdout);
    return accepted ? 0 : 1;
}

int main(int argc, char **argv)
{
    const int rounds = argc > 1 ? atoi(argv[1]) : effort(300, 500, 2000);
    const char *seconds = getenv("FUZZ_SECONDS"), *only = getenv("FUZZ_READER");
    seed_vocabulary = whole_file("tests/reference/bpe/vocab.json");
    seed_merges = whole_file("tests/reference/bpe/merges.txt");
    struct reader readers[] = {
        {"safetensors", seed_weights(WEIGHTS_SAFETENSORS, DTYPE_F32), 1800, read_safetensors},
        {"llmc", seed_weights(WEIGHTS_LLMC, DTYPE_BF16), 32, read_llmc},
        {"index", seed_index(), 2141, read_index},
        {"tokens", seed_shard(), 12, read_shards},
        {"vocabulary", seed_vocabulary, seed_vocabulary.count, read_vocabulary},
        {"merges", seed_merges, seed_merges.count, read_merges},
    };
    int failed = 0, number = 0;
    printf("1..%d\n", only ? 1 : (int)(sizeof readers / sizeof *readers));
    for (size_t r = 0; r < sizeof readers / sizeof *readers; r++)
        if (!only || strcmp(only, readers[r].name) == 0)
            failed |= fuzz(&readers[r], ++number, rounds, (uint64_t)(seconds ? atoi(seconds) : 0) * 1000000000u);
    for (size_t r = 0; r < sizeof readers / sizeof *readers; r++) bytes_release(&readers[r].seed);
    remove_indexed();
    return failed;
}
