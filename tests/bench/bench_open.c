/* How long a large recording takes to its first picture, and how long a picture takes: commands with their processor time, wall
 * time and peak memory, then moves of the screen (processor time), then each view at 200x60 drawn again and again (median and longest, in
 * ms of processor time): over the step under the cursor, over the whole run, and over one operation. Without FILE it simulates one of 14.9
 * million records (71 MB), with $ZEROLAB.
 *
 *     bench_open [FILE] */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/trace/check.h"
#include "tui/app/app_parts.h"

enum { COLUMNS = 200, ROWS = 60, DRAWN = 15, ROUNDS = 5 };

static const char *zerolab;

static void stop(const char *what)
{
    fprintf(stderr, "bench_open: %s\n", what);
    exit(1);
}

static int ascending(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double processor_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

/* ---- commands ---- */

static void run(const char *const arguments[], struct rusage *used, double *wall_ms)
{
    const uint64_t begun_ns = clock_ns();
    int status;
    fflush(NULL);
    const pid_t child = fork();
    if (!child) {
        const int nowhere = open("/dev/null", O_WRONLY);
        dup2(nowhere, STDOUT_FILENO);
        execv(zerolab, (char *const *)arguments);
        _exit(127);
    }
    if (child < 0 || wait4(child, &status, 0, used) != child || status) stop("a command failed; ZEROLAB names the program");
    *wall_ms = (double)(clock_ns() - begun_ns) * 1e-6;
}

static double of_time(struct timeval time)
{
    return (double)time.tv_sec * 1e3 + (double)time.tv_usec * 1e-3;
}

static void time_frame(const char *file, const char *at)
{
    const char *const arguments[] = {zerolab, "replay", file, "--frame", "200x60", "--at", at, NULL};
    double wall_ms[ROUNDS], used_ms[ROUNDS];
    struct rusage used;
    for (int i = 0; i < ROUNDS; i++) {
        run(arguments, &used, &wall_ms[i]);
        used_ms[i] = of_time(used.ru_utime) + of_time(used.ru_stime);
    }
    qsort(wall_ms, ROUNDS, sizeof *wall_ms, ascending);
    qsort(used_ms, ROUNDS, sizeof *used_ms, ascending);
    printf("  replay --frame 200x60 --at %-11s %7.0f ms wall, %7.0f ms of a core, %5.1f MB\n", at, wall_ms[ROUNDS / 2],
           used_ms[ROUNDS / 2], (double)used.ru_maxrss * 1024e-6);
}

/* ---- pictures ---- */

struct screen {
    struct feed feed;
    struct view_state state;
    struct surface surface;
};

static void screen_open(struct screen *screen, const char *file)
{
    struct error err;
    *screen = (struct screen){.state = {.view = VIEW_OVERVIEW, .focus = VIEW_EVENTS, .units = UNITS_GIB}};
    if (feed_open_replay(&screen->feed, file, &err)) stop(err.text);
    if (!surface_init(&screen->surface, COLUMNS, ROWS, THEME_DEFAULT, false)) stop("no memory");
}

static void screen_close(struct screen *screen)
{
    feed_close(&screen->feed);
    surface_release(&screen->surface);
}

static void screen_draw(struct screen *screen)
{
    feed_tell_time(&screen->feed, &screen->state);
    const struct history *history = feed_history(&screen->feed, screen->state.from_ns, screen->state.to_ns);
    view_draw(feed_model(&screen->feed), history, &screen->state, &screen->surface);
}

/* From opening to the first picture after a move. */
static void time_move(const char *file, const char *name, uint32_t step)
{
    double ms[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        struct screen screen;
        const double begun_ms = processor_ms();
        screen_open(&screen, file);
        feed_advance(&screen.feed, clock_ns());
        if (step == UINT32_MAX) feed_last(&screen.feed);
        else if (!feed_go_step(&screen.feed, step)) stop("no such step");
        screen_draw(&screen);
        ms[i] = processor_ms() - begun_ms;
        screen_close(&screen);
    }
    qsort(ms, ROUNDS, sizeof *ms, ascending);
    printf("  screen: open, %-24s %7.0f ms of a core\n", name, ms[ROUNDS / 2]);
}

static void time_views(struct screen *screen, double median[VIEWS], double longest[VIEWS])
{
    for (enum view_id view = 0; view < VIEWS; view++) {
        double ms[DRAWN];
        screen->state.view = view;
        for (int i = 0; i < DRAWN; i++) {
            const double begun_ms = processor_ms();
            screen_draw(screen);
            ms[i] = processor_ms() - begun_ms;
        }
        qsort(ms, DRAWN, sizeof *ms, ascending);
        median[view] = ms[DRAWN / 2], longest[view] = ms[DRAWN - 1];
    }
}

static void time_redraws(const char *file)
{
    double median[3][VIEWS], longest[3][VIEWS];
    struct screen screen;
    screen_open(&screen, file);
    while (!screen.feed.newest.over) feed_advance(&screen.feed, clock_ns());
    feed_newest(&screen.feed);
    time_views(&screen, median[0], longest[0]);
    screen.state.to_ns = UINT64_MAX;
    time_views(&screen, median[1], longest[1]);
    const struct history *history = screen.feed.newest.history;
    int64_t first, end;
    history_spans(history, 0, LANE_COMPUTE, 0, UINT64_MAX, &first, &end);
    const struct span *span = history_span(history, 0, LANE_COMPUTE, end - 5);
    if (!span) stop("no operations");
    screen.state.from_ns = span->started_ns, screen.state.to_ns = span->ended_ns + 1;
    time_views(&screen, median[2], longest[2]);
    printf("redraw at 200x60, ms (median, longest)     a step          whole run      an operation\n");
    for (enum view_id view = 0; view < VIEWS; view++) {
        printf("  %-36s", view_of(view)->name);
        for (int i = 0; i < 3; i++) printf(" %7.2f %7.2f", median[i][view], longest[i][view]);
        putchar('\n');
    }
    screen_close(&screen);
}

int main(int count, char **arguments)
{
    char made[] = "/tmp/zerolab-bench-open-XXXXXX";
    const char *file = count > 1 ? arguments[1] : made;
    struct error err;
    struct trace_check check;
    zerolab = getenv("ZEROLAB") ? getenv("ZEROLAB") : "build/release/zerolab";
    if (count < 2) {
        const char *const simulate[] = {zerolab, "simulate", "configs/nano.json", "-n", "16", "--hardware", "a100",
                                        "--steps", "7100", "--seed", "1", "-o", made, NULL};
        struct rusage used;
        double wall_ms;
        close(mkstemp(made));
        run(simulate, &used, &wall_ms);
    }
    if (trace_check(&check, file, &err)) stop(err.text);
    char middle[32];
    snprintf(middle, sizeof middle, "step:%u", check.last_step / 2);
    printf("%.1f million records, %u states, steps %u to %u\n", (double)check.records * 1e-6, check.states, check.first_step,
           check.last_step);
    time_frame(file, "end");
    time_frame(file, middle);
    time_frame(file, "step:1");
    time_move(file, "as it begins", 0);
    time_move(file, "go to the end", UINT32_MAX);
    time_move(file, "go to the step in the middle", check.last_step / 2);
    time_redraws(file);
    if (count < 2) unlink(made);
    return 0;
}
