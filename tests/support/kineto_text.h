/* A small trace of a GPU as PyTorch's profiler writes it. */
#pragma once

#define KINETO_X(cat, name, tid, ts, dur, args)                                                                                     \
    "{\"ph\":\"X\",\"cat\":\"" cat "\",\"name\":\"" name "\",\"pid\":1,\"tid\":" #tid ",\"ts\":" #ts ",\"dur\":" #dur ",\"args\":{" args "}},"

/* A GPU: forward launched at 10 runs at 100, backward launched at 40 at 200, beside it NCCL's all-reduce. */
static const char kineto_gpu[] =
    "{\"distributedInfo\":{\"rank\":0,\"world_size\":4},\"host_name\":\"a\",\"traceEvents\":["
    KINETO_X("user_annotation", "ProfilerStep#7", 5, 0, 80, "")
    KINETO_X("cpu_op", "aten::mm", 5, 8, 20, "")
    KINETO_X("cuda_runtime", "cudaLaunchKernel", 5, 10, 2, "\"correlation\":1")
    KINETO_X("cpu_op", "autograd::engine::evaluate_function: MmBackward0", 6, 30, 40, "")
    KINETO_X("cuda_runtime", "cudaLaunchKernel", 6, 40, 2, "\"correlation\":2")
    KINETO_X("cuda_runtime", "cudaLaunchKernelExC", 6, 50, 2, "\"correlation\":3")
    KINETO_X("kernel", "void at::native::gemm<float>(int)", 7, 100, 50, "\"correlation\":1,\"stream\":7")
    KINETO_X("kernel", "sgemm_back", 7, 200, 100, "\"correlation\":2,\"stream\":7")
    KINETO_X("kernel", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 20, 250, 100,
      "\"correlation\":3,\"stream\":20,\"Collective name\":\"allreduce\",\"In msg nelems\":1000,\"Out msg nelems\":1000,"
      "\"Group size\":4,\"dtype\":\"BFloat16\",\"Process Group Name\":\"0\"")
    KINETO_X("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 7, 90, 5, "\"correlation\":9,\"stream\":7")
    "{\"ph\":\"i\",\"name\":\"[memory]\",\"cat\":\"cpu_instant_event\",\"ts\":20,\"args\":{\"Device Type\":1,\"Bytes\":512,"
    "\"Total Allocated\":4096,\"Total Reserved\":8192}},"
    "{\"ph\":\"i\",\"name\":\"[memory]\",\"ts\":21,\"args\":{\"Device Type\":0,\"Total Allocated\":99}}]}";
