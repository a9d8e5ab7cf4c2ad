/* Power, clock and reasons for a lowered clock of a GPU, as the driver's library NVML says (libnvidia-ml.so.1, opened at run time).
 *
 *     sensors = sensors_open(device)          NULL: no such library, or it does not know this GPU
 *     reading = sensors_read(sensors)         NULL: every figure is unknown
 *     sensors_close(sensors)
 *
 * A call takes the driver up to some milliseconds, so read rarely. NVML averages the power of recent GPUs over a second. */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct device;
struct sensors;

/* A figure that cannot be read has all its bits set. */
struct sensor_reading {
    uint32_t power_mw;  /* of the whole board */
    uint32_t clock_mhz; /* of the multiprocessors */
    uint64_t slowed_by; /* nvmlClocksEventReason bits; 0: nothing lowers the clock */
};

struct sensors *sensors_open(const struct device *device);
struct sensor_reading sensors_read(const struct sensors *sensors);
void sensors_close(struct sensors *sensors);

#ifdef __cplusplus
}
#endif
