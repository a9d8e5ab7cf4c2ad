/* What trains in a job, from its collectives: a guess with its evidence. Several schemes send the same: then both are named. */
#pragma once

#include "engine/import/job.h"

enum { EVIDENCE_MAX = 10, EVIDENCE_ROOM = 160 };

struct recognised {
    char what[40]; /* "ZeRO-3 (likely)", "DDP", "unknown" */
    char evidence[EVIDENCE_MAX][EVIDENCE_ROOM];
    int count;
};

/* Words that only one program writes into its traces, as bits of job.signs. */
enum job_sign { SIGN_DDP = 1, SIGN_FSDP1 = 2, SIGN_FSDP2 = 4, SIGN_DEEPSPEED_3 = 8 };
unsigned sign_of(const char *name); /* 0: none */

/* Of rank 0's whole steps (or of the first rank that is there). Copies `what` into the job. */
void job_recognise(struct job *job, struct recognised *out);
