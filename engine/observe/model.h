/* The state of a run, folded from its trace record by record. Views, headless progress, reports and labs read the
 * result. No I/O, no clock, no curses: the same records always give the same state, whether they come from a live
 * engine or from a file.
 *
 *     struct run_model *model = run_model_new(&(struct run_model_options){.steps = 4096});
 *     while (source_next(source, &record) == SOURCE_RECORD) run_model_fold(model, &record);
 *     const struct run_step *step = run_last_step(model);
 *     run_model_free(model);
 *
 * Unknown values are marked: by has_* and known flags, by RUN_UNKNOWN in the header's numbers, by NULL, or as the field's comment says. */
#pragma once

#include "engine/config/command.h"
#include "engine/config/config.h"
#include "engine/plan/schedule.h"
#include "engine/trace/clocks.h"

enum {
    RUN_UNKNOWN = -1,
    RUN_RANKS_MAX = 4096,
    RUN_CURVE_POINTS = 256,
    RUN_VALIDATIONS_MAX = 64,
    RUN_FITS_MAX = 24,
    RUN_PARTS_MAX = 64
};

/* ---- what the run is: the RUN record ------------------------------------------------------------------------------ */

/* Errors of quantizing a unit, in the newest step in which it was quantized; sums over ranks. step 0: it never was. */
struct run_quantized { uint32_t step; uint64_t elems, not_finite; double largest, squares, of_squares; };

struct run_unit { char name[24]; int64_t elems; struct run_quantized quantized[2]; /* parameters, gradients */ };

struct run_header {
    bool known;
    char version[32], model_name[40], precision[8], backend[16], isa[24]; /* "": unknown */
    int64_t parameters;
    int layers, hidden, heads, context, vocabulary;
    bool has_unigram_entropy;
    double unigram_entropy; /* nats a byte of the training text */
    int ranks, ranks_per_node, threads_per_rank, micro_batch, sequence_length, accumulation_steps;
    int gpus;  /* 1: all ranks share it; more: one per rank; below 1: CPU backend, or unknown */
    bool nccl; /* NCCL connects the ranks */
    char program[40]; /* the program that the trace was imported from, "PyTorch 2.6"; "": zerolab */
    char recognised[40]; /* the method that the import recognised, "ZeRO-3 (likely)"; "": unknown, or zerolab's own run */
    bool sent_by_formula; /* bytes sent were not measured but computed from each payload, as in a ring */
    bool simulated; /* isa is the hardware; losses and norms are unknown */
    int world; /* ranks of the run; a simulated or imported trace may have only the first `ranks` */
    int missing; /* imported traces: how many of the `ranks` have no records */
    struct run_unit *units;
    int unit_count;
    char *config_json; /* the resolved configuration; NULL: unknown */
    char *given_json;  /* {"key": {"from": "file | set | auto", "value": text}}: what was given at the start; NULL: unknown */
    int *holders;      /* reference count: models that share units and texts (snapshot.h) */
};

/* A RUN record begins a part: the first, and one for each relaunch, which may have another number of ranks. The model's
 * ranks, plans and traffic are the present part's; steps, losses and notices are the whole run's. */
struct run_part {
    int number;          /* 0: the first */
    uint32_t steps_done; /* steps done before it */
    int ranks;           /* RUN_UNKNOWN */
    uint64_t begun_ns;
};

/* Pacing and slow motion now: from the configuration at the start, and every "set" since. */
struct run_pace {
    bool known;
    double slow_motion;              /* 1: real time */
    int slow_rank;                   /* -1: none */
    double device_flops;             /* 0: not paced */
    struct config_link links[LINKS]; /* bandwidth 0: not paced */
};

/* ---- what was planned: SCHEDULE, PREDICTED and THEORY records ------------------------------------------------------ */

struct run_predicted { bool known; uint64_t peak_bytes, at_peak_bytes, resting_bytes; };

/* Sums over the `ranks` ranks that reported; divide by `ranks` for the mean. busy_ns: time inside the operations, stored at a
 * kind's first link only; link_ns: time in which the link was in use (0: not recorded). */
struct run_traffic { int ranks; uint64_t count, sent_bytes, busy_ns, link_ns; };

struct run_schedule {
    uint32_t number;
    enum purpose purpose;
    int stage;
    bool has_ops;
    uint32_t lanes;                                    /* lanes that its operations use, as bits */
    struct schedule ops;                               /* valid if has_ops */
    int64_t *gathered;                                 /* by operation: parameters that are gathered when it begins; NULL: observed */
    int *holders;                                      /* how many models share ops (snapshot.h); NULL: only this one */
    struct run_predicted category[TIERS][CATEGORIES];  /* planned, the same for every rank */
    struct run_predicted tier[TIERS];                  /* the sum of all categories */
    struct run_traffic traffic[TRAFFIC_KINDS][LINKS];  /* planned: count and sent_bytes */
    uint64_t theory_bytes;                             /* sent by one rank in one step by the paper's formula; 0: unknown */
};

/* ---- who holds what: MEMORY, BUDGET, TIER_PEAK, TENANT records ----------------------------------------------------- */

struct run_memory {
    bool known;
    uint64_t live_bytes, reserved_bytes, peak_bytes;
    bool has_at_peak;
    uint64_t at_peak_bytes; /* at the instant of the tier's peak */
};

/* One tier of one rank at one instant. */
struct run_instant { bool known; uint64_t live_bytes, reserved_bytes, held_bytes[CATEGORIES + 1]; /* last: unattributed, in a history only */ };

/* Codes of categories in a trace. Memory with a code from CATEGORIES on is another program's; it is counted, and shown as unattributed. */
enum { CATEGORY_CODES = 16 };

struct run_tier {
    struct run_memory category[CATEGORY_CODES];
    struct run_instant now;       /* sums over the categories as last reported */
    struct run_instant step_peak; /* the fullest instant of the last whole step, for a steady screen */
    struct run_instant open_peak; /* the fullest instant so far of the step in progress */
    uint64_t began_bytes;         /* live when the step in progress began */
    uint64_t highest_bytes;       /* highest live bytes of `now` since the first record */
    bool has_total;               /* TIER_PEAK was seen: the allocator's own sums */
    uint64_t live_bytes, reserved_bytes, peak_bytes;
    bool has_budget;
    uint64_t budget_bytes; /* 0: no limit */
};

/* ---- where the time goes: OP_BEGIN, OP_END ------------------------------------------------------------------------- */

enum { LANE_NAME_ROOM = 24 };
struct run_lane { bool busy; uint32_t schedule, step, op; uint64_t issued_ns, started_ns; };

/* One rank in one step: busy time of its compute lane by phase, exposed communication (the compute lane was idle) in
 * sum and by kind (also copies between tiers), and the host lane's busy and exposed time. */
struct run_split { uint64_t phase_ns[PHASES], exposed_ns, exposed_by_ns[TRAFFIC_KINDS], host_ns, host_exposed_ns, io_exposed_ns; };

/* ---- between tiers: OP_END of the lanes that copy, and IO ----------------------------------------------------------- */

enum flow { FLOW_D2H, FLOW_H2D, FLOW_NVME_READ, FLOW_NVME_WRITE, FLOWS }; /* TRAFFIC_D2H ... in that order */

/* One direction of one rank: sums over operations. The fields from io_bytes on come from IO records and cover io_bytes
 * of the bytes; io_bytes 0: no IO records (a copy, or an older trace). */
struct run_flow {
    uint64_t count, bytes, busy_ns, paced_ns; /* busy_ns: from start to end, pacing included */
    uint64_t exposed_ns;                      /* no compute at the same time; known once the step has ended */
    uint64_t io_bytes, requests, io_ns, latency_ns; /* sums; the fields below are not */
    uint64_t longest_ns;
    uint32_t deepest;
    bool buffered; /* some of it went through the page cache */
};
struct run_flows {
    bool known;                                  /* every operation of `step` was seen */
    struct run_flow step[FLOWS], open[FLOWS];    /* the last whole step; the one in progress */
    struct run_flow total[FLOWS];                /* over all whole steps of the part */
    uint64_t steps;                              /* steps in `total` */
    double best_bytes_per_s[FLOWS];              /* the fastest step's rate, without pacing; 0: unknown */
    struct run_pace open_pace, pace;             /* the pace when `open` and `step` began */
};

/* ---- GPUs: GPU, OUTSIDE and SENSORS records ------------------------------------------------------------------------ */

/* The GPU that holds a rank's device tier. `ranks` ranks share it; first_rank measures it. */
struct run_gpu { bool known; int gpu, first_rank, ranks; uint64_t total_bytes; char name[64]; };
/* Bytes in use on the GPU and in no tier, as measured by first_rank. */
struct run_outside { bool known; uint64_t bytes, free_bytes, most_bytes; };
/* The GPU's sensors, as first_rank read them last; a field with all bits set is unknown. */
struct run_sensors { bool known; uint32_t power_mw, clock_mhz; uint64_t slowed_by; };

/* A rank's memory at one moment: rss and pss from the Linux kernel, live and reserved bytes from the allocator. */
enum { RUN_MARKS = 8 };
struct run_mark { uint32_t step; uint64_t rss_bytes, pss_bytes, live_bytes, reserved_bytes; };

struct run_rank {
    struct run_tier tier[TIERS];
    uint32_t peak_step; /* the step of every tier's step_peak */
    struct run_lane lane[LANES];
    struct { bool known; uint32_t pid; uint64_t rss_bytes, peak_rss_bytes; } process;
    struct run_flows flows;
    struct run_gpu gpu;
    struct run_outside outside;
    struct run_sensors sensors;
    struct run_mark mark[RUN_MARKS]; /* the first ones; the last place holds the newest */
    int marks;
    struct { /* the step in progress */
        bool begun, computed;
        uint32_t finished;               /* operations that have ended in it; kept after its end */
        bool lost;                       /* records are missing: the split is unknown, and so is memory at its fullest */
        bool unplaced;                   /* it has operations of an unknown schedule: the split is unknown */
        uint32_t step, attempt;          /* attempt > 0: retried after it ran out of memory */
        uint64_t idle_since_ns, io_since_ns; /* the compute lane's last end; io_exposed_ns is counted up to here */
        uint64_t observed_since_ns;          /* exposed_ns of another program's lanes is counted up to here */
        struct run_split split;
    } open;
};

/* ---- checkpoints: events of that kind ------------------------------------------------------------------------------ */

struct run_save {
    bool saving, failed;                        /* a checkpoint is being written; the last one that ended failed */
    char tag[64];                               /* tag of the last checkpoint event; "": none */
    char saved_tag[64];                         /* tag of the last completed one; "": none */
    char folder[1024];                          /* folder of the last one begun or completed; "": none */
    uint64_t saved_ns, saved_bytes;             /* saved_bytes: all its shards; 0: unknown */
    uint64_t failed_ns;                         /* time of the last failed one; 0: none failed */
    char lost_tag[64];                          /* tag of the last failed one, if no later step was saved; "": none */
    uint32_t lost_step;
};

/* ---- history ------------------------------------------------------------------------------------------------------- */

/* One tier on the rank where it was fullest: bytes when the step began, at the fullest instant, and by category then.
 * `known` false: no record of that tier has come, so it was never used. */
struct run_fullest { bool known; uint64_t resting_bytes, peak_bytes, at_peak_bytes[CATEGORIES]; };

struct run_step {
    uint32_t step, schedule, attempt;
    int stage;    /* RUN_UNKNOWN */
    int ranks;    /* ranks of its part */
    int ended;    /* ranks that have ended it */
    int missing;  /* ranks of which the trace has no records */
    int timed;    /* ranks in `split`, which is a sum over them; 0: unknown */
    bool skipped; /* no update was made */
    bool lost;    /* records of it are missing: timed, sent_bytes and memory are unknown */
    float loss, grad_norm, learning_rate, loss_scale;
    uint32_t tokens, micro_steps;
    uint64_t total_ns, paused_ns; /* slowest rank */
    struct run_split split;
    struct run_pace pace; /* the pace when it began */
    uint64_t *sent_bytes; /* [ranks], tensor collectives; NULL: unknown */
    struct run_fullest memory[TIERS];
};

/* A curve of the whole run in at most RUN_CURVE_POINTS points; each is the mean of `stride` steps. */
struct run_curve { int count; uint32_t stride, pending, known; double pending_sum; float value[RUN_CURVE_POINTS]; };

enum run_notice_kind { NOTICE_EVENT, NOTICE_COMMAND, NOTICE_LOG, NOTICE_VALIDATION, NOTICE_STATE, NOTICE_GAP };

struct run_notice {
    enum run_notice_kind kind;
    bool has_step;
    uint32_t step;
    uint64_t time_ns;
    int level;   /* 0 note, 1 warning, 2 error */
    char *text;  /* one line for people */
    char *json;  /* events: as recorded; else NULL */
    uint64_t lost; /* gaps: how many records are missing; consecutive gaps are one notice */
};

/* The last out-of-memory event. Keys read from its detail, all optional: rank, tier, category, op, wanted_bytes,
 * budget_bytes, text, held_bytes: {"parameters": n, ...}, knob (of the category), knobs: {"parameters": "key", ...}, reserved_bytes,
 * fits: [{"command": "stage=3", "peak_bytes": n}, ...] (what would fit, smallest change first), larger: the same for stages that
 * would not, also_ranks: [1, 2] (where a take failed too). */
struct run_shortage {
    bool known;
    uint32_t step;
    int rank, tier, category; /* RUN_UNKNOWN */
    int64_t wanted_bytes, budget_bytes, reserved_bytes;
    int64_t held_bytes[CATEGORIES];
    bool has_held, has_fits;
    char knobs[CATEGORIES][64]; /* the key that decides each category; "": unknown */
    char op[64], text[256];
    uint64_t also_ranks; /* a bit for each rank */
    int fit_count, larger_count;
    /* command: several are joined by "; ". The fit_count changes that fit come first, then larger_count that are too large */
    struct {
        char command[400];
        int64_t peak_bytes;
    } fits[RUN_FITS_MAX];
};

/* Steps and notices that a front end keeps to scroll back. At twice as many it drops the older half; curves and sums cover the whole
 * run. */
enum { RUN_STEPS_KEPT = 8192, RUN_NOTICES_KEPT = 4000 };

struct run_step;
struct run_model_options {
    int steps;   /* steps kept in full; 0: all of them */
    int notices; /* notices kept; 0: all of them */
    void (*on_step_dropped)(void *user, const struct run_step *step); /* before the model forgets it; NULL: nothing. Not of snapshots */
    void *user;
};

/* snapshot.c must copy or share everything that this struct points to. states.c stores the fields that records with the trait
 * TRACE_STANDING or TRACE_NEWS do not restore: pace, reason, ranks, and the fields from training_schedule to best_busbw and from
 * traffic_doubt on. */
struct run_model {
    struct run_model_options options;
    struct run_header header; /* of the present part */
    struct run_part parts[RUN_PARTS_MAX]; /* the last ones, oldest first; none before the header is known */
    int part_count;
    struct run_pace pace;
    char lane_name[LANES][LANE_NAME_ROOM]; /* another program's names of its first rank's lanes; "": zerolab's lanes (run_lane_name()) */
    int ranks; /* the header's number; while it is unknown, as many as records have named */
    struct run_rank *rank;
    struct trace_machines machines;

    bool has_state;
    enum run_state state;
    char reason[256];
    bool ended;
    enum outcome outcome;
    char error[512]; /* the error that came with the outcome; "": none */

    struct run_schedule *schedules;
    int schedule_count;
    uint32_t training_schedule; /* number of the schedule that trains now; see run_training() */
    bool has_training;

    struct run_step *steps; /* oldest first; the last may be in progress */
    int step_count, step_room;
    uint64_t steps_dropped; /* older ones, no longer kept */
    uint32_t steps_seen;    /* whole steps with an update, also those no longer kept */
    uint64_t tokens_seen, time_seen_ns;
    struct run_split split_total; /* sum over the part's steps and ranks whose operations were all seen */
    uint64_t split_count;         /* how many step-rank pairs it sums */
    uint32_t last_ended; /* the step that ended last on all ranks; 0: none */
    struct run_curve loss; /* NaN: steps that were not seen */
    struct run_curve number, tokens_per_s, grad_norm, learning_rate; /* over the same steps; number: the step number */

    uint32_t traffic_step;  /* the step of `traffic` */
    struct run_traffic traffic[TRAFFIC_KINDS][LINKS];       /* the last step for which any was reported */
    struct run_traffic traffic_total[TRAFFIC_KINDS][LINKS]; /* whole part */
    uint32_t traffic_steps;                                 /* steps in traffic_total */
    double best_busbw[TRAFFIC_KINDS]; /* bytes/s; the part's fastest step that all ranks reported; 0: none */

    struct run_notice *notices; /* oldest first */
    int notice_count, notice_room;
    uint64_t notices_dropped; /* older ones, no longer kept */
    struct run_shortage shortage;

    struct run_save save;
    bool diverged; /* there was a "diverged" event */
    struct {
        enum fault kind;
        int rank;
    } fault; /* the last one injected: its event; FAULT_NONE: none is in force */

    struct { bool known; uint32_t step, tokens; float loss; } validation;
    struct { uint32_t step; float loss; } validations[RUN_VALIDATIONS_MAX]; /* the last ones, oldest first */
    int validation_count;
    struct { char *text; size_t bytes; uint64_t time_ns; } lesson; /* the page of a recorded lab; text NULL: none; JSON (engine/lab/pane.h) */
    struct { uint32_t step; char *text; size_t bytes; } sample;  /* text NULL: none; may hold any byte; NUL-terminated */
    struct { bool known; uint32_t step; uint64_t hash; } state_hash;
    uint64_t lost_records;
    bool in_gap; /* records are missing from here on, until a GAP record gives their number */
    bool traffic_doubt, traffic_gap; /* records of traffic_step may be missing; of the step after it, too */

    uint64_t first_ns, now_ns; /* times of the first and the latest record; equal to 0 before the first */
    uint64_t revision;         /* grows with every record */
    char problem[200];         /* the last record that could not be parsed or kept, and why; "": none */
};

struct run_model *run_model_new(const struct run_model_options *options); /* NULL: no memory */
void run_model_free(struct run_model *model);
void run_model_fold(struct run_model *model, const struct trace_record *record);
