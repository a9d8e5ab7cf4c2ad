/* The front end's own feed under a run of thousands of steps a second: it reads on while records wait, a little at a time so that
 * keys are answered, and its memory is bounded however long the run is, also while somebody looks back. */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "engine/base/clock.h"
#include "tests/support/feed_stream.h"
#include "tui/app/feed.h"

enum { RANKS = 2, MB = 1 << 20 };

/* One chunk, so all of it is there once its first record is. */
static void it_reads_on_while_records_wait(void **state)
{
    (void)state;
    struct feed_stream stream;
    struct source *source;
    struct feed feed;
    struct error err;
    assert_true(feed_stream_start(&stream, RANKS, 2500, 60 * MB));
    assert_int_equal(source_adopt_fd(&source, stream.ends[0], &err), 0);
    assert_int_equal(feed_open_live(&feed, source, NULL, NULL, &err), 0);
    int looks = 0;
    uint64_t longest_ns = 0;
    while (!feed.newest.model->ended) {
        const uint64_t begun_ns = clock_thread_ns(pthread_self()), before = feed.newest.model->revision;
        feed_advance(&feed, 0);
        const uint64_t took_ns = clock_thread_ns(pthread_self()) - begun_ns;
        if (feed.newest.model->revision == before) {
            poll(&(struct pollfd){.fd = feed_fd(&feed), .events = POLLIN}, 1, 1000);
            continue;
        }
        looks++;
        if (before && took_ns > longest_ns) longest_ns = took_ns; /* the first one reads the chunk, too */
        if (!feed.newest.model->ended) assert_int_equal(feed_wait_ns(&feed, 0), 0);
    }
    feed_stream_join(&stream);
    print_message("           %llu records in %d looks, the longest %.1f ms\n", (unsigned long long)stream.records, looks,
                  (double)longest_ns * 1e-6);
    assert_int_equal(feed.newest.model->revision, stream.records);
    assert_true(looks > 1 && longest_ns < 60000000u);
    feed_close(&feed);
    source_close(source);
}

/* Resident memory of this process, the peak if asked for. */
static long resident_kb(const char *field)
{
    char line[256];
    long kb = -1;
    FILE *file = fopen("/proc/self/status", "re");
    assert_non_null(file);
    while (fgets(line, sizeof line, file))
        if (!strncmp(line, field, strlen(field))) kb = atol(line + strlen(field));
    fclose(file);
    return kb;
}

static void memory_is_bounded(void **state)
{
    (void)state;
    enum { STEPS = 100000, BOUND_KB = 150 << 10 }; /* the rest of the 160 MB is the program's own */
    const int steps = getenv("SHORT") ? STEPS / 10 : STEPS;
    const long before_kb = resident_kb("VmRSS:");
    struct feed_stream stream;
    struct source *source;
    struct feed feed;
    struct error err;
    assert_true(feed_stream_start(&stream, RANKS, steps, 256 << 10));
    assert_int_equal(source_adopt_fd(&source, stream.ends[0], &err), 0);
    assert_int_equal(feed_open_live(&feed, source, NULL, NULL, &err), 0);
    long tenth_kb = 0;
    uint32_t looked = 0;
    while (!feed.newest.model->ended) {
        if (!feed_advance(&feed, 0)) poll(&(struct pollfd){.fd = feed_fd(&feed), .events = POLLIN}, 1, 1000);
        const uint32_t done = record_reader_steps_done(&feed.newest);
        if (done >= looked + (uint32_t)steps / 10) { /* look back, as far as it goes, and draw from there */
            looked = done;
            if (!tenth_kb) tenth_kb = resident_kb("VmRSS:") - before_kb;
            assert_true(feed_go_step(&feed, done - 500));
            assert_non_null(feed_history(&feed, 0, 0));
        }
    }
    const long kb = resident_kb("VmHWM:") - before_kb;
    feed_stream_join(&stream);
    print_message("           %d steps: %ld MB after a tenth, %ld MB at most\n", steps, tenth_kb >> 10, kb >> 10);
    const struct run_curve *loss = &feed.newest.model->loss, *number = &feed.newest.model->number;
    assert_true(loss->count >= RUN_CURVE_POINTS / 2); /* the whole run is still there, as means */
    assert_true(number->value[0] <= (float)number->stride && number->value[number->count - 1] > (float)steps * 0.98f);
    assert_int_equal(feed.newest.model->steps_seen, steps);
#ifndef __SANITIZE_ADDRESS__
    assert_true(kb < BOUND_KB);
#endif
    feed_close(&feed);
    source_close(source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_reads_on_while_records_wait),
        cmocka_unit_test(memory_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
