/* Hides the differences between the C interfaces of oneDNN 2 and 3: in 3, memory descriptors are handles, and there are
 * no operation descriptors. All other calls that products need are the same. */
#ifndef KERNELS_CPU_DNNL_MATMUL_H
#define KERNELS_CPU_DNNL_MATMUL_H

#include <oneapi/dnnl/dnnl.h>

#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t matrix_desc;
#else
typedef dnnl_memory_desc_t *matrix_desc;
#endif

/* A matrix of rows x columns at these strides, in elements. */
dnnl_status_t matrix_desc_create(matrix_desc *out, dnnl_data_type_t type, int64_t rows, int64_t columns, int64_t row_stride, int64_t column_stride);
void matrix_desc_destroy(matrix_desc desc);

/* c = a b (+ bias, where not NULL) under attr. */
dnnl_status_t matmul_desc_create(dnnl_primitive_desc_t *out, dnnl_engine_t engine, matrix_desc a, matrix_desc b,
                                 matrix_desc bias, matrix_desc c, const_dnnl_primitive_attr_t attr);

/* Post-operations: + 1 x what c held; + a second matrix. */
dnnl_status_t append_sum(dnnl_post_ops_t ops);
dnnl_status_t append_add(dnnl_post_ops_t ops, matrix_desc other);

#endif
