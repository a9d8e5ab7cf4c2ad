/* NCCL between the fake devices, of one process or of several on one machine. What a rank passes goes through letters: files in a
 * folder that the ranks of a communicator share (in FAKE_FOLDER, else /tmp), written and read by the streams' threads, because a
 * device's own memory is all that they can touch. As there: nothing is sent before a group ends; a rank's work stands on its stream
 * until those it needs have done their part, for ever if they do not; two ranks on one device are refused; a communicator says that it
 * is in progress until all have joined, and once more when it is first used; an abort returns once all ranks that have joined abort,
 * or have parted or died; unless NCCL_P2P_DIRECT_DISABLE is 1, who sends writes into the receiver's own array, and must have been let
 * into it; sums go around a ring and are rounded at each rank. FAKE_ABORT_HANGS: an abort never returns. FAKE_NCCL=0: the library is
 * not here. */
#include "tests/support/fake_cuda/nccl.h"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/nccl.cuh"
#include "tests/support/fake_cuda/inside.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace
{

enum kind { SEND, RECEIVE, BROADCAST, GATHER, SUM, SUM_SCATTER };

struct seat {
    int pid, device;
    char bus[16], host[64];
};

struct state { /* outlives its handle: work on a stream may have begun */
    std::string folder;
    int rank = 0, ranks = 0;
    std::map<int, seat> seats; /* of those that have joined, as far as they were seen */
    std::map<std::string, int> letters; /* so many of each kind of path were written or read */
    std::atomic<bool> aborted{false};
    bool finalized = false;
};

struct call {
    fake_comm *comm;
    cudaStream_t stream;
    kind what;
    const char *from;
    char *to;
    size_t bytes; /* of a sum scatter: of each rank's part */
    int peer;
    ncclDataType_t type;
};

thread_local std::vector<call> group;
thread_local bool grouping;

std::string name(const state &mine, const char *what, int rank)
{
    return mine.folder + "/" + what + std::to_string(rank);
}

/* Nobody sees half of a file. */
void write_file(const std::string &path, const void *data, size_t bytes)
{
    std::ofstream(path + ".new", std::ios::binary).write((const char *)data, (std::streamsize)bytes);
    rename((path + ".new").c_str(), path.c_str());
}

bool read_file(const std::string &path, std::vector<char> &out)
{
    std::ifstream file(path, std::ios::binary | std::ios::ate);
    if (!file) return false;
    out.resize((size_t)file.tellg());
    file.seekg(0).read(out.data(), (std::streamsize)out.size());
    return true;
}

std::string letter(state &mine, int from, int to)
{
    const std::string way = mine.folder + "/" + std::to_string(from) + "-" + std::to_string(to) + "-";
    return way + std::to_string(mine.letters[way]++);
}

void post(state &mine, const char *data, size_t bytes, int to)
{
    write_file(letter(mine, mine.rank, to), data, bytes);
}

/* False: the rank gives up. */
bool take(state &mine, const call &c, int from, std::vector<char> &came)
{
    const std::string path = letter(mine, from, mine.rank);
    while (!read_file(path, came)) {
        if (mine.aborted) return false;
        std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    unlink(path.c_str());
    if (came.size() != c.bytes)
        fake_die("NCCL: rank %d expects %zu bytes (%d) of rank %d, which sent %zu", mine.rank, c.bytes, c.what, from,
                 came.size());
    return true;
}

bool passes_by_buffers()
{
    const char *disabled = getenv("NCCL_P2P_DIRECT_DISABLE");
    return disabled && strcmp(disabled, "1") == 0;
}

bool take_into(state &mine, const call &c, int from, char *to)
{
    std::vector<char> came;
    if (!take(mine, c, from, came)) return false;
    if (!passes_by_buffers() && mine.seats[from].pid == getpid() && !fake_may_touch(mine.seats[from].device, to))
        fake_die("NCCL: GPU %d touched an array of GPU %d, which was not mapped for it", mine.seats[from].device,
                 mine.seats[mine.rank].device);
    memcpy(to, came.data(), c.bytes);
    return true;
}

template <class T> void add(char *sum, const char *more, size_t bytes)
{
    T *to = (T *)sum;
    const T *from = (const T *)more;
    for (size_t i = 0; i < bytes / sizeof *to; i++) from_float(&to[i], to_float(to[i]) + to_float(from[i]));
}

/* Begins with the rank after this one, and ends with its own. */
bool take_sum(state &mine, const call &c, const char *own)
{
    std::vector<char> sum, came;
    for (int step = 1; step <= mine.ranks; step++) {
        const int from = (mine.rank + step) % mine.ranks;
        if (from == mine.rank) came.assign(own, own + c.bytes);
        else if (!take(mine, c, from, came)) return false;
        if (step == 1) sum = came;
        else if (c.type == ncclFloat32) add<float>(sum.data(), came.data(), c.bytes);
        else if (c.type == ncclBfloat16) add<bf16>(sum.data(), came.data(), c.bytes);
        else add<fp16>(sum.data(), came.data(), c.bytes);
    }
    memcpy(c.to, sum.data(), c.bytes);
    return true;
}

/* First all that is given, then all that is waited for: who did it in turns could lock up. */
void give(state &mine, const call &c)
{
    const int rank = mine.rank;
    char *own = c.what == GATHER ? c.to + rank * c.bytes : c.to;
    if (c.what == SEND || (c.what == SUM && c.peer != rank)) post(mine, c.from, c.bytes, c.peer);
    for (int r = 0; r < mine.ranks; r++) {
        if (r == rank) continue;
        if (c.what == GATHER || (c.what == BROADCAST && c.peer == rank)) post(mine, c.from, c.bytes, r);
        if (c.what == SUM_SCATTER) post(mine, c.from + r * c.bytes, c.bytes, r);
    }
    if ((c.what == GATHER || (c.what == BROADCAST && c.peer == rank)) && own != c.from) memmove(own, c.from, c.bytes);
}

bool receive(state &mine, const call &c)
{
    if (c.what == SUM) return c.peer != mine.rank || take_sum(mine, c, c.from);
    if (c.what == SUM_SCATTER) return take_sum(mine, c, c.from + mine.rank * c.bytes);
    if (c.what == RECEIVE || (c.what == BROADCAST && c.peer != mine.rank)) return take_into(mine, c, c.peer, c.to);
    for (int r = 0; c.what == GATHER && r < mine.ranks; r++)
        if (r != mine.rank && !take_into(mine, c, r, c.to + r * c.bytes)) return false;
    return true;
}

void run(state &mine, const std::vector<call> &calls)
{
    for (const call &c : calls) give(mine, c);
    for (const call &c : calls)
        if (!receive(mine, c)) return;
}

/* The seats of all ranks that have joined by now. */
void look(state &mine)
{
    std::vector<char> text;
    for (int r = 0; r < mine.ranks; r++)
        if (!mine.seats.count(r) && read_file(name(mine, "joined-", r), text))
            memcpy(&mine.seats[r], text.data(), sizeof(seat));
}

bool is_refused(const state &mine)
{
    for (const auto &[rank, own] : mine.seats)
        for (const auto &[other, seat] : mine.seats)
            if (rank < other && strcmp(own.bus, seat.bus) == 0 && strcmp(own.host, seat.host) == 0) return true;
    return false;
}

/* The folder is gone when the rank that made it has ended, which it does after all others have parted. */
bool has(const state &mine, const char *what, int rank)
{
    return access(name(mine, what, rank).c_str(), F_OK) == 0 || access(mine.folder.c_str(), F_OK) != 0;
}

bool have_parted(const state &mine)
{
    for (int r = 0; r < mine.ranks; r++)
        if (!has(mine, "parted-", r)) return false;
    return true;
}

/* All ranks that have joined abort, or have parted or died. */
bool is_over(state &mine)
{
    look(mine);
    for (const auto &[rank, seat] : mine.seats)
        if (!has(mine, "aborted-", rank) && !has(mine, "parted-", rank) && kill(seat.pid, 0) == 0) return false;
    return true;
}

/* Removed when the process ends that made them. */
struct folders {
    std::vector<std::string> paths;
    ~folders()
    {
        std::error_code ignored;
        for (const std::string &path : paths) std::filesystem::remove_all(path, ignored);
    }
};

} // namespace

struct fake_comm {
    std::shared_ptr<state> mine;
    bool used = false, connecting = false;
    void *buffers = nullptr; /* of its connections, which the first use makes */
    ~fake_comm() { cudaFree(buffers); }
};

ncclResult_t ncclGetVersion(int *version)
{
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result)
{
    return result == ncclInvalidUsage         ? "invalid usage"
           : result == ncclUnhandledCudaError ? "unhandled cuda error"
                                              : "no error";
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    static folders made;
    const char *folder = getenv("FAKE_FOLDER");
    memset(id, 0, sizeof *id);
    snprintf(id->internal, sizeof id->internal, "%s/fake-nccl-XXXXXX", folder ? folder : "/tmp");
    if (!mkdtemp(id->internal)) fake_die("NCCL: cannot make %s", id->internal);
    made.paths.push_back(id->internal);
    return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t *config)
{
    seat own = {getpid(), fake_device(), "", ""};
    if (config->blocking) fake_die("NCCL: a communicator that blocks cannot be given up");
    cudaDeviceGetPCIBusId(own.bus, sizeof own.bus, own.device);
    gethostname(own.host, sizeof own.host - 1);
    *comm = new fake_comm;
    (*comm)->mine = std::make_shared<state>();
    state &mine = *(*comm)->mine;
    mine.folder = id.internal;
    mine.rank = rank;
    mine.ranks = ranks;
    write_file(name(mine, "joined-", rank), &own, sizeof own);
    return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *result)
{
    state &mine = *comm->mine;
    if ((int)mine.seats.size() < mine.ranks) look(mine);
    const bool waits =
        (int)mine.seats.size() < mine.ranks || comm->connecting || (mine.finalized && !have_parted(mine));
    comm->connecting = false;
    *result = is_refused(mine) ? ncclInvalidUsage : waits ? ncclInProgress : ncclSuccess;
    return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    comm->mine->finalized = true;
    write_file(name(*comm->mine, "parted-", comm->mine->rank), "", 0);
    return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    if (!comm->mine->finalized) fake_die("NCCL: a communicator is destroyed that was not finalized");
    delete comm;
    return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    state &mine = *comm->mine;
    mine.aborted = true;
    write_file(name(mine, "aborted-", mine.rank), "", 0);
    while (!is_over(mine) || getenv("FAKE_ABORT_HANGS")) std::this_thread::sleep_for(std::chrono::microseconds(50));
    delete comm;
    return ncclSuccess;
}

ncclResult_t ncclGroupStart()
{
    grouping = true;
    group.clear();
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd()
{
    grouping = false;
    if (group.empty()) return ncclSuccess;
    const std::vector<call> calls = group;
    fake_comm *comm = calls[0].comm;
    const std::shared_ptr<state> mine = comm->mine;
    if (!fake_send(calls[0].stream, [=] { run(*mine, calls); })) return ncclUnhandledCudaError;
    comm->connecting = !comm->used;
    if (!comm->used) cudaMalloc(&comm->buffers, 1 << 20);
    comm->used = true;
    return comm->connecting ? ncclInProgress : ncclSuccess;
}

static ncclResult_t enlist(const call &c)
{
    if (!grouping) fake_die("NCCL: a call outside of a group");
    if (c.peer < 0 || c.peer >= c.comm->mine->ranks) return ncclInvalidUsage;
    if (!group.empty() && (group[0].comm != c.comm || group[0].stream != c.stream))
        fake_die("NCCL: a group of two communicators");
    group.push_back(c);
    return ncclSuccess;
}

ncclResult_t ncclSend(const void *from, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)
{
    return enlist({comm, stream, SEND, (const char *)from, nullptr, count, peer, type});
}

ncclResult_t ncclRecv(void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)
{
    return enlist({comm, stream, RECEIVE, nullptr, (char *)to, count, peer, type});
}

ncclResult_t ncclBroadcast(const void *from, void *to, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream)
{
    return enlist({comm, stream, BROADCAST, (const char *)from, (char *)to, count, root, type});
}

ncclResult_t ncclAllGather(const void *from, void *to, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream)
{
    return enlist({comm, stream, GATHER, (const char *)from, (char *)to, count, 0, type});
}

static size_t bytes_of(size_t count, ncclDataType_t type)
{
    return count * (type == ncclFloat32 ? 4 : 2);
}

ncclResult_t ncclReduce(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t, int root,
                        ncclComm_t comm, cudaStream_t stream)
{
    return enlist({comm, stream, SUM, (const char *)from, (char *)to, bytes_of(count, type), root, type});
}

ncclResult_t ncclReduceScatter(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t,
                               ncclComm_t comm, cudaStream_t stream)
{
    return enlist({comm, stream, SUM_SCATTER, (const char *)from, (char *)to, bytes_of(count, type), 0, type});
}

/* ---- in place of kernels/cuda/nccl_library.cu ------------------------------------------------------------------------------ */

int nccl_open(struct nccl *nccl, struct error *err)
{
    const char *here = getenv("FAKE_NCCL");
    if (here && strcmp(here, "0") == 0) return error_set(err, STATUS_RUN, "libnccl.so.2 cannot be opened");
    memset(nccl, 0, sizeof *nccl);
#define X(name) nccl->name = name;
    NCCL_CALLS(X)
#undef X
    return STATUS_OK;
}

void nccl_close(struct nccl *)
{
}
