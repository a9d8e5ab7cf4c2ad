#include "engine/data/default_text.h"

__asm__(".pushsection .rodata\n"
        ".global default_text, default_text_end\n"
        "default_text: .incbin \"data/default.txt\"\n"
        "default_text_end: .byte 0\n"
        ".popsection");
