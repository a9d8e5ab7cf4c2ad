/* The functions of NVML that sensors.cu calls, declared here because the toolkit's wheels have no nvml.h. All return 0 for success. */
#pragma once

#include <stdint.h>

typedef struct nvmlDevice_st *nvmlDevice_t;
enum { NVML_CLOCK_SM = 1 };

/* name, parameters */
#define NVML_CALLS(X)                                                                                                  \
    X(nvmlInit_v2, (void))                                                                                             \
    X(nvmlShutdown, (void))                                                                                            \
    X(nvmlDeviceGetHandleByPciBusId_v2, (const char *bus, nvmlDevice_t *device))                                       \
    X(nvmlDeviceGetPowerUsage, (nvmlDevice_t device, unsigned *milliwatts))                                            \
    X(nvmlDeviceGetClockInfo, (nvmlDevice_t device, int clock, unsigned *mhz))                                         \
    X(nvmlDeviceGetCurrentClocksThrottleReasons, (nvmlDevice_t device, unsigned long long *reasons))

struct nvml {
    void *handle;
#define X(name, parameters) int(*name) parameters;
    NVML_CALLS(X)
#undef X
};

bool nvml_open(struct nvml *nvml); /* false: the library, or one of these functions, is not here, and nothing stays open */
void nvml_close(struct nvml *nvml);
