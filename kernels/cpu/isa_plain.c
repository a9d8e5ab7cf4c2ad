#define VECTOR_PLAIN
#define ISA_TABLE isa_plain
#define ISA_NAME  "plain"
#include "kernels/cpu/isa_body.h"
