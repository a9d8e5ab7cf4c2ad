/* Checks of the machine itself: terminal, processor, memory. */
#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/grouped.h"
#include "engine/doctor/doctor.h"
#include "engine/launch/capacity.h"
#include "kernels/kernels.h"
#include "tui/term/painter.h"

/* The first line of a file that begins with `key`, without the key and the newline; false: there is none. */
static bool read_line(const char *path, const char *key, char *out, size_t room)
{
    char line[512];
    bool found = false;
    FILE *file = fopen(path, "re");
    while (file && !found && fgets(line, sizeof line, file)) found = strncmp(line, key, strlen(key)) == 0;
    if (file) fclose(file);
    if (!found) return false;
    const char *value = line + strlen(key);
    value += strspn(value, " \t:");
    snprintf(out, room, "%.*s", (int)strcspn(value, "\n"), value);
    return true;
}

/* ---- terminal ---- */

void look_terminal(struct finding *finding)
{
    const char *term = getenv("TERM");
    struct winsize size = {0};
    int colours = terminfo_colours();
    if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0)
        return doctor_note(finding, "the live view needs a terminal; --headless does not", "not a terminal");
    if (!term || !*term || strcmp(term, "dumb") == 0 || colours < 0)
        return doctor_note(finding, "export TERM=xterm-256color, or use --headless", "TERM=%s is %s", term ? term : "",
                           colours < 0 ? "not known here" : "too simple for a screen");
    if (size.ws_col < 80 || size.ws_row < 24)
        return doctor_note(finding, "make it at least 80x24", "%s, %dx%d, %d colours", term, size.ws_col, size.ws_row,
                           colours);
    if (colours < 8 || getenv("NO_COLOR"))
        return doctor_good(finding, "%s, %dx%d, without colours%s", term, size.ws_col, size.ws_row,
                           getenv("NO_COLOR") ? " (NO_COLOR is set)" : "");
    doctor_good(finding, "%s, %dx%d, %d colours", term, size.ws_col, size.ws_row, colours);
}

void look_locale(struct finding *finding)
{
    const char *codeset = nl_langinfo(CODESET);
    if (strcmp(codeset, "UTF-8") == 0) return doctor_good(finding, "UTF-8");
    doctor_note(finding, "export LC_ALL=C.UTF-8 for finer drawing", "%s, so screens are drawn in ASCII", codeset);
}

/* ---- processor ---- */

void look_processor(struct finding *finding)
{
    char name[160];
    if (read_line("/proc/cpuinfo", "model name", name, sizeof name)) doctor_good(finding, "%s", name);
    else doctor_good(finding, "of unknown name");
}

/* The container's limit of processor time, in cores; 0: no limit. */
static double cgroup_cores(void)
{
    char line[64];
    double quota, period;
    if (!read_line("/sys/fs/cgroup/cpu.max", "", line, sizeof line)) return 0;
    return sscanf(line, "%lf %lf", &quota, &period) == 2 && period > 0 ? quota / period : 0;
}

void look_cores(struct finding *finding)
{
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    cpu_set_t set;
    const int usable = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : -1;
    const double quota = cgroup_cores();
    char limit[64] = "", affinity[64] = "";
    if (quota > 0) snprintf(limit, sizeof limit, ", %.1f of them by the container's quota", quota);
    if (usable > 0 && usable < online) snprintf(affinity, sizeof affinity, ", %d of them for this process", usable);
    double cores = usable > 0 ? usable : (double)online;
    if (quota > 0 && quota < cores) cores = quota;
    if (cores >= 4) return doctor_good(finding, "%ld%s%s", online, affinity, limit);
    doctor_note(finding, "four ranks share them and take turns: all is correct, and slower", "%ld%s%s", online,
                affinity, limit);
}

void look_instructions(struct finding *finding)
{
    const char *isa = kernels_widest_isa();
    if (strcmp(isa, "plain") == 0)
        doctor_note(finding, "kernels are plain C here: all is correct, and slower", "neither AVX2 nor AVX-512");
    else doctor_good(finding, "kernels use %s", strcmp(isa, "avx512") == 0 ? "AVX-512" : "AVX2, FMA and F16C");
}

void look_products(struct finding *finding)
{
    struct kernels *kernels;
    struct error err;
    char library[32];
    kernels_product_library(library, sizeof library);
    if (kernels_create(&kernels, 1, NULL, &err))
        return doctor_bad(finding, "install libdnnl-dev and build again", "%s cannot be used: %.120s", library,
                          err.text);
    bool bf16 = kernels_native_products(kernels, DTYPE_BF16), fast = bf16 && __builtin_cpu_supports("avx512bf16");
    kernels_free(kernels);
    doctor_good(finding, "%s, bf16 products %s", library,
                fast   ? "by AVX512-BF16"
                : bf16 ? "emulated by oneDNN, slower than fp32"
                       : "run in fp32");
}

/* ---- memory ---- */

void look_memory(struct finding *finding)
{
    char line[64];
    uint64_t total_kib = 0, available = capacity_available_bytes();
    if (read_line("/proc/meminfo", "MemTotal", line, sizeof line)) total_kib = strtoull(line, NULL, 10);
    if (available < (64u << 20))
        return doctor_bad(finding, "end what holds it; the default run needs some 200 MiB", "%.2f GiB, %.2f GiB free",
                          gib(total_kib * 1024), gib(available));
    if (available < (1u << 30))
        return doctor_note(finding, "enough for nano; `zerolab plan` says what others need", "%.2f GiB, %.2f GiB free",
                           gib(total_kib * 1024), gib(available));
    doctor_good(finding, "%.2f GiB, %.2f GiB free", gib(total_kib * 1024), gib(available));
}

void look_locked_memory(struct finding *finding)
{
    struct rlimit limit;
    if (geteuid() == 0) return doctor_good(finding, "no limit for root");
    if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return doctor_good(finding, "no limit");
    doctor_note(finding, "ulimit -l unlimited, for offload with pin_memory: what is over the limit is not pinned",
                "limit %.2f MiB (ulimit -l)", (double)limit.rlim_cur / (1 << 20));
}

void look_huge_pages(struct finding *finding)
{
    char modes[128] = "", reserved[32] = "0";
    read_line("/proc/sys/vm/nr_hugepages", "", reserved, sizeof reserved);
    if (!read_line("/sys/kernel/mm/transparent_hugepage/enabled", "", modes, sizeof modes))
        return doctor_good(finding, "none for this kernel; not needed");
    const char *chosen = strchr(modes, '[');
    int length = chosen ? (int)strcspn(chosen + 1, "]") : 0;
    doctor_good(finding, "transparent: %.*s; reserved: %s", length, chosen ? chosen + 1 : "", reserved);
}

/* Ranks open each other's memory as /proc/PID/fd/N; here a child opens this process's memory so. */
static int open_from_child(int fd)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)getpid(), fd);
    pid_t child = fork();
    if (child == 0) {
        int theirs = open(path, O_RDWR | O_CLOEXEC);
        _exit(theirs < 0 ? errno & 255 : 0);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) return errno;
    return WIFEXITED(status) ? WEXITSTATUS(status) : EFAULT;
}

void look_shared_memory(struct finding *finding)
{
    struct statvfs shm;
    char room[64] = "no /dev/shm, which is not needed";
    if (statvfs("/dev/shm", &shm) == 0)
        snprintf(room, sizeof room, "/dev/shm has %.2f GiB free, not needed",
                 gib((uint64_t)shm.f_bavail * shm.f_frsize));
    int fd = memfd_create("zerolab-doctor", MFD_CLOEXEC);
    int failed = fd < 0 || ftruncate(fd, 4096) != 0 ? errno : open_from_child(fd);
    if (fd >= 0) close(fd);
    if (!failed) return doctor_good(finding, "memfd, opened by others as /proc/PID/fd/N; %s", room);
    doctor_bad(finding, "let processes of one user open each other's /proc/PID/fd, or set topology.ranks_as=threads",
               "memfd through /proc/PID/fd: %s", strerror(failed));
}
