/* Matrix products of 16-bit types on processors that have none: product_convert.c computes them in fp32. */
#ifndef KERNELS_CPU_PRODUCT_CONVERT_H
#define KERNELS_CPU_PRODUCT_CONVERT_H

#include "kernels/cpu/product.h"

struct product_buffers; /* three blocks of fp32 */

int product_buffers_create(struct product_buffers **out, struct error *err); /* free() frees them */
int product_run_converted(struct product_buffers *buffers, int threads, const struct product *product,
                          const struct product_data *data, struct error *err);

#endif
