/* NVTX, version 3: its headers are all there is, and a profiler injects the library that listens. See profiler.h. */
#include "kernels/cuda/profiler.h"

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>

/* Only where a profiler listens does a domain have a handle. */
bool profiler_listens(void)
{
    const nvtxDomainHandle_t domain = nvtxDomainCreateA("zerolab");
    if (domain) nvtxDomainDestroy(domain);
    return domain != nullptr;
}

void profiler_begin(const char *name)
{
    nvtxRangePushA(name);
}

void profiler_end(void)
{
    nvtxRangePop();
}
#else
#include "kernels/cuda/absent.h"

ANSWERS(bool, false, profiler_listens, void)
NOTHING(profiler_begin, const char *name)
NOTHING(profiler_end, void)
#endif
