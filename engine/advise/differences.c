#include "engine/advise/differences.h"

#include <stddef.h>
#include <string.h>

#include "engine/base/words.h"

const struct difference differences[] = {
#define DIFFERENCE(name, subject, key, here, deepspeed, deepspeed_source, fsdp2, fsdp2_source)                         \
    {name, subject, key, here, deepspeed, deepspeed_source, fsdp2, fsdp2_source},
#define QUIRK(key, deepspeed, source) {NULL, NULL, key, NULL, deepspeed, source, NULL, NULL},
#include "engine/advise/differences.def"
};
const int difference_count = sizeof differences / sizeof *differences;

const struct difference *difference_named(const char *name)
{
    for (int d = 0; d < difference_count; d++)
        if (differences[d].name && !strcmp(differences[d].name, name)) return &differences[d];
    return NULL;
}

const struct difference *difference_of_key(const char *path)
{
    for (int d = 0; d < difference_count; d++)
        if (differences[d].key && !strcmp(differences[d].key, path)) return &differences[d];
    return NULL;
}

/* A source without its folders. */
static const char *line_of(const char *source)
{
    const char *slash = strrchr(source, '/');
    return slash ? slash + 1 : source;
}

void difference_say(char text[DIFFERENCE_MAX], const struct difference *row)
{
    *text = '\0';
    if (row->here) text_append(text, DIFFERENCE_MAX, "zerolab %s. ", row->here);
    text_append(text, DIFFERENCE_MAX, "DeepSpeed %s (%s).", row->deepspeed, line_of(row->deepspeed_source));
    if (row->fsdp2) text_append(text, DIFFERENCE_MAX, " FSDP2 %s (%s).", row->fsdp2, line_of(row->fsdp2_source));
}
