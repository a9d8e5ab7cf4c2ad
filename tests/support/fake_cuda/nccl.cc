/* NCCL between the fake devices. What a rank passes goes through letters in host memory, taken by the streams' threads: a device's
 * own memory is all that they can touch. As there: nothing is sent before a group ends; a rank's work stands on its stream until
 * those it needs have done their part, for ever if they do not; two ranks on one device are refused; a communicator says that it is
 * in progress until all have joined, and once more when it is first used; an abort returns once all ranks that have joined abort, or
 * have parted; unless NCCL_P2P_DIRECT_DISABLE is 1, who sends writes into the receiver's own array, and must have been let into it.
 * FAKE_NCCL=0: the library is not here. */
#include "tests/support/fake_cuda/nccl.h"
#include "kernels/cuda/nccl.cuh"
#include "tests/support/fake_cuda/inside.h"

#include <stdlib.h>
#include <string.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

namespace
{

enum kind { SEND, RECEIVE, BROADCAST, GATHER };

struct letter {
    kind sent_by;
    std::vector<char> bytes;
};

/* What the ranks of one unique id share. */
struct world {
    std::mutex lock;
    std::condition_variable changed;
    int ranks = 0;
    std::map<int, int> device; /* of the ranks that have joined */
    std::set<int> parted, aborted;
    bool refused = false;                                      /* two of them are on one device */
    std::map<std::pair<int, int>, std::deque<letter>> letters; /* from, to */
};

struct state { /* outlives its handle: work on a stream may have begun */
    std::shared_ptr<world> all;
    int rank = 0;
    bool aborted = false, finalized = false;
};

struct call {
    fake_comm *comm;
    cudaStream_t stream;
    kind what;
    const char *from;
    char *to;
    size_t bytes;
    int peer;
};

std::mutex worlds_lock;
std::map<int, std::shared_ptr<world>> worlds;
int last_world;
thread_local std::vector<call> group;
thread_local bool grouping;

void post(world &all, const call &c, int from, int to)
{
    all.letters[{from, to}].push_back({c.what, std::vector<char>(c.from, c.from + c.bytes)});
    all.changed.notify_all();
}

bool passes_by_buffers()
{
    const char *disabled = getenv("NCCL_P2P_DIRECT_DISABLE");
    return disabled && strcmp(disabled, "1") == 0;
}

/* False: the rank gives up. */
bool take(std::unique_lock<std::mutex> &guard, const state &mine, const call &c, int from, char *to)
{
    world &all = *mine.all;
    auto &box = all.letters[{from, mine.rank}];
    all.changed.wait(guard, [&] { return mine.aborted || !box.empty(); });
    if (mine.aborted) return false;
    const letter &came = box.front();
    if (came.bytes.size() != c.bytes || came.sent_by != (c.what == RECEIVE ? SEND : c.what))
        fake_die("NCCL: rank %d expects %zu bytes (%d) of rank %d, which sent %zu (%d)", mine.rank, c.bytes, c.what,
                 from, came.bytes.size(), came.sent_by);
    if (!passes_by_buffers() && !fake_may_touch(all.device[from], to))
        fake_die("NCCL: GPU %d touched an array of GPU %d, which was not mapped for it", all.device[from],
                 all.device[mine.rank]);
    memcpy(to, came.bytes.data(), c.bytes);
    box.pop_front();
    return true;
}

/* First all that is given, then all that is waited for: who did it in turns could lock up. */
void give(const state &mine, const call &c)
{
    const int ranks = mine.all->ranks, rank = mine.rank;
    char *own = c.what == GATHER ? c.to + rank * c.bytes : c.to;
    if (c.what == SEND) post(*mine.all, c, rank, c.peer);
    if (c.what != GATHER && (c.what != BROADCAST || c.peer != rank)) return;
    for (int r = 0; r < ranks; r++)
        if (r != rank) post(*mine.all, c, rank, r);
    if (own != c.from) memmove(own, c.from, c.bytes);
}

bool receive(std::unique_lock<std::mutex> &guard, const state &mine, const call &c)
{
    if (c.what == RECEIVE || (c.what == BROADCAST && c.peer != mine.rank)) return take(guard, mine, c, c.peer, c.to);
    for (int r = 0; c.what == GATHER && r < mine.all->ranks; r++)
        if (r != mine.rank && !take(guard, mine, c, r, c.to + r * c.bytes)) return false;
    return true;
}

void run(const state &mine, const std::vector<call> &calls)
{
    std::unique_lock<std::mutex> guard(mine.all->lock);
    for (const call &c : calls) give(mine, c);
    for (const call &c : calls)
        if (!receive(guard, mine, c)) return;
}

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
    std::lock_guard<std::mutex> guard(worlds_lock);
    memset(id, 0, sizeof *id);
    worlds[++last_world] = std::make_shared<world>();
    memcpy(id->internal, &last_world, sizeof last_world);
    return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t *config)
{
    int number;
    memcpy(&number, id.internal, sizeof number);
    if (config->blocking) fake_die("NCCL: a communicator that blocks cannot be given up");
    std::lock_guard<std::mutex> guard(worlds_lock);
    std::shared_ptr<world> all = worlds.at(number);
    std::lock_guard<std::mutex> inside(all->lock);
    all->ranks = ranks;
    for (const auto &joined : all->device) all->refused = all->refused || joined.second == fake_device();
    all->device[rank] = fake_device();
    *comm = new fake_comm;
    (*comm)->mine = std::make_shared<state>();
    (*comm)->mine->all = all;
    (*comm)->mine->rank = rank;
    return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *result)
{
    world &all = *comm->mine->all;
    std::lock_guard<std::mutex> guard(all.lock);
    const bool waits = (int)all.device.size() < all.ranks || comm->connecting ||
                       (comm->mine->finalized && (int)all.parted.size() < all.ranks);
    comm->connecting = false;
    *result = all.refused ? ncclInvalidUsage : waits ? ncclInProgress : ncclSuccess;
    return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    world &all = *comm->mine->all;
    std::lock_guard<std::mutex> guard(all.lock);
    comm->mine->finalized = true;
    all.parted.insert(comm->mine->rank);
    all.changed.notify_all();
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
    {
        world &all = *comm->mine->all;
        std::unique_lock<std::mutex> guard(all.lock);
        comm->mine->aborted = true;
        all.aborted.insert(comm->mine->rank);
        all.changed.notify_all();
        all.changed.wait(guard, [&] {
            for (const auto &joined : all.device)
                if (!all.aborted.count(joined.first) && !all.parted.count(joined.first)) return false;
            return true;
        });
    }
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

static ncclResult_t add(const call &c)
{
    if (!grouping) fake_die("NCCL: a call outside of a group");
    if (c.peer < 0 || c.peer >= c.comm->mine->all->ranks) return ncclInvalidUsage;
    if (!group.empty() && (group[0].comm != c.comm || group[0].stream != c.stream))
        fake_die("NCCL: a group of two communicators");
    group.push_back(c);
    return ncclSuccess;
}

ncclResult_t ncclSend(const void *from, size_t count, ncclDataType_t, int peer, ncclComm_t comm, cudaStream_t stream)
{
    return add({comm, stream, SEND, (const char *)from, nullptr, count, peer});
}

ncclResult_t ncclRecv(void *to, size_t count, ncclDataType_t, int peer, ncclComm_t comm, cudaStream_t stream)
{
    return add({comm, stream, RECEIVE, nullptr, (char *)to, count, peer});
}

ncclResult_t ncclBroadcast(const void *from, void *to, size_t count, ncclDataType_t, int root, ncclComm_t comm,
                           cudaStream_t stream)
{
    return add({comm, stream, BROADCAST, (const char *)from, (char *)to, count, root});
}

ncclResult_t ncclAllGather(const void *from, void *to, size_t count, ncclDataType_t, ncclComm_t comm,
                           cudaStream_t stream)
{
    return add({comm, stream, GATHER, (const char *)from, (char *)to, count, 0});
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
