/* A file a rank, in the form that PyTorch's profiler (Kineto) writes and Holistic Trace Analysis reads. HTA knows kinds of work by
 * names: "nccl...Kernel" is communication, "Memcpy..." and "dma..." move memory, all other kernels compute. So collectives get such
 * names, though no NCCL ran. HTA counts a kernel to a step if the event that launched it lies in the step; the launch is here the moment
 * when the lane came to the operation.
 *
 * HTA rounds kernels inwards to whole microseconds. What is an instant, and the bounds of steps, are rounded outwards here, so that
 * no instant ends before it begins and no launch lies before its step. */
#include <inttypes.h>
#include <string.h>

#include "engine/export/parts.h"

struct hta_rank {
    FILE *out;
    uint64_t launches, step_ns;
};

/* The host's lane works where PyTorch has operators of the CPU: no stream. */
/* HTA keeps numbers of rows in a column that is only as wide as the numbers of launches need. */
enum { HOST_PID = 1, DEVICE_PID = 0, FIRST_STREAM = 7, FIRST_LAUNCH = 1 << 30 };

static void open_rank(struct export *export, struct hta_rank *rank, int number)
{
    const char *backend = export->model->header.backend;
    char name[32];
    snprintf(name, sizeof name, "rank_%d.json.gz", number);
    rank->launches = FIRST_LAUNCH;
    rank->out = export_open(export, name, true);
    fprintf(rank->out, "{\"schemaVersion\": 1,\n\"distributedInfo\": {\"backend\": ");
    put_json_text(rank->out, backend, strlen(backend));
    fprintf(rank->out, ", \"rank\": %d, \"world_size\": %d},\n\"traceEvents\": [\n", number, run_world(export->model));
    fprintf(rank->out, "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"tid\":0,\"args\":{\"name\":\"rank %d\"}}",
            DEVICE_PID, number);
}

static struct hta_rank *rank_of(struct export *export, int number)
{
    struct hta_rank *rank = export_rank(export, number);
    if (rank && !rank->out) open_rank(export, rank, number);
    return rank;
}

static uint64_t since(const struct export *export, uint64_t ns)
{
    return ns > export->base_ns ? ns - export->base_ns : 0;
}

static void put_kernel_name(FILE *out, const struct op *op)
{
    static const char *const kinds[TRAFFIC_KINDS] = {"ncclDevKernel_AllGather",
                                                     "ncclDevKernel_ReduceScatter",
                                                     "ncclDevKernel_AllReduce",
                                                     "ncclDevKernel_Broadcast",
                                                     "ncclDevKernel_SendRecv",
                                                     "Memcpy DtoH",
                                                     "Memcpy HtoD",
                                                     "dma NVMe read",
                                                     "dma NVMe write",
                                                     "ncclDevKernel_AllReduce"};
    const char *name = op_name(op->kind, op->use);
    if (lane_computes(op->lane)) fprintf(out, "\"name\":\"%s\"", name);
    else fprintf(out, "\"name\":\"%s (%s)\"", kinds[traffic_of_op(op->kind)], name);
}

static void put_launch(struct export *export, struct hta_rank *rank, const struct export_op *of)
{
    const uint64_t issued_ns = of->from->issued_ns ? of->from->issued_ns : of->from->started_ns;
    fprintf(
        rank->out,
        ",\n{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":%d,\"tid\":%d,\"ts\":%" PRIu64
        ",\"dur\":0,\"args\":{\"correlation\":%" PRIu64 ",\"External id\":%" PRIu64 "}}",
        HOST_PID, of->op->lane, since(export, issued_ns) / 1000, rank->launches, rank->launches);
}

static void put_work(struct export *export, struct hta_rank *rank, const struct export_op *of)
{
    const struct op *op = of->op;
    const bool host = op->lane == LANE_HOST;
    const char *unit = export_unit(export->model, op->unit);
    FILE *out = rank->out;
    fprintf(out, ",\n{\"ph\":\"X\",\"cat\":\"%s\",",
            host                                       ? "cpu_op"
            : traffic_is_copy(traffic_of_op(op->kind)) ? "gpu_memcpy"
                                                       : "kernel");
    put_kernel_name(out, op);
    fprintf(out, ",\"pid\":%d,\"tid\":%d,\"ts\":", host ? HOST_PID : DEVICE_PID,
            host ? op->lane : FIRST_STREAM + op->lane);
    put_us(out, since(export, of->from->started_ns));
    fputs(",\"dur\":", out);
    put_us(out, of->ended_ns - of->from->started_ns);
    fprintf(out, ",\"args\":{\"External id\":%" PRIu64 ",\"step\":%u", rank->launches, of->from->step);
    if (!host) fprintf(out, ",\"stream\":%d,\"correlation\":%" PRIu64, FIRST_STREAM + op->lane, rank->launches);
    if (!host) fprintf(out, ",\"device\":%d,\"bytes\":%" PRId64, DEVICE_PID, op->bytes);
    if (unit) fputs(",\"unit\":", out), put_json_text(out, unit, strlen(unit));
    fputs("}}", out);
}

static void put_op(struct export *export, const struct trace_record *record)
{
    struct hta_rank *rank = rank_of(export, record->rank);
    struct export_op of;
    if (!rank || !export_op_of(export, record, &of)) return;
    rank->launches++;
    if (of.op->lane != LANE_HOST) put_launch(export, rank, &of);
    put_work(export, rank, &of);
}

static void put_step(struct export *export, const struct trace_record *record)
{
    struct hta_rank *rank = rank_of(export, record->rank);
    if (!rank || !rank->step_ns) return;
    const uint64_t from_us = since(export, rank->step_ns) / 1000, to_us = (since(export, record->time_ns) + 999) / 1000;
    fprintf(rank->out,
            ",\n{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#%u\",\"pid\":%d,\"tid\":%d,\"ts\":"
            "%" PRIu64 ",\"dur\":%" PRIu64 ",\"args\":{\"External id\":0}}",
            record->step_end.step, HOST_PID, LANES, from_us, to_us - from_us);
    rank->step_ns = 0;
}

static void put(struct export *export, const struct trace_record *record)
{
    struct hta_rank *rank;
    switch ((unsigned)record->kind) {
    case TRACE_OP_END: put_op(export, record); break;
    case TRACE_STEP_BEGIN:
        if ((rank = rank_of(export, record->rank))) rank->step_ns = record->time_ns;
        break;
    case TRACE_STEP_END: put_step(export, record); break;
    }
}

static void end(struct export *export)
{
    for (int rank = 0; rank < export->rank_room; rank++) {
        const struct hta_rank *of = export->ranks[rank];
        if (of && of->out) fputs("\n]}\n", of->out);
    }
}

const struct export_format export_hta = {
    .folder = true, .per_rank = true, .rank_bytes = sizeof(struct hta_rank), .put = put, .end = end};
