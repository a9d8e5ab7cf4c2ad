/* An analysis as JSON, and as text within 80 columns: for each schedule the time of a step, why compute stood still, what moved, how
 * gathers went, and memory. All figures are means over steps and ranks unless they say otherwise. */
#include "engine/advise/analysis.h"
#include "engine/advise/costs.h"
#include "engine/advise/report.h"
#include "engine/base/json.h"
#include "engine/base/words.h"

/* The rank that computes longest, and by what share longer than the mean. False: one rank, or all alike within 2 %. */
static bool find_slowest(int *slowest, double *longer, const struct totals rank[], int ranks)
{
    double mean_ns = 0;
    *slowest = 0;
    for (int r = 0; r < ranks; r++) {
        mean_ns += (double)rank[r].temporal.compute_ns / ranks;
        if (rank[r].temporal.compute_ns > rank[*slowest].temporal.compute_ns) *slowest = r;
    }
    *longer = mean_ns > 0 ? (double)rank[*slowest].temporal.compute_ns / mean_ns - 1 : 0;
    return ranks > 1 && *longer > 0.02;
}

/* The parts of a step's time in the order of their size, and its critical path. */
static void add_costs(cJSON *out, const struct analysis_section *section)
{
    struct cost costs[COSTS_MAX];
    struct totals sum;
    const double parts = analysis_sum(&sum, section, -1), steps = (double)section->timed * 1e9;
    const struct critical *path = &section->critical;
    cJSON *list = cJSON_AddArrayToObject(out, "costs"), *critical = cJSON_AddObjectToObject(out, "critical_path");
    const int count = parts > 0 ? costs_of(costs, &sum, parts) : 0;
    char text[512];
    int slowest;
    double longer;
    for (int i = 0; i < count; i++)
        json_put(json_item(list), TEXT("cost", costs[i].name), NUMBER("seconds_per_step", (double)costs[i].ns / parts / 1e9),
                 TEXT("text", costs[i].text));
    if (find_slowest(&slowest, &longer, section->rank, section->ranks))
        json_put(out, NUMBER(".slowest", slowest), NUMBER(".longer", longer));
    const bool known = path->window_ns;
    if (known) critical_text(text, sizeof text, path, (double)section->timed);
    json_put(out, TEXT(".path", known ? text : ""));
    json_put(critical, NUMBER_IF("seconds_per_step", known, (double)path->window_ns / steps),
             NUMBER_IF("forward_seconds", known, (double)path->phase_ns[PHASE_FORWARD] / steps),
             NUMBER_IF("backward_seconds", known, (double)path->phase_ns[PHASE_BACKWARD] / steps),
             NUMBER_IF("optimizer_seconds", known, (double)path->phase_ns[PHASE_OPTIMIZER] / steps),
             NUMBER_IF("host_seconds", known, (double)path->host_ns / steps),
             NUMBER_IF("idle_seconds", known, (double)path->idle_ns / steps));
    cJSON *traffic = cJSON_AddObjectToObject(critical, "traffic_seconds");
    for (int kind = 0; kind < TRAFFIC_KINDS; kind++)
        if (path->traffic_ns[kind]) json_put(traffic, NUMBER(traffic_name(kind), (double)path->traffic_ns[kind] / steps));
}

/* Measured, and apart from all tiers; of the last part. For text only. */
static void add_gpus(cJSON *facts, const struct run_model *model)
{
    cJSON *list = cJSON_AddArrayToObject(facts, ".gpus");
    for (int rank = 0; rank < model->ranks; rank++) {
        const struct run_gpu *gpu = run_gpu_led_by(model, rank);
        const struct run_outside *outside = &model->rank[rank].outside;
        if (!gpu) continue;
        json_put(json_item(list), NUMBER("gpu", gpu->gpu), TEXT("name", gpu->name), NUMBER("ranks", gpu->ranks),
                 TRUTH("shared", gpu->ranks != 1), NUMBER("total", gpu->total_bytes),
                 NUMBER_IF("last", outside->known, outside->bytes), NUMBER_IF("most", outside->known, outside->most_bytes));
    }
}

/* What the page says of the trace, besides what JSON has. */
static void add_trace(cJSON *facts, const struct analysis *analysis)
{
    const struct run_model *model = analysis->model;
    const struct run_header *header = &model->header;
    const struct trace_machine *machine;
    char text[TRACE_MACHINE_TEXT_BYTES], before[160] = "";
    for (int i = 0; i + 1 < model->part_count; i++) text_append(before, sizeof before, "%d, then ", model->parts[i].ranks);
    json_put(facts, TEXT(".precision", header->precision), TEXT(".before", before), TRUTH(".parts", model->part_count > 1),
             TEXT(".program", header->program), TEXT(".recognised", header->recognised),
             TEXT(".simulated_on", header->simulated ? header->isa : ""), NUMBER(".world", header->world),
             NUMBER(".records", analysis->records), NUMBER(".seconds", (double)(model->now_ns - model->first_ns) / 1e9));
    cJSON *machines = cJSON_AddArrayToObject(facts, ".machines");
    for (int m = 0; (machine = trace_machine(&model->machines, m)); m++)
        json_put(json_item(machines), TEXT("text", trace_machine_text(text, machine)));
    add_gpus(facts, model);
}

cJSON *analysis_facts(const struct analysis *analysis)
{
    const struct run_model *model = analysis->model;
    cJSON *facts = json_object(NUMBER("version", 1), TEXT_IF("trace", analysis->path),
                               TEXT_IF("outcome", model->ended ? run_outcome_name(model->outcome) : NULL),
                               TEXT_IF("defect", analysis->defect), NUMBER("lost_records", model->lost_records));
    json_put(cJSON_AddObjectToObject(facts, "model"), TEXT_IF("name", model->header.model_name),
             NUMBER_IF("parameters", model->header.parameters >= 0, model->header.parameters));
    json_put(facts, NUMBER("ranks", model->ranks), TRUTH("sent_by_formula", model->header.sent_by_formula));
    report_hosts(facts, model);
    cJSON *list = cJSON_AddArrayToObject(facts, "sections");
    for (int i = 0; i < analysis->section_count; i++) {
        struct figures figures = {.json = json_item(list)};
        analysis_put_section(&figures, &analysis->sections[i], 0, 0);
        add_costs(figures.json, &analysis->sections[i]);
    }
    analysis_add_why(facts, analysis);
    add_trace(facts, analysis);
    return facts;
}

/* ---- the page ---- */

#define TEMPORAL                                                                                                       \
    " {window_seconds:9.3m} {compute_seconds/window_seconds:7.1%} {non_compute_seconds/window_seconds:7.1%} "          \
    "{idle_seconds/window_seconds:7.1%} {communication_seconds:9.3m} {overlap:8.1%} {exposed_seconds:10.3m}\n"
#define STALL                                                                                                          \
    "{+count}  {.letter} {cause:-12} {count:6.1} {seconds_per_step:9.3m} {seconds_per_step/mean.window_seconds:7.1%}  " \
    "{~}{.help}{/}{/}"
#define NAME                                                                                                           \
    "{?.beside}  {.beside}{/}\n{?.under}                                                {.under}\n{/}"                 \
    "{?.below}      {.below}\n{/}{#.commands}      {command}\n{/}"
#define TIER                                                                                                           \
    "\nWhy the {tier} tier is as full as it is at stage {stage}: rank {rank}, {peak_bytes:,} bytes\n"                  \
    "                   at the peak       planned  owned by\n"                                                         \
    "{#tenants}  {.letter} {category:-12} {bytes:13,} {planned_bytes:13,}  {.knob}\n"                                  \
    "{#terms}    {bytes:14,}  {~:22}{.what}{?formula} = {.formula}{/}{/}{/}{/}"                                        \
    "{?.sentence}\n  {~:2}{.sentence}{/}{/}"                                                                           \
    "\n            peak     difference    {?.device}sent a step{/}{!.device}other tiers{/}  by plan, with\n"           \
    "{#.offers}  {peak_bytes:14,} {.more_peak:14,|=} {other:14,|=}" NAME "{/}"
const char analysis_page[] =
    "{trace}: {model.name|unknown model}{?model.parameters}, {model.parameters:,} parameters{/}{?.precision}, {.precision}{/}"
    ", {.before|}{ranks} rank{ranks:s}\n"
    "{?.program}imported from {.program}; recognised: {.recognised|unknown}; bytes sent follow from each payload, as in a ring\n{/}"
    "{?.simulated_on}SIMULATED on {.simulated_on}: the first {ranks} of {.world} ranks are recorded\n{/}"
    "{.records:,} records over {.seconds:.3} s; {?defect}{defect}{/}{!defect}the run ended: {outcome}{/}\n"
    "{#.machines}{text}\n{/}{+lost_records}{lost_records:,} records were lost\n{/}"

    "{#sections}\nZeRO stage {stage}, {?.parts}{ranks} rank{ranks:s}, {/}"
    "step{?.several}s{/} {first_step}{?.several} to {last_step}{/}"
    "{+seconds_per_step}\n  {seconds_per_step:.3m} ms a step{+tokens_per_second}, {tokens_per_second} tokens/s{/}"
    "{?first_loss}, loss {first_loss:.4} to {last_loss:.4}{/}{/}\n"
    "{#knobs}  reduce bucket {reduce_bucket_size}, prefetch bucket {stage3_prefetch_bucket_size}, overlap_comm {overlap_comm}\n{/}"
    "{+skipped_steps}  {skipped_steps} made no update and are not in these figures\n{/}"
    "{?.gaps}  of {steps} steps {timed_steps} were recorded without loss: times and traffic are theirs\n{/}"

    "{?mean}\n  the largest costs of a step, mean over ranks\n"
    "{#costs:3}    {seconds_per_step:9.3m} ms {seconds_per_step/mean.window_seconds:7.1%}  {text}\n{/}"
    "{?.slowest}  rank {.slowest} computes longest, {.longer:.1%} longer than the mean\n{/}"
    "{?.path}  critical path {~}{.path}{/}{/}"

    "\n  time of a step, by HTA's definitions\n"
    "                  ms compute   other    idle  comm. ms  overlap exposed ms\n"
    "{#temporal}{?.there}  rank {rank:-3}" TEMPORAL "{/}{/}{?.many}{#mean}  mean    " TEMPORAL "{/}{/}"

    "\n  why compute stood still in a step\n                  times        ms of step\n"
    "{#stalls}{!.inside}" STALL "{/}{/}"
    "{+compute_done_seconds_per_step}    done                {compute_done_seconds_per_step:9.3m} "
    "{compute_done_seconds_per_step/mean.window_seconds:7.1%}  {~}it had no more to do, and other lanes had{/}{/}"
    "{+.rest}    the rest            {.rest:9.3m} {.rest/mean.window_seconds:7.1%}  "
    "{~}no wait recorded: from one operation to the next{/}{/}"
    "    all                 {.still:9.3m} {.still/mean.window_seconds:7.1%}  {~}of the step without compute{/}"
    "{#stalls}{?.inside}{+count}  and inside operations of every lane\n{/}" STALL "{/}{/}"

    "{?lane_stalls}\n  what lanes between tiers waited for in a step\n                               ms\n"
    "{#lane_stalls}  {lane:-7} {.letter} {cause:-15} {seconds_per_step:7.3m}  {~}{.help}{/}{/}{/}"

    "\n  bytes of a rank and step\n                   count          payload           sent        planned\n"
    "{#collectives}  {kind:-14} {count:7.1} {bytes_per_step:16,} {sent_bytes_per_step:14,} {planned_sent_bytes_per_step:14,}\n{/}"
    "{?theory_bytes_per_step}  tensors                                 {.sent_bytes:14,} {theory_bytes_per_step:14,} (paper)\n{/}"

    "\n  time of a rank and step, ms\n"
    "                      busy   exposed     peers     paced  alg MB/s  bus MB/s\n"
    "{#collectives}{+count}  {kind:-14} {seconds_per_step:9.3m} {exposed_seconds_per_step:9.3m} {peers_seconds_per_step:9.3m} "
    "{paced_seconds_per_step:9.3m} {algbw_bytes_per_second:9.1M} {busbw_bytes_per_second:9.1M}\n{/}{/}"

    "{?.io}\n  requests to NVMe of a rank and step; latencies in ms\n"
    "                     count      MB/s     depth      most   latency   slowest\n"
    "{#collectives}{#io}{?bytes_per_second}  {kind:-14} {requests_per_step:9.1} {bytes_per_second:9.1M} {queue_depth_mean:9.2} "
    "{queue_depth_max:9} {latency_mean_seconds:9.3m} {latency_max_seconds:9.3m}\n{/}{/}{/}{/}"

    "{#prefetch}{+gathers}\n  gathers for forward and backward: {gathers:.1} a step, {prefetched:.1} of them ahead of need\n"
    "    busy {seconds_per_step:.3m} ms, {hidden_share:.1%} hidden beside compute\n"
    "    compute waited for one {stalls:.1} times, {stalled_seconds_per_step:.3m} ms in all\n"
    "{+early}    {early:.1} were ready before they were needed, by {early_seconds:.3m} ms\n{/}{/}{/}{/}"

    "{#.tiers}\n  peak of the {tier} tier, bytes; planned {planned:,}\n"
    "{#ranks}  rank {rank:-4} {bytes:21,}  in step {step}\n{/}"
    "{#held}    {letter} {name:-14} {bytes:14,}  {bytes/live:7.1%}\n{/}{/}{/}"

    "{#.gpus}\nGPU {gpu}, {name}, of {ranks} rank{?shared}s that share it{/}: outside of all tiers, measured, bytes of {total:,}\n"
    "  last      {last:20,}\n  most      {most:20,}\n{/}"

    "{#why}" TIER "{/}{#why_host}" TIER "{/}{#why_nvme}" TIER "{/}"
    "{?waits}\nWhat a step waits for, and what makes another step of it\n"
    "{#waits}  {.letter} {wait:-12} {seconds_per_step:9.3m} ms {share:7.1%}  "
    "{?knob}owned by {.knob}\n                                       {/}{~:39}{.how}{/}"
    "{?changes}            peak    sent a step to other nodes  by plan, with\n{/}"
    "{#changes}  {.more_peak:14,|=} {.more_sent:14,|=} {.more_across:14,|=}" NAME "{/}{/}{/}";
