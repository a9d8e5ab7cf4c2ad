/* Opens NVML, which comes with the driver. */
#include "kernels/cuda/nvml.cuh"

#include <dlfcn.h>

bool nvml_open(struct nvml *nvml)
{
    nvml->handle = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    bool all = nvml->handle != nullptr;
#define X(name, parameters) all = all && (nvml->name = (decltype(nvml->name))dlsym(nvml->handle, #name));
    NVML_CALLS(X)
#undef X
    if (!all) nvml_close(nvml);
    return all;
}

void nvml_close(struct nvml *nvml)
{
    if (nvml->handle) dlclose(nvml->handle);
    nvml->handle = nullptr;
}
