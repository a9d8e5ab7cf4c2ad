/* The checks of `zerolab doctor`. A check is a row of the table in engine/cli/doctor.c and a function that tests one
 * thing. VERDICT_BAD: a run would stop; VERDICT_NOTE: a run works, but slower, with a simpler screen, or with a smaller model. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "engine/base/error.h"
#include "engine/launch/hosts.h"

enum verdict { VERDICT_GOOD, VERDICT_NOTE, VERDICT_BAD };

struct finding {
    const char *folder; /* the folder whose storage is checked; set by the caller, as are group and name */
    const char *group;
    char name[2 * HOST_NAME_BYTES + 4];
    enum verdict verdict;
    char found[256];
    char next[256]; /* the remedy; "": none */
};

typedef void doctor_look(struct finding *finding);

/* Set the finding's verdict and texts; doctor_note() and doctor_bad() also take the remedy. */
void doctor_say(struct finding *finding, enum verdict verdict, const char *next, const char *found, ...) __attribute__((format(printf, 4, 5)));
#define doctor_good(finding, ...) doctor_say(finding, VERDICT_GOOD, "", __VA_ARGS__)
#define doctor_note(finding, ...) doctor_say(finding, VERDICT_NOTE, __VA_ARGS__)
#define doctor_bad(finding, ...)  doctor_say(finding, VERDICT_BAD, __VA_ARGS__)

/* doctor_machine.c */
doctor_look look_terminal, look_locale, look_processor, look_cores, look_instructions, look_products, look_memory,
    look_locked_memory, look_huge_pages, look_shared_memory;

/* doctor_services.c */
doctor_look look_run_folder, look_mpi, look_name, look_launch, look_direct, look_aio, look_space, look_cuda, look_nccl,
    look_gpu_memory, look_gpu_link;

/* doctor_hosts.c: `zerolab doctor --hosts`. Starts a rank on each host of every pair and measures their link; pairs with the first host
 * also show version, clock and whether `folder` is shared. Returns *count findings, which the caller frees; NULL: no memory. */
struct finding *doctor_hosts(const struct hosts *hosts, const char *agent, const char *folder, int *count);
/* The work of one rank of such a pair, which mpirun started as `zerolab --worker-hello DOCTOR_LINK FOLDER`. Returns the exit status. */
#define DOCTOR_LINK "link:"
int doctor_link_process(const char *folder);

/* `zerolab doctor --storage`: measures the disk of a folder with the accesses of the NVMe tier. Takes some ten
 * seconds. progress: a terminal that shows one line with the current measurement, removed at the end; NULL: none. */
int doctor_storage(const char *folder, bool json, FILE *out, FILE *progress, struct error *err);
