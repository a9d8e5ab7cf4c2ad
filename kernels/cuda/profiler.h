/* Tells a profiler that reads NVTX ranges (Nsight Systems) what a thread sends to a GPU. Without a profiler, and in a build for which
 * NVTX's headers were missing, nobody listens. */
#pragma once

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

bool profiler_listens(void); /* ask once: the name of a range costs more than the range */
void profiler_begin(const char *name); /* of a range of the calling thread; ranges nest */
void profiler_end(void);

#ifdef __cplusplus
}
#endif
