/* NAMED(tier, TIERS) defines tier_named(), the inverse of tier_name(). It returns -1 for an unknown name and for NULL. */
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
