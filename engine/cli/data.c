/* `zerolab data encode` and `info`: text to token shards, and what is in either. */
#include <math.h>
#include <stdlib.h>

#include "engine/base/json.h"
#include "engine/cli/front.h"
#include "engine/cli/progress.h"
#include "engine/data/corpus.h"
#include "engine/data/data.h"
#include "engine/data/shard.h"

/* ---- encode ---- */

enum { PART_BYTES = 1 << 20 }; /* of text in hand; a word longer than that is cut */

struct encoder {
    struct tokenizer *tokenizer;
    struct shard_writer *writer;
    struct bytes tokens;
    uint8_t *text; /* PART_BYTES of it */
    uint64_t done_bytes, written;
    struct progress progress;
};

/* As llm.c's own data: what stands between texts stands before each of them. */
static int encode_file(struct encoder *encoder, const struct corpus *corpus, size_t file, struct error *err)
{
    const uint64_t length = corpus->files[file].length;
    const int32_t between = tokenizer_end_of_text(encoder->tokenizer);
    if (between >= 0 && !bytes_append(&encoder->tokens, &between, sizeof between))
        return error_set(err, STATUS_RUN, "no memory to encode");
    for (uint64_t at = 0; at < length;) {
        const char *text = (const char *)encoder->text;
        const uint64_t left = length - at, part = left < PART_BYTES ? left : PART_BYTES;
        int status = corpus_bytes(corpus, file, at, (size_t)part, encoder->text, err);
        if (status) return status;
        int64_t taken = tokenizer_encode(encoder->tokenizer, text, (size_t)part, part == left, &encoder->tokens);
        if (taken == 0) taken = tokenizer_encode(encoder->tokenizer, text, (size_t)part, true, &encoder->tokens);
        if (taken < 0) return error_set(err, STATUS_RUN, "no memory to encode");
        const size_t count = encoder->tokens.count / sizeof(int32_t);
        encoder->written += count;
        encoder->tokens.count = 0;
        status = shard_writer_put(encoder->writer, (const int32_t *)(const void *)encoder->tokens.at, count, err);
        if (status) return status;
        at += (uint64_t)taken;
        encoder->done_bytes += (uint64_t)taken;
        if (progress_due(&encoder->progress))
            fprintf(printable_below(stderr), "\r%s %3.0f %%, %llu tokens ", encoder->progress.what,
                    100.0 * (double)encoder->done_bytes / (double)corpus->length, (unsigned long long)encoder->written);
        if (interrupt_asked()) return error_set(err, STATUS_RUN, "stopped while it was encoded");
    }
    return STATUS_OK;
}

static int open_encoder(struct encoder *encoder, const struct cli *cli, struct error *err)
{
    if (!cli->into) return error_set(err, STATUS_USAGE, "give -o FILE.bin, where the tokens are to go");
    if (!cli->vocabulary != !cli->merges)
        return error_set(err, STATUS_USAGE, "--%s is given alone; a byte-pair encoding needs --vocabulary and --merges",
                         cli->vocabulary ? "vocabulary" : "merges");
    encoder->progress = progress_of("encoding");
    if (!(encoder->text = malloc(PART_BYTES))) return error_set(err, STATUS_RUN, "no memory to encode");
    int status = tokenizer_open_files(&encoder->tokenizer, cli->vocabulary, cli->merges, err);
    if (!status && tokenizer_vocabulary(encoder->tokenizer) > SHARD_VOCABULARY_MAX)
        status = error_set(err, STATUS_USAGE, "%s has tokens up to %d, a token shard up to %d", cli->vocabulary,
                           tokenizer_vocabulary(encoder->tokenizer) - 1, SHARD_VOCABULARY_MAX - 1);
    return status;
}

int front_data_encode(const struct cli *cli, struct error *err)
{
    struct encoder encoder = {0};
    struct corpus corpus = {0};
    interrupt_watch();
    int status = open_encoder(&encoder, cli, err);
    if (!status && (status = corpus_open(&corpus, cli->operand, DATA_BYTES, err)))
        error_prefix(err, "%s", cli->operand);
    if (!status) status = shard_writer_open(&encoder.writer, cli->into, (uint64_t)cli->shard_tokens, err);
    for (size_t f = 0; f < corpus.count && !status; f++) status = encode_file(&encoder, &corpus, f, err);
    if (!status) status = shard_writer_end(encoder.writer, err);
    progress_end(&encoder.progress);
    if (!status)
        printf("%llu bytes of text, %llu tokens, %.2f bytes a token, %d shard%s: %s\n",
               (unsigned long long)corpus.length, (unsigned long long)encoder.written,
               (double)corpus.length / (double)encoder.written, shard_writer_shards(encoder.writer),
               plural(shard_writer_shards(encoder.writer)), cli->into);
    shard_writer_close(encoder.writer);
    tokenizer_close(encoder.tokenizer);
    bytes_release(&encoder.tokens);
    free(encoder.text);
    corpus_close(&corpus);
    return status;
}

/* ---- info ---- */

static bool begins_as_shard(const struct corpus *corpus, size_t file)
{
    uint8_t head[4];
    return corpus->files[file].length >= sizeof head && !corpus_bytes(corpus, file, 0, sizeof head, head, NULL) &&
           shard_is(head, sizeof head);
}

/* Shards if it is one, or a folder that has one; else text. */
static int open_either(struct corpus *corpus, const char *path, struct error *err)
{
    struct error of_shards;
    int status = corpus_open(corpus, path, DATA_TOKENS, &of_shards);
    if (!status) return STATUS_OK;
    status = corpus_open(corpus, path, DATA_BYTES, err);
    if (status) return error_prefix(err, "%s", path);
    for (size_t f = 0; f < corpus->count; f++)
        if (begins_as_shard(corpus, f)) { /* meant as one, but damaged */
            corpus_close(corpus);
            *err = of_shards;
            return error_prefix(err, "%s", path);
        }
    return STATUS_OK;
}

static const char page[] =
    "kind        {?.shards}llm.c token shards, version 1, 16 bits a token{/}{!.shards}text, a token is a byte{/}\n"
    "files       {files}\ntokens      {tokens}, {bytes} bytes\n"
    "vocabulary  {different_tokens} different tokens, the highest is {highest_token}: model.vocabulary of at least {.least}\n"
    "entropy     {entropy_nats:.4} nats ({.bits:.4} bits) a token, from how often each occurs\n";

static int count(cJSON **facts, const struct corpus *corpus, struct error *err)
{
    const bool shards = corpus->format == DATA_TOKENS;
    uint64_t *counts = calloc(SHARD_VOCABULARY_MAX, sizeof *counts);
    int seen = 0, highest = 0;
    if (!counts) return error_set(err, STATUS_RUN, "no memory to count tokens");
    if (corpus_count(corpus, corpus->length, counts, err)) return free(counts), STATUS_INPUT;
    for (int token = 0; token < SHARD_VOCABULARY_MAX; token++)
        if (counts[token]) seen++, highest = token;
    const double entropy = data_entropy(counts, SHARD_VOCABULARY_MAX);
    free(counts);
    *facts = json_object(TEXT("format", shards ? "tokens" : "bytes"), NUMBER("files", corpus->count),
                         NUMBER("tokens", corpus->length), NUMBER("bytes", corpus->length * (uint64_t)corpus->width),
                         NUMBER("different_tokens", seen), NUMBER("highest_token", highest),
                         NUMBER("entropy_nats", entropy), TRUTH(".shards", shards),
                         NUMBER(".least", shards || highest > 255 ? highest + 1 : 256),
                         NUMBER(".bits", entropy / log(2)));
    return STATUS_OK;
}

int front_data_info(const struct cli *cli, struct error *err)
{
    struct corpus corpus;
    cJSON *facts = NULL;
    int status = open_either(&corpus, cli->operand, err);
    if (status) return status;
    status = count(&facts, &corpus, err);
    corpus_close(&corpus);
    return status ? status : front_answer(cli, page, facts, err);
}
