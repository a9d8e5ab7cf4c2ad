#define VECTOR_AVX2
#define ISA_TABLE isa_avx2
#define ISA_NAME  "avx2"
#include "kernels/cpu/isa_body.h"
