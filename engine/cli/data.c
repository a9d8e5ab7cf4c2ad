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
    uint64_t done_bytes, all_bytes, written;
    struct progress progress;
};

static int write_tokens(struct encoder *encoder, struct error *err)
{
    const size_t count = encoder->tokens.count / sizeof(int32_t);
    encoder->written += count;
    encoder->tokens.count = 0;
    return shard_writer_put(encoder->writer, (const int32_t *)(const void *)encoder->tokens.at, count, err);
}

static void say_progress(struct encoder *encoder)
{
    if (progress_due(&encoder->progress))
        fprintf(printable_below(stderr), "\r%s %3.0f %%, %llu tokens ", encoder->progress.what,
                100.0 * (double)encoder->done_bytes / (double)encoder->all_bytes, (unsigned long long)encoder->written);
}

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
        if ((status = write_tokens(encoder, err))) return status;
        at += (uint64_t)taken;
        encoder->done_bytes += (uint64_t)taken;
        say_progress(encoder);
        if (interrupt_asked()) return error_set(err, STATUS_RUN, "stopped while it was encoded");
    }
    return STATUS_OK;
}

static int encode_corpus(struct encoder *encoder, const struct corpus *corpus, struct error *err)
{
    int status = STATUS_OK;
    encoder->all_bytes = corpus->length;
    for (size_t f = 0; f < corpus->count && !status; f++) status = encode_file(encoder, corpus, f, err);
    if (!status) status = shard_writer_end(encoder->writer, err);
    progress_end(&encoder->progress);
    return status;
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
    if (!status)
        status =
            shard_writer_open(&encoder.writer, cli->into, cli->shard_tokens > 0 ? (uint64_t)cli->shard_tokens : 0, err);
    if (!status) status = encode_corpus(&encoder, &corpus, err);
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

struct figures {
    enum data_format format;
    size_t files;
    uint64_t tokens, bytes;
    int seen, highest;
    double entropy;
};

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

static int count(struct figures *figures, const struct corpus *corpus, struct error *err)
{
    uint64_t *counts = calloc(SHARD_VOCABULARY_MAX, sizeof *counts);
    if (!counts) return error_set(err, STATUS_RUN, "no memory to count tokens");
    if (corpus_count(corpus, corpus->length, counts, err)) return free(counts), STATUS_INPUT;
    *figures = (struct figures){.format = corpus->format,
                                .files = corpus->count,
                                .tokens = corpus->length,
                                .bytes = corpus->length * (uint64_t)corpus->width,
                                .entropy = data_entropy(counts, SHARD_VOCABULARY_MAX)};
    for (int token = 0; token < SHARD_VOCABULARY_MAX; token++)
        if (counts[token]) figures->seen++, figures->highest = token;
    free(counts);
    return STATUS_OK;
}

static const char page[] =
    "kind        {?.shards}llm.c token shards, version 1, 16 bits a token{/}{!.shards}text, a token is a byte{/}\n"
    "files       {files}\ntokens      {tokens}, {bytes} bytes\n"
    "vocabulary  {different_tokens} different tokens, the highest is {highest_token}: model.vocabulary of at least {.least}\n"
    "entropy     {entropy_nats:.4} nats ({.bits:.4} bits) a token, from how often each occurs\n";

static cJSON *facts_of(const struct figures *figures)
{
    const bool shards = figures->format == DATA_TOKENS;
    return json_object(TEXT("format", shards ? "tokens" : "bytes"), NUMBER("files", figures->files),
                       NUMBER("tokens", figures->tokens), NUMBER("bytes", figures->bytes),
                       NUMBER("different_tokens", figures->seen), NUMBER("highest_token", figures->highest),
                       NUMBER("entropy_nats", figures->entropy), TRUTH(".shards", shards),
                       NUMBER(".least", shards || figures->highest > 255 ? figures->highest + 1 : 256),
                       NUMBER(".bits", figures->entropy / log(2)));
}

int front_data_info(const struct cli *cli, struct error *err)
{
    struct corpus corpus;
    struct figures figures = {0};
    int status = open_either(&corpus, cli->operand, err);
    if (status) return status;
    status = count(&figures, &corpus, err);
    corpus_close(&corpus);
    return status ? status : front_answer(cli, page, facts_of(&figures), err);
}
