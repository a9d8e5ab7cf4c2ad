/* CRC-32C (Castagnoli's polynomial, as in iSCSI, ext4 and Btrfs), for which processors have an instruction. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Continues the checksum `crc` (0 to begin) with `count` bytes and returns the new one. */
uint32_t crc32c(uint32_t crc, const void *bytes, size_t count);

/* The same without special instructions. */
uint32_t crc32c_plain(uint32_t crc, const void *bytes, size_t count);
