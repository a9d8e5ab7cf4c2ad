#include "engine/cli/session.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/printable.h"
#include "engine/base/words.h"

static const uint64_t tty_every_ns = 100000000u, plain_every_ns = 10000000000u;

struct headless {
    struct session *session;
    FILE *out;
    struct logs *logs;
    bool tty;      /* can rewrite a line */
    bool own_pace; /* plain lines at each tenth of the steps; false: the logs set the pace */
    uint64_t shown_ns;
    uint64_t shown_waiting_ns; /* run_waiting.since_ns of the last wait that was reported */
    uint32_t shown_steps;
    uint64_t shown_notices;
    bool line_open, stopping;
    char line[256];
};

/* The fullest that the device tier of any rank has been; false: unknown. */
static bool device_peak(const struct run_model *model, uint64_t *bytes)
{
    bool known = false;
    *bytes = 0;
    for (int r = 0; r < model->ranks; r++) {
        const struct run_tier *tier = &model->rank[r].tier[TIER_DEVICE];
        if (!tier->has_total) continue;
        known = true;
        if (tier->peak_bytes > *bytes) *bytes = tier->peak_bytes;
    }
    return known;
}

/* The progress line, without a newline. */
static void headless_line(char *line, size_t room, const struct run_model *model, int64_t steps)
{
    const struct run_step *step = run_last_step(model);
    uint64_t peak_bytes;
    double rate;
    line[0] = '\0';
    if (!step) {
        text_append(line, room, "%s", model->has_state ? run_state_name(model->state) : "starting");
        return;
    }
    if (steps > 0) text_append(line, room, "step %u/%lld", step->step, (long long)steps);
    else text_append(line, room, "step %u", step->step);
    text_append(line, room, "  stage %d  loss %.4f", step->stage, (double)step->loss);
    if (run_tokens_per_second(model, &rate)) text_append(line, room, "  %.0f tokens/s", rate);
    if (device_peak(model, &peak_bytes))
        text_append(line, room, "  peak %.1f MiB/rank", (double)peak_bytes / (1 << 20));
    if (model->has_state && model->state == RUN_RUNNING && steps > step->step && model->steps_seen > 0) {
        const double left_s = (double)model->time_seen_ns * 1e-9 / model->steps_seen * (double)(steps - step->step);
        const long whole = (long)(left_s + 0.5), hours = whole / 3600, minutes = whole / 60 % 60;
        if (hours) text_append(line, room, "  %ld:%02ld:%02ld left", hours, minutes, whole % 60);
        else text_append(line, room, "  %ld:%02ld left", minutes, whole % 60);
    } else if (model->has_state && model->state != RUN_RUNNING) {
        text_append(line, room, "  %s", run_state_name(model->state));
    }
}

static void erase_line(FILE *out)
{
    fputs("\r\033[K", printable_below(out));
}

static void close_line(struct headless *headless)
{
    if (headless->line_open) erase_line(headless->out);
    headless->line_open = false;
}

static double mib(int64_t bytes)
{
    return (double)bytes / (1 << 20);
}

static void in_mib(char out[32], uint64_t bytes)
{
    snprintf(out, 32, "%.2f MiB", mib((int64_t)bytes));
}

/* Prints what each category held when memory ran out, and what would fit. */
static void show_shortage(FILE *out, const struct run_shortage *shortage)
{
    char text[512];
    run_shortage_text(text, sizeof text, shortage, in_mib);
    fprintf(out, "oom: %s\n", text);
    if (shortage->has_held) {
        fprintf(out, "  rank %d held", shortage->rank);
        const char *comma = "", *nothing = " nothing";
        for (int c = 0; c < CATEGORIES; c++) {
            if (shortage->held_bytes[c] <= 0) continue;
            fprintf(out, "%s %s %.2f MiB", comma, category_name(c), mib(shortage->held_bytes[c]));
            comma = ",", nothing = "";
        }
        fprintf(out, *shortage->op ? "%s; it was at %s\n" : "%s\n", nothing, shortage->op);
    }
    fprintf(out, "  %s", shortage->fit_count ? "would fit:" : run_no_fits(shortage));
    for (int f = 0; f < shortage->fit_count; f++)
        fprintf(out, "%s %s (%.2f MiB)", f ? "," : "", shortage->fits[f].command, mib(shortage->fits[f].peak_bytes));
    fputc('\n', out);
}

static void show_notices(struct headless *headless, const struct run_model *model)
{
    for (int i = run_notices_since(model, headless->shown_notices); i < model->notice_count; i++) {
        const struct run_notice *notice = &model->notices[i];
        if (notice->kind == NOTICE_STATE) continue;                          /* the progress line says it */
        if (notice->kind == NOTICE_COMMAND && notice->level <= 0) continue; /* its effects have lines of their own */
        close_line(headless);
        if (notice->has_step) fprintf(headless->out, "step %u: ", notice->step);
        struct run_shortage shortage;
        if (run_notice_shortage(&shortage, notice)) show_shortage(headless->out, &shortage);
        else fprintf(headless->out, "%s\n", notice->text);
        fflush(headless->out);
    }
    headless->shown_notices = run_notices_seen(model);
}

/* A plain line is due at the first step, at each tenth of the steps, at the last, and after ten seconds without one. */
static bool plain_is_due(const struct headless *headless, const struct run_model *model, uint64_t now_ns)
{
    const int64_t steps = headless->session->spec.steps;
    uint32_t seen = model->steps_seen, tenth = steps >= 10 ? (uint32_t)(steps / 10) : 1;
    if (seen == headless->shown_steps) return false;
    if (headless->own_pace && (seen == 1 || (steps > 0 && seen / tenth != headless->shown_steps / tenth)))
        return true;
    return now_ns - headless->shown_ns >= plain_every_ns;
}

/* Reports once a collective that some ranks are in and others have not begun for three seconds. */
static void show_waiting(struct headless *headless, const struct run_model *model, uint64_t now_ns)
{
    static const uint64_t long_ns = 3000000000u;
    struct run_waiting waiting;
    char text[200];
    if (!run_waiting(model, &waiting) || waiting.since_ns == headless->shown_waiting_ns ||
        now_ns < waiting.since_ns + long_ns)
        return;
    headless->shown_waiting_ns = waiting.since_ns;
    run_waiting_text(text, sizeof text, model, &waiting);
    close_line(headless);
    fprintf(headless->out, "for %.0f s: %s\n", (double)(now_ns - waiting.since_ns) * 1e-9, text);
    fflush(headless->out);
}

static void show(struct headless *headless, const struct run_model *model, bool last)
{
    uint64_t now_ns = clock_ns();
    char line[sizeof headless->line];
    show_notices(headless, model);
    if (!last) show_waiting(headless, model, now_ns);
    if (headless->tty ? !last && now_ns - headless->shown_ns < tty_every_ns : !plain_is_due(headless, model, now_ns))
        return;
    headless_line(line, sizeof line, model, headless->session->spec.steps);
    if (headless->line_open && strcmp(line, headless->line) == 0) return;
    memcpy(headless->line, line, sizeof line);
    if (headless->tty) {
        struct winsize size;
        const bool known = ioctl(fileno(printable_below(headless->out)), TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
        erase_line(headless->out);
        fprintf(headless->out, "%.*s", known ? size.ws_col - 1 : 79, line);
    } else {
        fprintf(headless->out, "%s\n", line);
    }
    headless->line_open = headless->tty;
    headless->shown_ns = now_ns;
    headless->shown_steps = model->steps_seen;
    fflush(headless->out);
}

static void show_logs(struct headless *headless)
{
    if (!headless->logs || !logs_due(headless->logs)) return;
    close_line(headless);
    logs_print(headless->logs, headless->out);
    fflush(headless->out);
}

static void fold(struct headless *headless, struct run_model *model, const struct trace_record *record)
{
    run_model_fold(model, record);
    if (headless->logs) logs_fold(headless->logs, model, record);
    if (record->kind != TRACE_STEP_END) return;
    show_logs(headless);
    show(headless, model, false);
}

static void take_signal(struct headless *headless, struct source *source)
{
    struct signalfd_siginfo info;
    if (read(headless->session->signal_fd, &info, sizeof info) != sizeof info) return;
    signal(SIGTTOU, SIG_IGN); /* lines that come in the background must not stop what ends */
    bool asked = !headless->stopping && source_send(source, "stop", NULL) == STATUS_OK;
    close_line(headless);
    fputs(asked ? "stopping after this step; once more to end at once\n" : "ending at once\n", headless->out);
    fflush(headless->out);
    if (!asked) relauncher_kill(&headless->session->relauncher);
    headless->session->forced |= !asked;
    headless->stopping = true;
}

void headless_run(struct session *session, struct source *source, FILE *out, struct logs *logs)
{
    enum { TICK_MS = 250 };
    const char *term = getenv("TERM");
    const bool rewrites = isatty(fileno(printable_below(out))) && term && strcmp(term, "dumb") != 0;
    struct headless headless = {.session = session,
                                .out = out,
                                .logs = logs,
                                .tty = rewrites,
                                .own_pace = !logs || !session->config.logs.steps_per_print};
    struct run_model *model = session->model;
    struct trace_record record;
    for (;;) {
        enum source_result result;
        while ((result = source_next(source, &record)) == SOURCE_RECORD) fold(&headless, model, &record);
        show(&headless, model, result != SOURCE_WAIT);
        if (result != SOURCE_WAIT) break;
        if (session_wait(session, source, NULL, TICK_MS) == SESSION_SIGNAL) take_signal(&headless, source);
    }
    if (headless.line_open) fputc('\n', out);
    headless.line_open = false;
    if (logs) logs_finish(logs, model);
    show_logs(&headless);
}
