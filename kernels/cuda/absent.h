/* For functions that a build lacks: ABSENT() defines one that fails with ABSENT_WHY, which the includer defines,
 * NOTHING() one that does nothing, and ANSWERS() one that has always the same result. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define ABSENT(name, ...)                                                                                              \
    int name(__VA_ARGS__)                                                                                              \
    {                                                                                                                  \
        return error_set(err, STATUS_USAGE, ABSENT_WHY);                                                               \
    }
#define NOTHING(name, ...)                                                                                             \
    void name(__VA_ARGS__)                                                                                             \
    {                                                                                                                  \
    }
#define ANSWERS(type, value, name, ...)                                                                                \
    type name(__VA_ARGS__)                                                                                             \
    {                                                                                                                  \
        return value;                                                                                                  \
    }
