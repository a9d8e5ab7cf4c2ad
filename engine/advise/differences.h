/* What DeepSpeed and PyTorch's FSDP2 do otherwise than this program: the rows of differences.def, with the lines of their
 * sources that settle each. `zerolab plan --explain`, the view of knobs, docs/KNOBS.md and the labs print them. */
#pragma once

/* The releases that were read. Paths of sources are below deepspeed/ and torch/distributed/. */
#define DEEPSPEED_READ "DeepSpeed 0.19.8"
#define FSDP2_READ     "FSDP2 of PyTorch 2.15"

/* Clauses without a subject ("cuts every tensor ..."). `name`, `subject`, `here` and `fsdp2` are NULL in a row that is only
 * about a key; `key` in one that belongs to none. A source is "FILE:LINE"; NULL where the text is NULL. */
struct difference {
    const char *name, *subject, *key, *here, *deepspeed, *deepspeed_source, *fsdp2, *fsdp2_source;
};

extern const struct difference differences[];
extern const int difference_count;

const struct difference *difference_named(const char *name); /* NULL: there is none */
const struct difference *difference_of_key(const char *path); /* the key's row; NULL: nothing differs */

enum { DIFFERENCE_MAX = 640 };
/* "zerolab ... . DeepSpeed ... (stage3.py:2841). FSDP2 ... (_fsdp_api.py:239)."; of a row about a key only the second sentence. */
void difference_say(char text[DIFFERENCE_MAX], const struct difference *row);
