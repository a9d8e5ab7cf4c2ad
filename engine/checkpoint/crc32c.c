/* CRC-32C in hardware and in plain C. The instruction takes eight bytes and has a latency of three cycles, so three
 * streams at a time keep it busy. Their sums are joined by shifting the first two over the bytes that follow them,
 * which is a product with a power of x and costs a table look-up for each byte of a sum. */
#include "engine/checkpoint/crc32c.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

static const uint32_t POLYNOMIAL = 0x82f63b78u; /* bits reversed: bit 31 is x^0 */

enum { STREAM_BYTES = 4096 };

static struct {
    uint32_t slice[8][256]; /* what byte b does to the sum, 0 to 7 bytes later */
    uint32_t shift[4][256]; /* what byte k of a sum, if it is b, becomes after STREAM_BYTES zeros */
    bool in_hardware;
} tables; /* constants: filled once, never changed */

static uint32_t sum_of_zeros(uint32_t crc, size_t bytes)
{
    while (bytes--)
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? POLYNOMIAL : 0);
    return crc;
}

static void fill_tables(void)
{
    for (uint32_t b = 0; b < 256; b++) {
        tables.slice[0][b] = sum_of_zeros(b, 1);
        for (int k = 0; k < 4; k++) { /* linear: of several bits, the sum of what each one gives */
            const uint32_t rest = b & (b - 1);
            tables.shift[k][b] =
                rest ? tables.shift[k][rest] ^ tables.shift[k][b ^ rest] : sum_of_zeros(b << 8 * k, STREAM_BYTES);
        }
    }
    for (int k = 1; k < 8; k++)
        for (int b = 0; b < 256; b++) {
            uint32_t before = tables.slice[k - 1][b];
            tables.slice[k][b] = before >> 8 ^ tables.slice[0][before & 255];
        }
#ifdef __x86_64__
    tables.in_hardware = __builtin_cpu_supports("sse4.2");
#endif
}

static void need_tables(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, fill_tables);
}

/* Eight bytes at a time (Intel's slicing by 8). */
static uint32_t plain(uint32_t crc, const uint8_t *at, size_t count)
{
    for (; count >= 8; at += 8, count -= 8) {
        uint32_t low, high;
        memcpy(&low, at, 4), memcpy(&high, at + 4, 4);
        low ^= crc;
        crc = tables.slice[7][low & 255] ^ tables.slice[6][low >> 8 & 255] ^ tables.slice[5][low >> 16 & 255] ^
              tables.slice[4][low >> 24] ^ tables.slice[3][high & 255] ^ tables.slice[2][high >> 8 & 255] ^
              tables.slice[1][high >> 16 & 255] ^ tables.slice[0][high >> 24];
    }
    for (; count; at++, count--) crc = crc >> 8 ^ tables.slice[0][(crc ^ *at) & 255];
    return crc;
}

#ifdef __x86_64__
static uint32_t shifted(uint32_t crc)
{
    return tables.shift[0][crc & 255] ^ tables.shift[1][crc >> 8 & 255] ^ tables.shift[2][crc >> 16 & 255] ^
           tables.shift[3][crc >> 24];
}

__attribute__((target("sse4.2"))) static uint64_t next8(uint64_t crc, const uint8_t *at)
{
    uint64_t word;
    memcpy(&word, at, 8);
    return __builtin_ia32_crc32di(crc, word);
}

__attribute__((target("sse4.2"))) static uint32_t in_hardware(uint32_t crc, const uint8_t *at, size_t count)
{
    for (; count >= 3 * STREAM_BYTES; at += 3 * STREAM_BYTES, count -= 3 * STREAM_BYTES) {
        uint64_t first = crc, second = 0, third = 0;
        for (int i = 0; i < STREAM_BYTES; i += 8) {
            first = next8(first, at + i);
            second = next8(second, at + STREAM_BYTES + i);
            third = next8(third, at + 2 * STREAM_BYTES + i);
        }
        crc = shifted(shifted((uint32_t)first) ^ (uint32_t)second) ^ (uint32_t)third;
    }
    uint64_t wide = crc;
    for (; count >= 8; at += 8, count -= 8) wide = next8(wide, at);
    for (crc = (uint32_t)wide; count; at++, count--) crc = __builtin_ia32_crc32qi(crc, *at);
    return crc;
}
#endif

uint32_t crc32c_plain(uint32_t crc, const void *bytes, size_t count)
{
    need_tables();
    return ~plain(~crc, bytes, count);
}

uint32_t crc32c(uint32_t crc, const void *bytes, size_t count)
{
    need_tables();
#ifdef __x86_64__
    if (tables.in_hardware) return ~in_hardware(~crc, bytes, count);
#endif
    return ~plain(~crc, bytes, count);
}
