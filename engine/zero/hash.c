/* A hash of the training state that does not depend on sharding: every element contributes a word mixed from its array, its number
 * in the unsharded, unpadded model and its bits, and the contributions are added (a multilinear hash). Each rank adds up its own
 * slices, then the ranks' sums are added. The sum over all that a rank holds must be that of the owners of these slices; this finds
 * replicas that have drifted apart. */
#include <stdlib.h>

#include "engine/base/rng.h"
#include "engine/zero/internal.h"
#include "kernels/kernels.h"

enum array { ARRAY_PARAMETERS, ARRAY_MASTER, ARRAY_STATE1, ARRAY_STATE2, ARRAYS };

static const enum role roles[ARRAYS] = {ROLE_PARAMETERS, ROLE_MASTER, ROLE_STATE1, ROLE_STATE2};

static uint64_t bits_of(const void *at, int bytes, int64_t i)
{
    return bytes == 2 ? ((const uint16_t *)at)[i] : ((const uint32_t *)at)[i];
}

/* A pseudo-random odd number for each element. */
static uint64_t weight_of(uint64_t number)
{
    uint64_t x = number * 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 32)) * 0xbf58476d1ce4e5b9u;
    return (x ^ (x >> 29)) | 1;
}

/* `number`: number of the first element. */
static uint64_t hash_elems(const void *at, int bytes, uint64_t number, int64_t count)
{
    uint64_t sum = 0;
    for (int64_t i = 0; i < count; i++) sum += weight_of(number + (uint64_t)i) * (2 * bits_of(at, bytes, i) + 1);
    return sum;
}

/* Elements of a unit from `first` on, which lie at `at`. */
struct elements {
    const struct unit *unit;
    enum array array;
    const void *at;
    int bytes;
    int64_t first;
    uint64_t *sum; /* changed atomically */
};

/* Hashes elements [from, to) of a piece, run by run: in a tile of an MLP, rows of a tensor are not adjacent in the whole tensor. */
static void hash_part(const void *arguments, int64_t from, int64_t to, int thread)
{
    const struct elements *p = arguments;
    const struct unit *unit = p->unit;
    const int64_t first = p->first + from, count = to - from;
    const char *at = (const char *)p->at + from * p->bytes;
    (void)thread;
    uint64_t sum = 0;
    for (int t = 0; t < unit->tensor_count; t++) {
        const struct tensor *tensor = &unit->tensors[t];
        const int64_t tensor_end = tensor->offset + tensor->elems,
                      end = first + count < tensor_end ? first + count : tensor_end;
        int64_t whole, run;
        for (int64_t e = first > tensor->offset ? first : tensor->offset; e < end; e += run) {
            run = tensor_run(tensor, e - tensor->offset, end - e, &whole);
            const uint64_t number = ((uint64_t)p->array << 56) + (uint64_t)(tensor->canonical + whole);
            sum += hash_elems(at + (e - first) * p->bytes, p->bytes, number, run);
        }
    }
    __atomic_fetch_add(p->sum, sum, __ATOMIC_RELAXED);
}

static void hash_piece(const struct zero *zero, const struct elements *piece, int64_t count)
{
    enum { SHARE_ELEMS = 16384 };
    kernels_share_out(zero_threads(zero), hash_part, piece, count, SHARE_ELEMS);
}

/* Hashes an array on NVMe or on a device, piece by piece. */
static int hash_away(const struct zero *zero, const struct buffer *buffer, enum array array, int64_t begins,
                     int64_t first, int64_t end, uint64_t *sum, struct error *err)
{
    enum { PIECE_ELEMS = 4 << 20 }; /* a copy from a GPU takes some 30 us beside its bytes */
    const int bytes = dtype_bytes(buffer->dtype);
    char *piece = malloc((size_t)PIECE_ELEMS * sizeof(float));
    int status = piece ? STATUS_OK : error_set(err, STATUS_RUN, "no memory to hash the state");
    for (; first < end && !status; first += PIECE_ELEMS) {
        const int64_t elems = end - first < PIECE_ELEMS ? end - first : PIECE_ELEMS;
        status =
            zero_array_read(zero, buffer, (uint64_t)((first - begins) * bytes), piece, (uint64_t)(elems * bytes), err);
        const struct elements read = {&zero->model.units[buffer->unit], array, piece, bytes, first, sum};
        if (!status) hash_piece(zero, &read, elems);
    }
    free(piece);
    return status;
}

/* Adds to *sum. */
static int hash_range(const struct zero *zero, const struct schedule *schedule, int b, enum array array, int64_t first,
                      int64_t end, uint64_t *sum, struct error *err)
{
    const struct buffer *buffer = &schedule->buffers[b];
    const struct unit *unit = &zero->model.units[buffer->unit];
    if (end > unit->elems) end = unit->elems;
    if (first >= end) return STATUS_OK;
    if (zero_is_away(zero, buffer)) {
        int64_t begins, ends;
        buffer_range(schedule, &zero->model, buffer, zero->rank, &begins, &ends);
        return hash_away(zero, buffer, array, begins, first, end, sum, err);
    }
    const struct elements here = {unit, array, zero_at(zero, schedule, b, first), dtype_bytes(buffer->dtype), first, sum};
    hash_piece(zero, &here, end - first);
    return STATUS_OK;
}

/* In fp32 training master weights equal the parameters, so they are not hashed again. */
static int array_of(const struct zero *zero, const struct schedule *schedule, int unit, enum array array)
{
    if (array == ARRAY_MASTER && zero->model.dtype == DTYPE_F32) return -1;
    return zero_array(schedule, unit, roles[array]);
}

/* Adds the own slice to own[array], and all that the rank holds to held[array]: often the same. */
static int hash_unit(const struct zero *zero, const struct schedule *schedule, int unit, uint64_t own[ARRAYS],
                     uint64_t held[ARRAYS], struct error *err)
{
    int64_t first, end, from, to;
    int status = STATUS_OK;
    for (int a = 0; a < ARRAYS && !status; a++) {
        const uint64_t own_before = own[a];
        int b = array_of(zero, schedule, unit, (enum array)a);
        if (b < 0) continue;
        slice_range(schedule, &zero->model, unit, zero->rank, &first, &end);
        status = hash_range(zero, schedule, b, (enum array)a, first, end, &own[a], err);
        buffer_range(schedule, &zero->model, &schedule->buffers[b], zero->rank, &from, &to);
        if (from == first && to == end) held[a] += own[a] - own_before;
        else if (!status) status = hash_range(zero, schedule, b, (enum array)a, from, to, &held[a], err);
    }
    return status;
}

int zero_state_hash(struct zero *zero, uint64_t *hash, struct error *err)
{
    const struct schedule *schedule = &zero->plan.schedules[PURPOSE_TRAIN];
    const struct optimizer_info *keeps = &optimizer_table[zero->model.optimizer];
    const char *const names[ARRAYS] = {"parameters", "master weights", keeps->state[0], keeps->state[1]};
    uint64_t own[ARRAYS] = {0}, held[ARRAYS] = {0}, all[zero->ranks][ARRAYS], sums[ARRAYS] = {0}, theirs[ARRAYS] = {0};
    bool is_whole[ARRAYS] = {0};
    int status = STATUS_OK;
    for (int u = 0; u < zero->model.unit_count && !status; u++) {
        status = hash_unit(zero, schedule, u, own, held, err);
        for (int a = 0; a < ARRAYS; a++) {
            const int b = array_of(zero, schedule, u, (enum array)a);
            is_whole[a] = b >= 0 && schedule->buffers[b].extent == EXTENT_WHOLE;
        }
    }
    if (status) return status;
    status = comm_exchange(zero->comm, own, all, sizeof own, NULL, err);
    if (status) return status;
    *hash = 0;
    for (int a = 0; a < ARRAYS; a++) {
        for (int r = 0; r < zero->ranks; r++) {
            const int shards = schedule_shard_ranks(schedule);
            sums[a] += all[r][a];
            if (is_whole[a] || r % shards == zero->rank % shards) theirs[a] += all[r][a];
        }
        *hash = rng_mix(*hash ^ sums[a]);
    }
    int32_t differs = -1, verdicts[zero->ranks];
    for (int a = ARRAYS - 1; a >= 0; a--)
        if (held[a] != theirs[a]) differs = a;
    status = comm_exchange(zero->comm, &differs, verdicts, sizeof differs, NULL, err);
    for (int r = 0; r < zero->ranks && status == STATUS_OK; r++)
        if (verdicts[r] >= 0)
            status = error_set(err, STATUS_CHECK, "rank %d's copy of the %s differs from what the owners hold", r,
                               names[verdicts[r]]);
    return status;
}
