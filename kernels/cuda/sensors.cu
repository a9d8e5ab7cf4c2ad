/* Reads a GPU's sensors by NVML. See sensors.h. */
#include "kernels/cuda/nvml.cuh"
#include "kernels/cuda/runtime.cuh"
#include "kernels/cuda/sensors.h"

#include <stdlib.h>

struct sensors {
    struct nvml nvml;
    nvmlDevice_t device;
};

/* CUDA and NVML count GPUs differently; both know the bus address. */
struct sensors *sensors_open(const struct device *device)
{
    struct sensors *sensors = (struct sensors *)calloc(1, sizeof *sensors);
    if (!sensors) return NULL;
    if (!nvml_open(&sensors->nvml)) return free(sensors), nullptr;
    if (sensors->nvml.nvmlInit_v2()) return nvml_close(&sensors->nvml), free(sensors), nullptr;
    if (sensors->nvml.nvmlDeviceGetHandleByPciBusId_v2(device->info.bus, &sensors->device))
        return sensors_close(sensors), nullptr;
    return sensors;
}

struct sensor_reading sensors_read(const struct sensors *sensors)
{
    struct sensor_reading reading = {UINT32_MAX, UINT32_MAX, UINT64_MAX};
    unsigned power, clock;
    unsigned long long reasons;
    if (!sensors) return reading;
    const struct nvml *nvml = &sensors->nvml;
    if (!nvml->nvmlDeviceGetPowerUsage(sensors->device, &power)) reading.power_mw = power;
    if (!nvml->nvmlDeviceGetClockInfo(sensors->device, NVML_CLOCK_SM, &clock)) reading.clock_mhz = clock;
    if (!nvml->nvmlDeviceGetCurrentClocksThrottleReasons(sensors->device, &reasons)) reading.slowed_by = reasons;
    return reading;
}

void sensors_close(struct sensors *sensors)
{
    if (!sensors) return;
    sensors->nvml.nvmlShutdown();
    nvml_close(&sensors->nvml);
    free(sensors);
}
