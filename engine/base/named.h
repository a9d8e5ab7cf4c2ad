/* From a name back to its number: NAMED(tier, TIERS) defines tier_named(), by tier_name(). -1 (and for NULL): nothing is called so. */
#ifndef ENGINE_BASE_NAMED_H
#define ENGINE_BASE_NAMED_H

#include <string.h>

#define NAMED(what, count)                                                                                             \
    static int what##_named(const char *name)                                                                          \
    {                                                                                                                  \
        for (int number = 0; name && number < (count); number++)                                                       \
            if (strcmp(what##_name((enum what)number), name) == 0) return number;                                      \
        return -1;                                                                                                     \
    }

#endif
