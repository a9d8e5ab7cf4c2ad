/* The table of functions behind kernels.h. A struct kernels begins with a pointer to the table of kernels/cpu or of
 * kernels/cuda. kernels.c forwards every call of kernels.h to the table's function of the same name, with the same
 * arguments and results. */
#pragma once

#include "kernels/kernels.h"

struct backend {
    void (*free)(struct kernels *kernels);
    bool (*native_products)(const struct kernels *kernels, enum dtype dtype);
    int (*check)(struct kernels *kernels, struct error *err);
#define KERNEL(type, name, parameters, arguments) type (*name) parameters;
#include "kernels/kernels.def"
#undef KERNEL
};

struct kernels {
    const struct backend *backend;
    int threads;
    const char *isa;
};
