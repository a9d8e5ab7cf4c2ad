#include "engine/config/builtin.h"

__asm__(".pushsection .rodata\n"
        ".global config_builtin, config_builtin_end\n"
        "config_builtin: .incbin \"configs/nano.json\"\n"
        "config_builtin_end: .byte 0\n"
        ".popsection");
