/* The hosts of a run and how many ranks each may have (its slots), read from the command line, a hostfile or Slurm's
 * environment. These functions only parse text; place.c (engine/cli) asks the system. */
#pragma once

#include "engine/base/error.h"

enum { HOSTS_MAX = 64, HOST_NAME_BYTES = 64, HOSTS_TEXT_BYTES = HOSTS_MAX * (HOST_NAME_BYTES + 8) };

struct hosts {
    int count;
    struct host { char name[HOST_NAME_BYTES]; int slots; } at[HOSTS_MAX];
};

/* All return STATUS_USAGE with what is wrong, and in which line of a hostfile. A host may occur only once. */

/* "a:2,b:2"; a host without a number has one slot. */
int hosts_parse(struct hosts *hosts, const char *list, struct error *err);

/* The text of a hostfile, in DeepSpeed's form ("a slots=4") or Open MPI's ("a slots=2 max_slots=4"); "#" begins a
 * comment. A host without slots has one. max_slots is only checked, because no host gets more ranks than slots. */
int hosts_parse_file(struct hosts *hosts, char *text, const char *path, struct error *err);

/* nodes: SLURM_JOB_NODELIST, "n[1-3,7],login". per_node: SLURM_TASKS_PER_NODE or SLURM_JOB_CPUS_PER_NODE, "2(x3),1"; NULL: one each. */
int hosts_parse_slurm(struct hosts *hosts, const char *nodes, const char *per_node, struct error *err);

int hosts_slots(const struct hosts *hosts);

/* Puts the host at `index` first; the others keep their order. */
void hosts_put_first(struct hosts *hosts, int index);

/* Writes the hosts in the form that hosts_parse() and mpirun --host read. */
void hosts_text(const struct hosts *hosts, char text[HOSTS_TEXT_BYTES]);
