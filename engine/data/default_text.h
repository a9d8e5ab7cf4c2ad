/* data/default.txt, assembled into the program. tools/freeze-text.sh makes the file and the two numbers here. Losses,
 * golden files and lab figures depend on every byte of it. */
#pragma once

#include <stdint.h>

#define DEFAULT_TEXT_BYTES 299962
#define DEFAULT_TEXT_CRC32 0x70e57b5a

extern const uint8_t default_text[], default_text_end[];
