/* Checks of starting ranks, storage and GPUs. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <libaio.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/comm/comm.h"
#include "engine/doctor/doctor.h"
#include "engine/launch/launch.h"
#include "engine/launch/launch_probe.h"
#include "kernels/cuda/clique.h"
#include "kernels/cuda/device.h"

/* ---- ranks ---- */

void look_run_folder(struct finding *finding)
{
    struct rundir dir;
    struct error err;
    if (rundir_create(&dir, false, &err))
        return doctor_bad(finding, "make XDG_RUNTIME_DIR or /tmp a folder that you may write to", "%.200s", err.text);
    doctor_good(finding, "%.*s", (int)(strrchr(dir.path, '/') - dir.path), dir.path);
    rundir_close(&dir, true);
}

enum { HELLO_MS = 60000 };

void look_launch(struct finding *finding)
{
    struct error err;
    double took_s;
    if (launch_probe(&launcher_local, HELLO_MS, &took_s, &err))
        return doctor_bad(finding, "ranks can also be threads: topology.ranks_as=threads", "%.200s", err.text);
    doctor_good(finding, "2 ranks said hello in %.2f s", took_s);
}

void look_mpi(struct finding *finding)
{
    enum { SLOW_S = 5 };
    struct error why;
    char version[96];
    double took_s;
    comm_mpi_version(version, sizeof version);
    if (launcher_mpirun.check(&why))
        doctor_note(finding, "only topology.ranks_as=mpirun needs it: install openmpi-bin and libopenmpi-dev and build again",
                    "%.200s", why.text);
    else if (launch_probe(&launcher_mpirun, HELLO_MS, &took_s, &why))
        doctor_note(finding, "only topology.ranks_as=mpirun needs it; mpirun -n 2 hostname must work first", "%.200s",
                    why.text);
    else if (took_s > SLOW_S)
        doctor_note(finding, "most often the host name, below", "%s; 2 ranks said hello after %.1f s", version, took_s);
    else doctor_good(finding, "%s; 2 ranks said hello in %.2f s", version, took_s);
}

/* A machine that cannot resolve its own name makes each start of mpirun wait for the resolver, ten seconds and more. */
void look_name(struct finding *finding)
{
    char name[256] = "", next[320];
    struct addrinfo *found = NULL;
    gethostname(name, sizeof name - 1);
    const uint64_t began_ns = clock_ns();
    int failed = getaddrinfo(name, NULL, NULL, &found);
    const double took_s = (double)(clock_ns() - began_ns) * 1e-9;
    if (!failed) freeaddrinfo(found);
    snprintf(next, sizeof next, "add a line \"127.0.1.1 %.200s\" to /etc/hosts: mpirun asks at every start", name);
    if (failed) doctor_note(finding, next, "%.60s is unknown (%s), after %.1f s", name, gai_strerror(failed), took_s);
    else if (took_s > 0.5) doctor_note(finding, next, "%.60s is found after %.1f s", name, took_s);
    else doctor_good(finding, "%.60s, found in %.1f ms", name, took_s * 1e3);
}

/* ---- storage ---- */

void look_space(struct finding *finding)
{
    struct statvfs place;
    if (statvfs(finding->folder, &place) != 0)
        return doctor_note(finding, "give a folder that is there, with --path", "%.180s: %s", finding->folder,
                           strerror(errno));
    const double free_gib = (double)place.f_bavail * (double)place.f_frsize / (1 << 30);
    if (access(finding->folder, W_OK) != 0)
        return doctor_note(finding, "give another with --path or TMPDIR", "%.180s cannot be written to",
                           finding->folder);
    if (free_gib >= 1) return doctor_good(finding, "%.180s, %.1f GiB free", finding->folder, free_gib);
    doctor_note(finding, "traces and checkpoints need some; another folder: --path, TMPDIR", "%.180s, %.2f GiB free",
                finding->folder, free_gib);
}

/* Writes a file of one block past the page cache and unlinks it. Returns 0 or an errno. */
static int write_direct(const char *folder)
{
    enum { BLOCK = 4096 };
    char path[4096];
    void *block = NULL;
    snprintf(path, sizeof path, "%.4000s/zerolab-doctor-XXXXXX", folder);
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0) return errno;
    unlink(path);
    int failed = fcntl(fd, F_SETFL, O_DIRECT) != 0 ? errno : 0;
    if (!failed && posix_memalign(&block, BLOCK, BLOCK) != 0) failed = ENOMEM;
    if (!failed) memset(block, 0x5a, BLOCK);
    if (!failed && pwrite(fd, block, BLOCK, 0) != BLOCK) failed = errno;
    if (!failed && pread(fd, block, BLOCK, 0) != BLOCK) failed = errno;
    free(block);
    close(fd);
    return failed;
}

void look_direct(struct finding *finding)
{
    int failed = write_direct(finding->folder);
    if (!failed) doctor_good(finding, "%.180s: written and read past the page cache", finding->folder);
    else
        doctor_note(finding, "only the NVMe tier needs it; give a folder on a disk with --path or TMPDIR", "%.180s: %s",
                    finding->folder, strerror(failed));
}

void look_aio(struct finding *finding)
{
    io_context_t context = NULL;
    int failed = -io_setup(8, &context);
    if (failed)
        return doctor_note(finding, "only the NVMe tier needs it; see /proc/sys/fs/aio-max-nr", "io_setup: %s",
                           strerror(failed));
    io_destroy(context);
    doctor_good(finding, "asynchronous I/O can be set up");
}

/* ---- GPUs: needed only by runs that ask for one ---- */

void look_cuda(struct finding *finding)
{
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    const bool device = access("/dev/nvidia0", F_OK) == 0;
    char built[96];
    const int gpus = device_count();
    if (driver) dlclose(driver);
    device_build_text(built, sizeof built);
    const bool absent = strcmp(built, "no CUDA") == 0;
    if (gpus == 1) return doctor_good(finding, "built for topology.backend=cuda: %s; 1 GPU, which ranks share", built);
    if (gpus > 1)
        return doctor_good(finding, "built for topology.backend=cuda: %s; %d GPUs: one each for up to %d ranks", built,
                           gpus, gpus);
    doctor_good(finding, "%s%s; %s, %s",
                absent ? "not built" : "built for topology.backend=cuda: ", absent ? "" : built,
                device ? "there is a GPU" : "no GPU found", driver ? "with its driver" : "no driver found");
}

void look_nccl(struct finding *finding)
{
    char built[32], here[32];
    struct error why;
    if (!clique_build_text(built, sizeof built)) doctor_good(finding, "not built");
    else if (clique_library_text(here, sizeof here, &why))
        doctor_good(finding, "built with %s; %.180s", built, why.text);
    else if (strcmp(built, here) == 0) doctor_good(finding, "built with %s, which is here", built);
    else doctor_good(finding, "built with %s; %s is here", built, here);
}

/* ---- their memory, and the bandwidth to the first one and back: measured as a lane works, one copy after another on a stream, from
 * pinned memory (as offload uses) and from pageable memory ---- */

static const uint64_t COPY_BYTES = 32u << 20;

/* The driver's own words, where it has a file with them: "535.104.05". */
static void read_driver(char version[32])
{
    char line[256] = "";
    FILE *file = fopen("/proc/driver/nvidia/version", "re");
    version[0] = '\0';
    if (!file) return;
    if (fgets(line, sizeof line, file)) {
        const char *at = strstr(line, "Module");
        if (at && sscanf(at, "Module for %*s %31s", version) != 1) sscanf(at, "Module %31s", version);
    }
    fclose(file);
}

void look_gpu_memory(struct finding *finding)
{
    struct device_info info = {0};
    struct error err;
    uint64_t free_bytes;
    char driver[32], others[48] = "";
    const int gpus = device_count();
    if (gpus == 0) return doctor_good(finding, "no GPU that this program can use");
    if (device_look(0, &info, &free_bytes, &err))
        return doctor_note(finding, "topology.backend=cpu needs none", "%.200s", err.text);
    read_driver(driver);
    if (gpus > 1) snprintf(others, sizeof others, "; %d more", gpus - 1);
    doctor_good(finding, "GPU 0: %s, compute capability %d.%d, %.2f GiB, %.2f GiB free%s%s%s", info.name, info.major,
                info.minor, (double)info.total_bytes / (1 << 30), (double)free_bytes / (1 << 30),
                *driver ? ", driver " : "", driver, others);
}

struct bench {
    struct device *device;
    struct device_stream *stream;
    struct device_range range;
    void *host;
};

static int open_bench(struct bench *bench, struct error *err)
{
    int status = device_open(&bench->device, 0, err);
    if (!status) status = device_stream_create(&bench->stream, bench->device, "doctor", err);
    if (!status) status = device_range_reserve(&bench->range, bench->device, COPY_BYTES, err);
    if (!status) status = device_range_commit(&bench->range, 0, bench->range.bytes, err);
    bench->host = aligned_alloc(2 << 20, COPY_BYTES);
    if (!status && !bench->host) status = error_set(err, STATUS_RUN, "no memory to copy from");
    if (!status) memset(bench->host, 1, COPY_BYTES);
    return status;
}

/* GB/s up and down, of the best of three copies each. */
static int measure(struct bench *bench, double rate[2], struct error *err)
{
    enum { TIMES = 3 };
    void *const ends[] = {bench->host, (void *)bench->range.base};
    int status = STATUS_OK;
    rate[0] = rate[1] = 0;
    for (int i = 0; i < 2 * TIMES && !status; i++) {
        const int down = i / TIMES;
        const uint64_t begun_ns = clock_ns();
        status = device_copy(bench->stream, ends[!down], ends[down], COPY_BYTES, err);
        if (!status) status = device_stream_wait(bench->stream, err);
        const double now = (double)COPY_BYTES / (double)(clock_ns() - begun_ns);
        if (now > rate[down]) rate[down] = now;
    }
    return status;
}

void look_gpu_link(struct finding *finding)
{
    struct bench bench = {0};
    struct error err;
    double pageable[2], pinned[2];
    if (device_count() == 0) return doctor_good(finding, "nothing to measure");
    int status = open_bench(&bench, &err);
    if (!status) status = measure(&bench, pageable, &err);
    if (!status) status = device_pin(bench.device, bench.host, COPY_BYTES, &err);
    if (!status) {
        status = measure(&bench, pinned, &err);
        device_unpin(bench.device, bench.host, NULL);
    }
    device_range_release(&bench.range);
    if (bench.stream) device_stream_destroy(bench.stream);
    if (bench.device) device_close(bench.device);
    free(bench.host);
    if (status) return doctor_note(finding, "topology.backend=cpu needs none", "%.200s", err.text);
    doctor_good(finding, "measured, GB/s up and down: %.1f and %.1f pinned, %.1f and %.1f not", pinned[0], pinned[1],
                pageable[0], pageable[1]);
}
