/* The contract of kernels/cuda/device.h: ranges, copies, streams that run ahead and meet at events, times on the host's clock, and
 * what is said when something fails. On the fake device also that its own guards work, each in a child that must die of it. */
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "kernels/scratch.h"
#include "tests/support/gpu_check.h"

static void must(int status, const struct error *err)
{
    if (status) fault("%s", err->text);
}

static void must_fail(int status, const struct error *err, const char *words)
{
    if (!status) fault("nothing failed where \"%s\" was expected", words);
    else if (!strstr(err->text, words)) fault("\"%s\" does not say \"%s\"", err->text, words);
}

/* ---- memory ------------------------------------------------------------------------------------------------------------ */

/* What goes back of these pages is said to be [first, end). */
static void give_back(struct device_range *range, uint64_t from, uint64_t to, uint64_t wanted, uint64_t first,
                      uint64_t end)
{
    struct error err;
    const uint64_t unit = device_info(range->device)->granularity;
    uint64_t back = from * unit, back_end = to * unit;
    must(device_range_return(range, &back, &back_end, wanted * unit, &err), &err);
    if (back != first * unit || back_end != end * unit)
        fault("pages %llu to %llu went back, not %llu to %llu", (unsigned long long)(back / unit),
              (unsigned long long)(back_end / unit), (unsigned long long)first, (unsigned long long)end);
}

static void ranges(struct gpu *gpu)
{
    struct device_range range;
    struct error err;
    uint64_t outside = 0, free_bytes = 0, before = 0, after = 0;
    const uint64_t unit = device_info(gpu->device)->granularity;
    must(device_range_reserve(&range, gpu->device, 7 * unit + 1, &err), &err);
    if (range.bytes != 8 * unit) fault("%llu bytes reserved", (unsigned long long)range.bytes);
    must(device_free_bytes(gpu->device, &before, &err), &err);
    must(device_range_commit(&range, unit, 3 * unit, &err), &err);
    must(device_range_commit(&range, 2 * unit, 6 * unit, &err), &err); /* a part is there already */
    if (range.committed_bytes != 5 * unit) fault("not five pages committed");
    must(device_free_bytes(gpu->device, &after, &err), &err);
    if (gpu_is_fake() && before - after != 5 * unit) fault("the device's free bytes do not follow");

    const int64_t n = (int64_t)(5 * unit);
    unsigned char *up = malloc((size_t)n), *down = malloc((size_t)n);
    for (int64_t i = 0; i < n; i++) up[i] = (unsigned char)(i * 7 + i / 1000);
    must(device_copy(gpu->stream, range.base + unit, up, (uint64_t)n, &err), &err);
    must(device_set(gpu->stream, range.base + 2 * unit, 0x5a, 100, &err), &err);
    must(device_copy(gpu->stream, range.base + 5 * unit, range.base + unit, unit, &err), &err);
    must(device_copy(gpu->stream, down, range.base + unit, (uint64_t)n, &err), &err);
    memset(up + unit, 0x5a, 100);
    memcpy(up + 4 * unit, up, unit);
    if (memcmp(up, down, (size_t)n)) fault("what came down is not what went up");
    gpu_wait(gpu);
    give_back(&range, 0, 4, 4, 1, 4);
    if (range.committed_bytes != 2 * unit) fault("not two pages left");
    must(device_outside_bytes(gpu->device, &outside, &free_bytes, &err), &err);
    if (outside == 0 || outside > device_info(gpu->device)->total_bytes)
        fault("outside: %llu bytes", (unsigned long long)outside);
    device_range_release(&range);
    free(up), free(down);
    tested("ranges: commit, copy, return");
}

/* A commit takes a piece of memory from border to border, here 16 pages, and no part of a piece goes back. */
static void pieces(struct gpu *gpu)
{
    struct device_range range;
    struct error err;
    const uint64_t unit = device_info(gpu->device)->granularity;
    const int before = gpu_is_fake() ? fake_pieces() : 0;
    must(device_range_reserve(&range, gpu->device, 1000 * unit, &err), &err);
    must(device_range_commit(&range, 10 * unit, 90 * unit, &err), &err);
    must(device_range_commit(&range, 80 * unit, 100 * unit, &err), &err);
    if (gpu_is_fake() && fake_pieces() - before != 8) fault("%d pieces", fake_pieces() - before);
    give_back(&range, 11, 40, 1, 16, 32);
    give_back(&range, 11, 85, 100, 32, 80);
    give_back(&range, 11, 96, 100, 80, 96);
    give_back(&range, 11, 16, 100, 0, 0);
    if (range.committed_bytes != 10 * unit) fault("not ten pages left");
    must(device_range_commit(&range, 0, 100 * unit, &err), &err);
    if (range.committed_bytes != 100 * unit) fault("not a hundred pages");
    unsigned char byte = 0;
    must(device_copy(gpu->stream, &byte, range.base + 50 * unit, 1, &err), &err);
    gpu_wait(gpu);
    if (gpu_is_fake() && byte != 0xff) fault("a new page is not full of NaN");
    give_back(&range, 0, 1000, 1, 0, 10); /* no more than is wanted */
    give_back(&range, 0, 1000, 1000, 10, 100);
    device_range_release(&range);

    const uint64_t border = (64 << 20) / unit; /* at the most, however large the range */
    const int large = gpu_is_fake() ? fake_pieces() : 0;
    must(device_range_reserve(&range, gpu->device, 8ull << 30, &err), &err);
    must(device_range_commit(&range, (border - 1) * unit, (border + 1) * unit, &err), &err);
    if (gpu_is_fake() && fake_pieces() - large != 2) fault("%d pieces about a border", fake_pieces() - large);
    device_range_release(&range);
    tested("pages come and go in pieces");
}

/* Memory that is mapped twice, as another process would map it: it outlives its first mapping. */
static void exported(struct gpu *gpu)
{
    struct device_range range, other;
    struct error err;
    const uint64_t unit = device_info(gpu->device)->granularity;
    uint64_t first = 0, end = 0, before = 0, after = 0, outside = 0, outside_after = 0;
    unsigned char byte = 0;
    int fd = -1;
    must(device_outside_bytes(gpu->device, &outside, &before, &err), &err);
    device_export(gpu->device);
    must(device_range_reserve(&range, gpu->device, 8 * unit, &err), &err);
    must(device_range_reserve(&other, gpu->device, 8 * unit, &err), &err);
    must(device_range_commit(&range, 2 * unit, 3 * unit, &err), &err);
    if (device_range_piece(&range, 0, &first, &end)) fault("a piece where nothing is committed");
    if (!device_range_piece(&range, 3 * unit - 1, &first, &end) || first != 2 * unit || end != 3 * unit)
        fault("not the piece that was committed");
    must(device_range_export(&range, first, &fd, &err), &err);
    must(device_range_import(&other, first, end, fd, &err), &err);
    close(fd);
    must(device_outside_bytes(gpu->device, &outside_after, &after, &err), &err);
    if (gpu_is_fake() && outside != outside_after) fault("what is mapped twice counts twice");
    must(device_set(gpu->stream, range.base + first, 0x5a, unit, &err), &err);
    gpu_wait(gpu);
    give_back(&range, 0, 8, 8, 2, 3);
    must(device_copy(gpu->stream, &byte, other.base + end - 1, 1, &err), &err);
    gpu_wait(gpu);
    if (byte != 0x5a) fault("%d in place of 0x5a", byte);
    device_range_release(&other);
    device_range_release(&range);
    must(device_free_bytes(gpu->device, &after, &err), &err);
    if (gpu_is_fake() && before != after) fault("memory was not given back");
    tested("memory for other processes is mapped by them");
}

/* All or nothing, and the rest of the device is as it was. */
static void memory_ends(struct gpu *gpu)
{
    struct device_range range;
    struct error err;
    uint64_t before = 0, after = 0;
    const uint64_t unit = device_info(gpu->device)->granularity, total = device_info(gpu->device)->total_bytes;
    must(device_range_reserve(&range, gpu->device, total + 64 * unit, &err), &err);
    must(device_range_commit(&range, 0, unit, &err), &err);
    must(device_free_bytes(gpu->device, &before, &err), &err);
    must_fail(device_range_commit(&range, 0, total / unit * unit + 2 * unit, &err), &err, "has no");
    must(device_free_bytes(gpu->device, &after, &err), &err);
    if (range.committed_bytes != unit) fault("more is committed than before");
    if (gpu_is_fake() && before != after) fault("memory was not given back");
    device_range_release(&range);
    tested("more than the device has is refused, and nothing kept");
}

static void pinned(struct gpu *gpu)
{
    enum { BYTES = 1 << 20 };
    struct device_range range;
    struct error err;
    char *host = aligned_alloc(4096, BYTES), *copy = malloc(BYTES);
    must(device_range_reserve(&range, gpu->device, BYTES, &err), &err);
    must(device_range_commit(&range, 0, range.bytes, &err), &err);
    must(device_pin(gpu->device, host, BYTES, &err), &err);
    for (int i = 0; i < BYTES; i++) host[i] = (char)i;
    memcpy(copy, host, BYTES);
    must(device_copy(gpu->stream, range.base, host, BYTES, &err), &err);
    gpu_wait(gpu);
    memset(host, 0, BYTES);
    must(device_copy(gpu->stream, host, range.base, BYTES, &err), &err);
    gpu_wait(gpu);
    if (memcmp(host, copy, BYTES)) fault("what came down is not what went up");
    must(device_unpin(gpu->device, host, &err), &err);
    must_fail(device_unpin(gpu->device, host, &err), &err, "unpinning");
    device_range_release(&range);
    free(host), free(copy);
    tested("pinned memory");
}

/* ---- streams and events ------------------------------------------------------------------------------------------------ */

/* One stream is held up; the other waits for its event, and the host does not. */
static void streams_meet(struct gpu *gpu)
{
    struct device_stream *first, *second;
    struct device_event *made, *used;
    struct device_range range;
    struct error err;
    bool happened = true;
    int value = 0;
    must(device_stream_create(&first, gpu->device, "first", &err), &err);
    must(device_stream_create(&second, gpu->device, "second", &err), &err);
    must(device_event_create(&made, gpu->device, &err), &err);
    must(device_event_create(&used, gpu->device, &err), &err);
    must(device_range_reserve(&range, gpu->device, 4096, &err), &err);
    must(device_range_commit(&range, 0, range.bytes, &err), &err);
    must(device_set(second, range.base, 0, 4, &err), &err);
    must(device_stream_wait(second, &err), &err);

    must(device_event_query(made, &happened, &err), &err);
    if (!happened) fault("an event that was never recorded is waited for");
    if (gpu_is_fake()) fake_hold_next();
    must(device_set(first, range.base, 1, 4, &err), &err);
    must(device_event_record(made, first, &err), &err);
    must(device_stream_await(second, made, &err), &err);
    must(device_set(second, range.base + 1, 2, 1, &err), &err);
    must(device_event_record(used, second, &err), &err);
    must(device_event_query(used, &happened, &err), &err);
    if (gpu_is_fake() && happened) fault("the second stream did not wait");
    if (gpu_is_fake()) fake_let_go();
    must(device_event_wait(used, &err), &err);
    must(device_copy(second, &value, range.base, 4, &err), &err);
    must(device_stream_wait(second, &err), &err);
    if (value != 0x01010201) fault("the order was another: %08x", (unsigned)value);
    device_range_release(&range);
    device_event_destroy(made), device_event_destroy(used);
    device_stream_destroy(first), device_stream_destroy(second);
    tested("streams run ahead of the host and meet at events");
}

static void times(struct gpu *gpu)
{
    struct device_event *events[3];
    struct error err;
    uint64_t at[3] = {0}, error_ns = 0;
    for (int i = 0; i < 3; i++) must(device_event_create(&events[i], gpu->device, &err), &err);
    must_fail(device_event_time(events[0], &at[0], NULL, &err), &err, "never recorded");
    const uint64_t before = clock_ns();
    for (int i = 0; i < 3; i++) must(device_event_record(events[i], gpu->stream, &err), &err);
    gpu_wait(gpu);
    const uint64_t after = clock_ns();
    for (int i = 2; i >= 0; i--) must(device_event_time(events[i], &at[i], &error_ns, &err), &err);
    const uint64_t slack = error_ns + 2000;
    for (int i = 0; i < 3; i++)
        if (at[i] + slack < before || at[i] > after + slack)
            fault("event %d was outside the host's interval by more than %llu ns", i, (unsigned long long)slack);
    if (at[0] > at[1] || at[1] > at[2]) fault("events in another order");
    uint64_t between = 0;
    must(device_event_between(events[0], events[2], &between, &err), &err);
    if (between > at[2] - at[0] + slack || between + slack < at[2] - at[0])
        fault("%llu ns between two events that are %llu apart", (unsigned long long)between,
              (unsigned long long)(at[2] - at[0]));
    for (int i = 0; i < 3; i++) device_event_destroy(events[i]);
    tested("times of events on the host's clock, to within %.1f us", (double)error_ns / 1e3);
}

struct seen {
    uint64_t before, after; /* the host's clock around it */
};

static void seen_check(struct device_event *event, const struct seen *seen, const char *when)
{
    struct error err;
    uint64_t at = 0, error_ns = 0;
    must(device_event_time(event, &at, &error_ns, &err), &err);
    if (at + error_ns < seen->before || at > seen->after + error_ns)
        fault("an event %s: %lld ns after the host saw it begin, %lld before it saw it end; %llu said to be possible",
              when, (long long)(at - seen->before), (long long)(seen->after - at), (unsigned long long)error_ns);
}

/* Over a second the two clocks drift apart by more than an event takes to be seen; what is said of an event stays true. */
static void drift(struct gpu *gpu)
{
    struct device_event *early, *now;
    struct seen first, next;
    struct error err;
    must(device_event_create(&early, gpu->device, &err), &err);
    must(device_event_create(&now, gpu->device, &err), &err);
    first.before = clock_ns();
    must(device_event_record(early, gpu->stream, &err), &err);
    gpu_wait(gpu);
    first.after = clock_ns();
    do {
        usleep(3000);
        next.before = clock_ns();
        must(device_event_record(now, gpu->stream, &err), &err);
        gpu_wait(gpu);
        next.after = clock_ns();
        seen_check(now, &next, "of now");
        seen_check(early, &first, "of the beginning");
    } while (next.after - first.before < 1200000000 && !gpu_fault[0]);
    device_event_destroy(early), device_event_destroy(now);
    tested("... while the clocks drift apart");
}

/* Many pieces of work over three streams, in an order that only events keep; with delays at random where the device can have them. */
static void relay(struct gpu *gpu)
{
    enum { STREAMS = 3, ROUNDS = 60, N = 1000 };
    struct device_stream *streams[STREAMS];
    struct kernels *kernels[STREAMS];
    struct device_event *done[STREAMS];
    struct array x, one;
    struct error err;
    array_new(gpu, &x, DTYPE_F32, N, 0);
    array_new(gpu, &one, DTYPE_F32, N, 0);
    for (int i = 0; i < N; i++) ((float *)x.initial)[i] = 0, ((float *)one.initial)[i] = 1;
    array_begin(gpu, &x), array_begin(gpu, &one);
    gpu_wait(gpu);
    if (gpu_is_fake()) fake_set_delay_us(300);
    for (int s = 0; s < STREAMS; s++) {
        must(device_stream_create(&streams[s], gpu->device, "relay", &err), &err);
        must(kernels_create_cuda(&kernels[s], gpu->device, streams[s], &err), &err);
        must(device_event_create(&done[s], gpu->device, &err), &err);
    }
    for (int r = 0; r < ROUNDS; r++) {
        if (r) must(device_stream_await(streams[r % STREAMS], done[(r - 1) % STREAMS], &err), &err);
        kernels_add(kernels[r % STREAMS], DTYPE_F32, x.device, true, DTYPE_F32, one.device, N);
        must(device_event_record(done[r % STREAMS], streams[r % STREAMS], &err), &err);
    }
    const double squares = kernels_sum_squares(kernels[(ROUNDS - 1) % STREAMS], DTYPE_F32, x.device, N);
    if (squares != (double)ROUNDS * ROUNDS * N) fault("%g, expected %g", squares, (double)ROUNDS * ROUNDS * N);
    if (gpu_is_fake()) fake_set_delay_us(0);
    for (int s = 0; s < STREAMS; s++) {
        kernels_free(kernels[s]);
        device_stream_destroy(streams[s]);
        device_event_destroy(done[s]);
    }
    array_free(&x), array_free(&one);
    tested("a relay over three streams");
}

/* ---- failures ---------------------------------------------------------------------------------------------------------- */

static void refusals(struct gpu *gpu)
{
    struct device *device;
    struct error err = {0};
    must_fail(device_open(&device, device_count(), &err), &err, "is not here");
    must_fail(
        device_reduce(gpu->stream, DTYPE_F32, DTYPE_F32, NULL, NULL, DEVICE_REDUCE_SOURCES + 1, NULL, 1, false, &err),
        &err, "sources");
    tested("what cannot be is refused");
}

/* A kernel that fails while it runs: whoever waits is told its name, and what is sent afterwards fails as well. */
static void kernel_fails(struct gpu *gpu)
{
    struct device_stream *stream;
    struct kernels *kernels;
    struct error err = {0};
    must(device_stream_create(&stream, gpu->device, "compute", &err), &err);
    must(kernels_create_cuda(&kernels, gpu->device, stream, &err), &err);
    struct array x;
    array_new(gpu, &x, DTYPE_BF16, 100, 0);
    fake_break("gelu_forward");
    kernels_gelu_forward(kernels, DTYPE_BF16, x.device, x.device, 100);
    must_fail(device_stream_wait(stream, &err), &err,
              "lane compute, waiting: CUDA says \"an illegal memory access was encountered\"; sent last: gelu_forward");
    must_fail(kernels_check(kernels, &err), &err, "gelu_forward");
    if (!isnan(kernels_sum_squares(kernels, DTYPE_BF16, x.device, 100))) fault("a sum on a broken device");
    fake_break(NULL);
    kernels_free(kernels);
    device_stream_destroy(stream);
    array_free(&x);
    tested("a kernel that fails is named to whoever waits");
}

/* What a run that has diverged multiplies must come out as NaN, with whatever sign, so that the loss scaler sees it. */
static void not_a_number(struct gpu *gpu)
{
    enum { T = 128, D = 64 };
    const struct attention_shape shape = {1, T, D, 1};
    struct array qkv, out, dqkv, lse, scratch;
    struct error err;
    array_new(gpu, &qkv, DTYPE_BF16, 3 * T * D, 0), array_new(gpu, &dqkv, DTYPE_BF16, 3 * T * D, 0);
    array_new(gpu, &out, DTYPE_BF16, T * D, 0), array_new(gpu, &lse, DTYPE_F32, T, 0);
    array_new(gpu, &scratch, DTYPE_F32, attention_backward_scratch_cuda_bytes(1, T, 1) / 4, 0);
    memset(qkv.initial, 0xff, (size_t)qkv.bytes); /* NaN with the sign that x86 gives it */
    array_begin(gpu, &qkv);
    kernels_attention_forward(gpu->kernels, DTYPE_BF16, out.device, (float *)lse.device, qkv.device, &shape, NULL);
    kernels_attention_backward(gpu->kernels, DTYPE_BF16, dqkv.device, out.device, out.device, (float *)lse.device,
                               qkv.device, &shape, scratch.device);
    must(device_stream_wait(gpu->stream, &err), &err);
    if (!isnan(kernels_sum_squares(gpu->kernels, DTYPE_BF16, dqkv.device, dqkv.n))) fault("NaN is gone");
    array_free(&qkv), array_free(&dqkv), array_free(&out), array_free(&lse), array_free(&scratch);
    tested("NaN goes through attention");
}

/* Runs in a child, whose standard error must say the words. */
static void dies(struct gpu *gpu, const char *name, void (*act)(struct gpu *gpu), const char *words)
{
    int pipes[2];
    char text[1024] = "";
    if (pipe(pipes)) return fault("no pipe");
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        struct gpu own; /* the parent's streams have no threads here */
        dup2(pipes[1], 2);
        if (!freopen("/dev/null", "w", stdout) || !gpu_open(&own)) _exit(1);
        act(&own);
        gpu_wait(&own);
        _exit(0);
    }
    (void)gpu;
    close(pipes[1]);
    for (ssize_t at = 0, n; (n = read(pipes[0], text + at, sizeof text - 1 - (size_t)at)) > 0;) at += n;
    close(pipes[0]);
    int status = 0;
    waitpid(child, &status, 0);
    if (!strstr(text, words)) fault("expected \"%s\", found \"%s\"", words, text);
    tested("the fake device notices %s", name);
}

static void touch_from_host(struct gpu *gpu)
{
    struct array x;
    array_new(gpu, &x, DTYPE_F32, 10, 0);
    *(volatile char *)x.device = 1;
}

static void read_beyond_end(struct gpu *gpu)
{
    struct array x;
    array_new(gpu, &x, DTYPE_BF16, 64, 0);
    kernels_gelu_forward(gpu->kernels, DTYPE_BF16, x.device, x.device, 72);
}

static void read_what_was_returned(struct gpu *gpu)
{
    struct array x;
    array_new(gpu, &x, DTYPE_F32, 64, 0);
    uint64_t first = 0, end = x.range.bytes;
    device_range_return(&x.range, &first, &end, end, NULL);
    kernels_sum_squares(gpu->kernels, DTYPE_F32, x.device, 64);
}

int main(void)
{
    struct gpu gpu;
    if (!gpu_open(&gpu)) return 0;
    ranges(&gpu);
    pieces(&gpu);
    memory_ends(&gpu);
    exported(&gpu);
    pinned(&gpu);
    streams_meet(&gpu);
    times(&gpu);
    drift(&gpu);
    relay(&gpu);
    refusals(&gpu);
    not_a_number(&gpu);
    if (gpu_is_fake()) {
        kernel_fails(&gpu);
        if (fake_guards_host()) dies(&gpu, "the host in its memory", touch_from_host, "the host touched");
        dies(&gpu, "a kernel beyond the end of an array", read_beyond_end,
             "gelu_forward, block (0, 0, 0), thread (8, 0, 0), touched");
        dies(&gpu, "a kernel in memory that was returned", read_what_was_returned, "sum_squares, block");
    }
    gpu_close(&gpu);
    return tests_end();
}
