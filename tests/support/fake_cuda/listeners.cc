/* What watches the fake device from outside: NVML, and a profiler that reads NVTX ranges.
 *
 * FAKE_NVML="MILLIWATTS MHZ REASONS": what NVML says of every device, each with its number added to MHZ; "none": it does not support
 * that figure. Unset: the library is not here. FAKE_NVTX=FILE: a profiler listens, and writes a line for each range when it ends: the
 * thread, how deep it nests, the name. */
#include "kernels/cuda/nvml.cuh"
#include "tests/support/fake_cuda/inside.h"
#include "tests/support/fake_cuda/nvtx3/nvToolsExt.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace
{

enum { NVML_NOT_SUPPORTED = 3, NVML_NOT_FOUND = 6 };
int devices[FAKE_DEVICES_MOST]; /* a handle is the address of its number's place */

int number_of(nvmlDevice_t device)
{
    return (int)((int *)device - devices);
}

/* The n-th word of FAKE_NVML. */
template <class T> int said(int n, T *out)
{
    const char *text = getenv("FAKE_NVML");
    char words[3][32] = {"none", "none", "none"};
    if (text) sscanf(text, "%31s %31s %31s", words[0], words[1], words[2]);
    if (strcmp(words[n], "none") == 0) return NVML_NOT_SUPPORTED;
    *out = (T)strtoull(words[n], nullptr, 0);
    return 0;
}

int init(void)
{
    return 0;
}

int handle(const char *bus, nvmlDevice_t *device)
{
    unsigned number;
    if (sscanf(bus, "0000:%x:00.0", &number) != 1 || number >= FAKE_DEVICES_MOST) return NVML_NOT_FOUND;
    *device = (nvmlDevice_t)&devices[number];
    return 0;
}

int power(nvmlDevice_t, unsigned *milliwatts)
{
    return said(0, milliwatts);
}

int clock_of(nvmlDevice_t device, int clock, unsigned *mhz)
{
    const int status = clock == NVML_CLOCK_SM ? said(1, mhz) : NVML_NOT_SUPPORTED;
    if (!status) *mhz += (unsigned)number_of(device);
    return status;
}

int reasons(nvmlDevice_t, unsigned long long *bits)
{
    return said(2, bits);
}

thread_local std::vector<std::string> ranges;

} // namespace

bool nvml_open(struct nvml *nvml)
{
    *nvml = {nullptr, init, init, handle, power, clock_of, reasons};
    return getenv("FAKE_NVML") != nullptr;
}

void nvml_close(struct nvml *)
{
}

nvtxDomainHandle_t nvtxDomainCreateA(const char *)
{
    return getenv("FAKE_NVTX") ? (nvtxDomainHandle_t)devices : nullptr;
}

void nvtxDomainDestroy(nvtxDomainHandle_t)
{
}

int nvtxRangePushA(const char *name)
{
    ranges.push_back(name);
    return (int)ranges.size() - 1;
}

int nvtxRangePop(void)
{
    if (ranges.empty()) fake_die("a range ends that never began");
    FILE *file = fopen(getenv("FAKE_NVTX"), "a");
    if (file) fprintf(file, "%d %zu %s\n", (int)gettid(), ranges.size(), ranges.back().c_str()), fclose(file);
    ranges.pop_back();
    return (int)ranges.size();
}
