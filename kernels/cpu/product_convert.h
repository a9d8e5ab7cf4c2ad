/* Products of 16-bit types where there are none: see product_convert.c. */
#ifndef KERNELS_CPU_PRODUCT_CONVERT_H
#define KERNELS_CPU_PRODUCT_CONVERT_H

#include "kernels/cpu/product.h"

struct product_buffers; /* three blocks of fp32 */

int product_buffers_create(struct product_buffers **out, struct error *err); /* free() frees them */
int product_run_converted(struct product_buffers *buffers, int threads, const struct product *product,
                          const struct product_data *data, struct error *err);

#endif
