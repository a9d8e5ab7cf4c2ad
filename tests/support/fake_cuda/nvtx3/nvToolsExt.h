/* NVTX as a profiler hears it: with FAKE_NVTX=FILE each range is a line of that file (listeners.cc). */
#pragma once

typedef struct nvtxDomainRegistration *nvtxDomainHandle_t;

nvtxDomainHandle_t nvtxDomainCreateA(const char *name);
void nvtxDomainDestroy(nvtxDomainHandle_t domain);
int nvtxRangePushA(const char *name);
int nvtxRangePop(void);
