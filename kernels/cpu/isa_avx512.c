#define VECTOR_AVX512
#define ISA_TABLE isa_avx512
#define ISA_NAME  "avx512"
#include "kernels/cpu/isa_body.h"
