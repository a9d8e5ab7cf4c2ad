/* CRC-32C (Castagnoli's polynomial, as iSCSI, ext4 and Btrfs use it): what processors compute in hardware. */
#ifndef ENGINE_CHECKPOINT_CRC32C_H
#define ENGINE_CHECKPOINT_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Of bytes that follow those of `crc`; 0 to begin with. */
uint32_t crc32c(uint32_t crc, const void *bytes, size_t count);

/* The same without special instructions. */
uint32_t crc32c_plain(uint32_t crc, const void *bytes, size_t count);

#endif
