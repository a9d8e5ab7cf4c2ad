/* Bytes and counts as people read them: 1234567 -> "1,234,567"; 1 rank, 2 ranks. */
#pragma once

#include <inttypes.h>
#include <stdio.h>

static inline const char *grouped(char out[32], int64_t value)
{
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%" PRId64, value), at = 0;
    for (int i = 0; i < length && at < 30; i++) {
        if (i > 0 && (length - i) % 3 == 0 && digits[i - 1] != '-') out[at++] = ',';
        out[at++] = digits[i];
    }
    out[at] = '\0';
    return out;
}

static inline double gib(uint64_t bytes)
{
    return (double)bytes / (1 << 30);
}

static inline const char *plural(int64_t count)
{
    return count == 1 ? "" : "s";
}

/* A function that formats a number of bytes. write_bytes() writes all digits: "1,234,567 B". */
typedef void bytes_writer(char out[32], uint64_t bytes);
static inline void write_bytes(char out[32], uint64_t bytes)
{
    char digits[32];
    snprintf(out, 32, "%.28s B", grouped(digits, (int64_t)bytes));
}
