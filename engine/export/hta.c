/* A file a rank, in the form that PyTorch's profiler (Kineto) writes and Holistic Trace Analysis reads. HTA knows kinds of work by
 * names: "nccl...Kernel" is communication, "Memcpy..." and "dma..." move memory, all other kernels compute. So collectives get such
 * names, though no NCCL ran. HTA counts a kernel to a step if the event that launched it lies in the step; the launch is here the moment
 * when the lane came to the operation.
 *
 * HTA rounds kernels inwards to whole microseconds. Launches and the bounds of steps are whole already, rounded outwards, so that no
 * launch ends before it begins or lies before its step. */
#include "engine/export/parts.h"

struct hta_rank {
    gzFile out;
    uint64_t launches, step_ns;
};

/* The host's lane works where PyTorch has operators of the CPU: on no stream. HTA keeps numbers of rows in a column that is only as
 * wide as the numbers of launches need. */
enum { DEVICE_PID = 0, HOST_PID = 1, FIRST_STREAM = 7, FIRST_LAUNCH = 1 << 30 };

static struct hta_rank *rank_of(struct export *export, int number)
{
    struct hta_rank *rank = export_rank(export, number);
    char text[EXPORT_TEXT], name[32];
    if (!rank || rank->launches) return rank;
    snprintf(name, sizeof name, "rank_%d.json.gz", number);
    *rank = (struct hta_rank){.out = export_open(export, name), .launches = FIRST_LAUNCH};
    put(rank->out,
        "{\"schemaVersion\": 1,\n\"distributedInfo\": {\"backend\": %s, \"rank\": %d, \"world_size\": "
        "%d},\n\"traceEvents\": [\n",
        quoted(text, export->model->header.backend), number, run_world(export->model));
    put(rank->out, "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"tid\":0,\"args\":{\"name\":\"rank %d\"}}",
        DEVICE_PID, number);
    return rank;
}

static uint64_t since(const struct export *export, uint64_t ns)
{
    return ns > export->base_ns ? ns - export->base_ns : 0;
}

/* What HTA takes the work of each kind of traffic for. */
static const char *const kernels[TRAFFIC_KINDS] = {"ncclDevKernel_AllGather",
                                                   "ncclDevKernel_ReduceScatter",
                                                   "ncclDevKernel_AllReduce",
                                                   "ncclDevKernel_Broadcast",
                                                   "ncclDevKernel_SendRecv",
                                                   "Memcpy DtoH",
                                                   "Memcpy HtoD",
                                                   "dma NVMe read",
                                                   "dma NVMe write",
                                                   "ncclDevKernel_AllReduce"};

static void put_op(struct export *export, const struct trace_record *record)
{
    struct hta_rank *rank = rank_of(export, record->rank);
    struct export_op of;
    char name[96], text[EXPORT_TEXT], label[EXPORT_TEXT], begun[EXPORT_NUMBER], took[EXPORT_NUMBER];
    if (!rank || !export_op_of(export, record, &of)) return;
    const struct trace_of_op_end *from = of.from;
    const enum lane lane = of.op->lane;
    const bool host = lane_kind(lane) == LANE_HOST, computes = lane_computes(lane);
    const enum traffic traffic = traffic_of_op(of.op->kind);
    const char *foreign = run_op_name(export->model, from->schedule, from->op),
               *what = foreign ? foreign : op_name(of.op->kind, of.op->use);
    snprintf(name, sizeof name, computes ? "%s" : "%s (%s)", computes ? what : kernels[traffic], what);
    rank->launches++;
    if (!host)
        put(rank->out,
            ",\n{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":%d,\"tid\":%d,\"ts\":"
            "%" PRIu64 ",\"dur\":0,\"args\":{\"correlation\":%" PRIu64 ",\"External id\":%" PRIu64 "}}",
            HOST_PID, lane, since(export, from->issued_ns ? from->issued_ns : from->started_ns) / 1000, rank->launches,
            rank->launches);
    put(rank->out, ",\n{\"ph\":\"X\",\"cat\":\"%s\",\"name\":%s,\"pid\":%d,\"tid\":%d,\"ts\":%s,\"dur\":%s",
        host                                    ? "cpu_op"
        : !computes && traffic_is_copy(traffic) ? "gpu_memcpy"
                                                : "kernel",
        quoted(label, name), host ? HOST_PID : DEVICE_PID, host ? (int)lane : FIRST_STREAM + (int)lane,
        in_us(begun, 0, since(export, from->started_ns)), in_us(took, from->started_ns, of.ended_ns));
    put(rank->out, ",\"args\":{\"External id\":%" PRIu64 ",\"step\":%u,\"unit\":%s,\"bytes\":%" PRId64, rank->launches,
        from->step, quoted(text, run_unit_name(export->model, of.op->unit)), of.op->bytes);
    if (!host)
        put(rank->out, ",\"device\":%d,\"stream\":%d,\"correlation\":%" PRIu64, DEVICE_PID, FIRST_STREAM + (int)lane,
            rank->launches);
    put(rank->out, "}}");
}

static void put_step(struct export *export, struct hta_rank *rank, const struct trace_record *record)
{
    const uint64_t from_us = since(export, rank->step_ns) / 1000, to_us = (since(export, record->time_ns) + 999) / 1000;
    if (rank->step_ns)
        put(rank->out,
            ",\n{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#%u\",\"pid\":%d,\"tid\":%d,\"ts\":"
            "%" PRIu64 ",\"dur\":%" PRIu64 ",\"args\":{\"External id\":0}}",
            record->step_end.step, HOST_PID, LANES, from_us, to_us - from_us);
    rank->step_ns = 0;
}

static void put_record(struct export *export, const struct trace_record *record)
{
    const bool begins = record->kind == TRACE_STEP_BEGIN, ends = record->kind == TRACE_STEP_END;
    struct hta_rank *rank = begins || ends ? rank_of(export, record->rank) : NULL;
    if (record->kind == TRACE_OP_END) put_op(export, record);
    else if (rank && begins) rank->step_ns = record->time_ns;
    else if (rank) put_step(export, rank, record);
}

static void end(struct export *export)
{
    for (int number = 0; number < export->rank_count; number++)
        if (export->ranks[number]) put(((struct hta_rank *)export->ranks[number])->out, "\n]}\n");
}

const struct export_format export_hta = {
    .folder = true, .per_rank = true, .rank_bytes = sizeof(struct hta_rank), .put = put_record, .end = end};
