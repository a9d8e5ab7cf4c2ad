/* Checks of several hosts, pair by pair: two ranks that mpirun starts meet, compare clocks and a folder, and move data as
 * collectives of a run do. Rank 0 prints one line of figures, which the front end turns into findings. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "engine/base/clock.h"
#include "engine/base/order.h"
#include "engine/base/version.h"
#include "engine/comm/comm.h"
#include "engine/doctor/doctor.h"
#include "engine/launch/launch_probe.h"
#include "engine/launch/launcher.h"
#include "engine/memory/memory.h"
#include "engine/trace/clocks.h"

#define FIGURES "link: "

struct figures {
    double latency_us;          /* until both ranks have each other's message, median */
    double gigabytes_per_s;     /* each way, both at once, the best of some */
    double ahead_us, within_us; /* rank 1's wall clock against rank 0's, and how well that is known */
    int shared;                 /* rank 1 sees a file that rank 0 has made in the folder */
};

/* ---- the ranks ---- */

enum { ROUNDS = 51, MOVES = 5, MOVE_BYTES = 8 << 20 };

/* Rank 1 reads its clock after it has rank 0's message of the round before, and before rank 0 has its message of this one: that is a
 * ping from rank 0's reading in the round before to its reading after this one. */
static int measure_messages(struct comm *comm, struct figures *figures, struct error *err)
{
    uint64_t took_ns[ROUNDS], before_ns = 0;
    struct clock_ping ping[ROUNDS];
    struct clock_offset offset = {0};
    for (int i = 0; i < ROUNDS; i++) {
        const uint64_t mine_ns = clock_read_ns(CLOCK_REALTIME), began_ns = clock_ns();
        uint64_t both_ns[2];
        const int status = comm_exchange(comm, &mine_ns, both_ns, sizeof mine_ns, NULL, err);
        if (status) return status;
        took_ns[i] = clock_ns() - began_ns;
        ping[i] = (struct clock_ping){before_ns, both_ns[1], both_ns[1], clock_read_ns(CLOCK_REALTIME)};
        before_ns = mine_ns;
    }
    clock_offset_measure(&offset, ping + 1, ROUNDS - 1);
    figures->ahead_us = (double)offset.ns * 1e-3;
    figures->within_us = (double)offset.within_ns * 1e-3;
    qsort(took_ns, ROUNDS, sizeof *took_ns, ascending_u64);
    figures->latency_us = (double)took_ns[ROUNDS / 2] * 1e-3;
    return STATUS_OK;
}

static int measure_moves(struct comm *comm, struct figures *figures, struct error *err)
{
    struct memory *memory;
    struct memory_ranges addresses = {0};
    struct comm_stat stat;
    addresses.bytes[TIER_DEVICE][CATEGORY_PARAMETERS] = addresses.bytes[TIER_DEVICE][CATEGORY_GATHERED] = 2 * MOVE_BYTES;
    int status = memory_create(&memory, &addresses, (uint64_t[TIERS]){0}, NULL, err);
    if (status) return status;
    status = memory_take(memory, TIER_DEVICE, CATEGORY_PARAMETERS, 0, 2 * MOVE_BYTES, err);
    if (!status) status = memory_take(memory, TIER_DEVICE, CATEGORY_GATHERED, 0, 2 * MOVE_BYTES, err);
    if (!status) status = comm_attach(comm, memory, err);
    struct comm_range ranges[2];
    for (int r = 0; r < 2 && !status; r++)
        ranges[r] = (struct comm_range){
            .owner = r,
            .elems = MOVE_BYTES / 4,
            .source = memory_symmetric(memory)->offset[CATEGORY_PARAMETERS] + (uint64_t)r * MOVE_BYTES,
            .destination = (char *)memory_at(memory, TIER_DEVICE, CATEGORY_GATHERED, 0) + (size_t)r * MOVE_BYTES};
    for (int i = 0; i < MOVES && !status; i++) {
        const uint64_t began_ns = clock_ns();
        status = comm_all_gather(comm, DTYPE_F32, ranges, 2, true, &stat, err);
        const double rate = MOVE_BYTES / (double)(clock_ns() - began_ns);
        if (rate > figures->gigabytes_per_s) figures->gigabytes_per_s = rate;
    }
    comm_close(comm); /* before its memory is freed */
    memory_destroy(memory);
    return status;
}

int doctor_link_process(const char *folder)
{
    struct figures figures = {0};
    struct error err;
    struct comm *comm;
    char sees[2];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int status = comm_open_mpi(&comm, 0, &err);
    const bool first = !status && comm_layout(comm)->rank == 0;
    if (!status && comm_layout(comm)->ranks != 2) status = error_set(&err, STATUS_RUN, "MPI has not started two ranks");
    if (!status) status = launch_probe_folder(comm, folder, sees, &err);
    if (!status) status = measure_messages(comm, &figures, &err);
    if (!status) status = measure_moves(comm, &figures, &err);
    if (status) fprintf(stderr, "zerolab: %s\n", err.text);
    else if (first)
        printf(FIGURES "%.9g %.9g %.9g %.9g %d\n", figures.latency_us, figures.gigabytes_per_s, figures.ahead_us,
               figures.within_us, sees[0] && sees[1]);
    return status;
}

/* ---- the front end ---- */

static struct finding *add(struct finding *findings, int *count, const char *format, const char *host,
                           const char *other)
{
    struct finding *finding = &findings[(*count)++];
    finding->group = "hosts";
    snprintf(finding->name, sizeof finding->name, format, host, other);
    return finding;
}

static int measure_pair(const struct host *a, const struct host *b, const char *agent, const char *folder,
                        struct figures *figures, struct error *err)
{
    enum { PATIENCE_MS = 60000 };
    char hosts[2 * HOST_NAME_BYTES + 2], hello[4096], *text;
    snprintf(hosts, sizeof hosts, "%s,%s", a->name, b->name);
    snprintf(hello, sizeof hello, DOCTOR_LINK "%.4000s", folder);
    const struct launch_trial trial = {&launcher_mpirun, 2, hello, hosts, agent, PATIENCE_MS};
    int status = launch_try(&trial, &text, err);
    const char *line = status || !text ? NULL : strstr(text, FIGURES);
    if (!status && (!line || sscanf(line, FIGURES "%lf %lf %lf %lf %d", &figures->latency_us, &figures->gigabytes_per_s,
                                    &figures->ahead_us, &figures->within_us, &figures->shared) != 5))
        status = error_set(err, STATUS_RUN, "two ranks met, but gave no figures");
    free(text);
    return status;
}

static void tell_host(struct finding *findings, int *count, const char *host, const char *first, const char *folder,
                      const struct figures *figures)
{
    enum { FAR_US = 1000000 };
    doctor_good(add(findings, count, "%s", host, ""), "zerolab " ZEROLAB_VERSION ", as on %s", first);
    struct finding *clock = add(findings, count, "clock %s", host, ""),
                   *shared = add(findings, count, "folder %s", host, "");
    const double off_us = figures->ahead_us < 0 ? -figures->ahead_us : figures->ahead_us;
    doctor_say(clock, off_us > FAR_US ? VERDICT_NOTE : VERDICT_GOOD,
               off_us > FAR_US ? "set it by NTP; times of files and logs differ" : "", "%.3f ms %s %s, within %.3f ms",
               off_us * 1e-3, figures->ahead_us < 0 ? "behind" : "ahead of", first, figures->within_us * 1e-3);
    if (figures->shared) doctor_good(shared, "%.150s is one folder with %s's", folder, first);
    else
        doctor_note(shared, "checkpoints need a folder that all hosts share; name it with --path",
                    "%.150s is not that of %s", folder, first);
}

struct finding *doctor_hosts(const struct hosts *hosts, const char *agent, const char *folder, int *count)
{
    const int most = hosts->count * (hosts->count - 1) / 2 + 3 * hosts->count;
    struct finding *findings = calloc((size_t)most, sizeof *findings);
    *count = 0;
    for (int a = 0; findings && a < hosts->count; a++)
        for (int b = a + 1; b < hosts->count; b++) {
            struct figures figures = {0};
            struct error err;
            const struct host *first = &hosts->at[a], *other = &hosts->at[b];
            const int failed = measure_pair(first, other, agent, folder, &figures, &err);
            if (!failed && a == 0) tell_host(findings, count, other->name, first->name, folder, &figures);
            struct finding *link = add(findings, count, "%s, %s", first->name, other->name);
            if (failed) doctor_bad(link, "a run on these hosts would fail likewise", "%.250s", err.text);
            else
                doctor_good(link, "%.0f us until both have a message, %.2f GB/s each way", figures.latency_us,
                            figures.gigabytes_per_s);
        }
    return findings;
}
