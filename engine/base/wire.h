/* Little-endian numbers in files and on sockets, at any alignment. put_* and get_* return the address after the number. */
#pragma once

#include <endian.h>
#include <stdint.h>
#include <string.h>

#define WIRE_INTEGER(type, value_type, to_little, from_little)              \
    static inline uint8_t *put_##type(uint8_t *at, value_type value)        \
    {                                                                       \
        value_type little = (value_type)to_little(value);                   \
        memcpy(at, &little, sizeof little);                                 \
        return at + sizeof little;                                          \
    }                                                                       \
    static inline const uint8_t *get_##type(const uint8_t *at, value_type *value) \
    {                                                                       \
        value_type little;                                                  \
        memcpy(&little, at, sizeof little);                                 \
        *value = (value_type)from_little(little);                           \
        return at + sizeof little;                                          \
    }

WIRE_INTEGER(u8, uint8_t, , )
WIRE_INTEGER(u16, uint16_t, htole16, le16toh)
WIRE_INTEGER(u32, uint32_t, htole32, le32toh)
WIRE_INTEGER(u64, uint64_t, htole64, le64toh)
WIRE_INTEGER(i64, int64_t, htole64, le64toh)
#undef WIRE_INTEGER

/* A floating-point number is stored as the integer of its bits, so NaN payloads and signed zeros survive. */
#define WIRE_FLOAT(type, value_type, bits, bits_type)                       \
    static inline uint8_t *put_##type(uint8_t *at, value_type value)        \
    {                                                                       \
        bits_type image;                                                    \
        memcpy(&image, &value, sizeof image);                               \
        return put_##bits(at, image);                                       \
    }                                                                       \
    static inline const uint8_t *get_##type(const uint8_t *at, value_type *value) \
    {                                                                       \
        bits_type image;                                                    \
        at = get_##bits(at, &image);                                        \
        memcpy(value, &image, sizeof image);                                \
        return at;                                                          \
    }

WIRE_FLOAT(f32, float, u32, uint32_t)
WIRE_FLOAT(f64, double, u64, uint64_t)
#undef WIRE_FLOAT
