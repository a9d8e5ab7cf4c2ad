#include "engine/train/director.h"

#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/base/clock.h"

enum { LINE_BYTES = 320, QUEUE_LINES = 64 };

struct planned {
    int64_t step; /* -1: on running out of memory */
    struct command command;
    bool done;
};

struct lines {
    char at[QUEUE_LINES][LINE_BYTES];
    int first, count;
};

struct director {
    struct director_options options;
    struct planned plan[TEXT_LIST_MAX]; /* of options.at */
    enum run_state state;
    int64_t stepped_from; /* a single step was ordered after this many steps; -1: none */
    uint32_t operations;  /* how many operations of the next or current step were asked for; 0: the whole step */

    int wake_fd;
    _Atomic uint64_t gone_ns; /* when the owner left, or the run began without one; 0: there is one */
    uint64_t short_ns;        /* when memory ran out last */
    bool rests;               /* since then `pause` was sent: after a change the run pauses and does not try again */
    pthread_mutex_t lock;     /* of the queue */
    struct lines queue;
    int left_out;      /* lines that found the queue full, to be reported */
    struct lines kept; /* commands received within a step, to be applied at its end */
    _Atomic bool stepping; /* a step was ordered, and rank 0 has not ended it */
    bool in_step;      /* waiting at the gate */
    bool stop;         /* `stop` was received at the gate */
};

static bool lines_put(struct lines *lines, const char *line)
{
    if (lines->count == QUEUE_LINES) return false;
    snprintf(lines->at[(lines->first + lines->count++) % QUEUE_LINES], LINE_BYTES, "%s", line);
    return true;
}

static bool lines_take(struct lines *lines, char line[LINE_BYTES])
{
    if (lines->count == 0) return false;
    memcpy(line, lines->at[lines->first], LINE_BYTES);
    lines->first = (lines->first + 1) % QUEUE_LINES;
    lines->count--;
    return true;
}

int director_new(struct director **out, const struct director_options *options, struct error *err)
{
    struct director *director = calloc(1, sizeof *director);
    if (!director) return error_set(err, STATUS_RUN, "no memory for the command queue");
    director->options = *options;
    director->stepped_from = -1;
    if (options->paused) director->state = RUN_PAUSED; /* without on_state(): the caller has recorded it */
    if (options->detached) atomic_store(&director->gone_ns, clock_ns());
    director->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&director->lock, NULL);
    for (int i = 0; i < options->at.count; i++) {
        struct planned *planned = &director->plan[i];
        int status = command_parse_at(options->at.at[i], &planned->step, &planned->command, err);
        if (status) return director_free(director), status;
    }
    for (int i = 0; i < options->lines.count; i++) director->left_out += !lines_put(&director->kept, options->lines.at[i]);
    return *out = director, STATUS_OK;
}

void director_free(struct director *director)
{
    if (!director) return;
    close(director->wake_fd);
    pthread_mutex_destroy(&director->lock);
    free(director);
}

/* ---- from other threads ---- */

static void wake(struct director *director)
{
    eventfd_write(director->wake_fd, 1); /* fails only when a wake-up is pending already */
}

static void hurry(struct director *director)
{
    if (director->options.gate) gate_hurry(director->options.gate);
}

/* Within a step a rank is held at once, and released at any time, because a held rank keeps the step from ending. Between steps
 * the order holds it, once all ranks have left the last step. True: nothing of the command waits for the end of the step. */
static bool hold_at_once(struct director *director, const struct command *command)
{
    int rank;
    const enum fault fault = command_fault(command, &rank);
    const bool acts = fault == FAULT_NONE || (fault == FAULT_HELD && atomic_load(&director->stepping));
    if (!acts || !director->options.gate) return false;
    return gate_hold(director->options.gate, rank), true;
}

/* `stop` also ends slow motion, so that the run does not wait for a slow step; it takes the newest place of a full queue. */
void director_push(struct director *director, const char *line)
{
    const bool stops = strcmp(line, "stop") == 0;
    struct command command;
    struct error err;
    if (strncmp(line, "fault", 5) == 0 && !command_parse(&command, line, &err)) hold_at_once(director, &command);
    pthread_mutex_lock(&director->lock);
    const bool full = director->queue.count == QUEUE_LINES;
    director->left_out += full;
    director->queue.count -= full && stops;
    lines_put(&director->queue, line);
    pthread_mutex_unlock(&director->lock);
    if (stops) hurry(director);
    wake(director);
}

void director_owner_here(struct director *director)
{
    atomic_store(&director->gone_ns, 0);
    wake(director);
}

void director_owner_gone(struct director *director)
{
    atomic_store(&director->gone_ns, clock_ns());
    if (!director->options.interactive && !director->options.detached) hurry(director);
    if (director->options.gate && gate_holds_any(director->options.gate)) director_push(director, "fault=none");
    wake(director);
}

static bool take_line(struct director *director, char line[LINE_BYTES])
{
    pthread_mutex_lock(&director->lock);
    bool any = lines_take(&director->queue, line);
    const int left_out = director->left_out;
    director->left_out = 0;
    pthread_mutex_unlock(&director->lock);
    if (left_out) {
        char note[96];
        snprintf(note, sizeof note, "%d command%s left out: more than %d waited at once", left_out,
                 left_out == 1 ? " was" : "s were", QUEUE_LINES);
        director->options.on_note(director->options.user, note);
    }
    return any;
}

/* ---- states ---- */

static void enter(struct director *director, enum run_state state, const char *reason)
{
    if (director->state == state) return;
    director->state = state;
    director->options.on_state(director->options.user, state, reason, director->in_step);
}

static bool is_waiting(const struct director *director)
{
    return director->state == RUN_PAUSED || director->state == RUN_OUT_OF_MEMORY;
}

/* Nanoseconds until a run without an owner ends; 0: now; UINT64_MAX: never. A detached run trains without an owner,
 * but needs one when memory runs out. */
static uint64_t owner_grace(const struct director *director)
{
    uint64_t gone_ns = atomic_load(&director->gone_ns), now_ns = clock_ns();
    if (gone_ns == 0 || (director->options.detached && director->state != RUN_OUT_OF_MEMORY)) return UINT64_MAX;
    if (director->state == RUN_OUT_OF_MEMORY && director->short_ns > gone_ns) gone_ns = director->short_ns;
    uint64_t grace_ns = director->options.interactive ? director->options.grace_ns : 0;
    return now_ns - gone_ns >= grace_ns ? 0 : gone_ns + grace_ns - now_ns;
}

static bool is_control(enum command_id id)
{
    return command_table[id].class == COMMAND_CLASS_TIME;
}

/* Why a command that the director itself applies is refused now; NULL: it is not. */
static const char *refusal_of(const struct director *director, enum command_id id)
{
    bool waiting = is_waiting(director);
    switch (id) {
    case COMMAND_PAUSE: return director->state == RUN_PAUSED || director->rests ? "already waiting" : NULL;
    case COMMAND_RESUME: return waiting ? NULL : "not paused";
    case COMMAND_STEP: return waiting ? NULL : "only while paused";
    case COMMAND_OP:
        if (director->state != RUN_PAUSED) return "only while paused";
        return director->options.gate ? NULL
                                      : "ranks on other machines share no memory with rank 0; step takes a whole step";
    default: return NULL;
    }
}

static void control(struct director *director, const struct command *command, int64_t steps_done)
{
    const enum command_id id = command->id;
    if (id == COMMAND_STEP || id == COMMAND_OP) {
        director->stepped_from = steps_done;
        const long long count = id == COMMAND_OP ? atoll(command->value) : 0;
        director->operations = count < GATE_OPEN ? (uint32_t)count : GATE_OPEN;
        enter(director, RUN_RUNNING, id == COMMAND_OP ? "by operations" : "one step");
    } else if (id == COMMAND_RESUME || (id == COMMAND_TOGGLE && is_waiting(director))) {
        director->stepped_from = -1;
        enter(director, RUN_RUNNING, "by command");
    } else if (director->state == RUN_OUT_OF_MEMORY) {
        director->rests = id == COMMAND_PAUSE;
    } else if (id == COMMAND_PAUSE || id == COMMAND_TOGGLE) {
        enter(director, RUN_PAUSED, "by command");
    }
}

/* True if it was applied. The command is recorded before its effects. */
static bool apply_control(struct director *director, const struct command *command, int64_t steps_done)
{
    char line[LINE_BYTES];
    command_format(command, line, sizeof line);
    const char *refusal = refusal_of(director, command->id);
    director->options.on_answer(director->options.user, line, refusal);
    if (!refusal) control(director, command, steps_done);
    return !refusal;
}

static bool end(struct order *order, enum outcome outcome)
{
    *order = (struct order){.kind = ORDER_END, .outcome = outcome};
    return true;
}

static enum outcome outcome_of_stop(const struct director *director)
{
    return director->state == RUN_OUT_OF_MEMORY ? OUTCOME_OUT_OF_MEMORY : OUTCOME_STOPPED;
}

/* True if the command makes an order; false: the director has applied or refused it. */
static bool handle(struct director *director, const struct command *command, int64_t steps_done, struct order *order)
{
    int rank;
    if (command_fault(command, &rank) == FAULT_HELD && atomic_load(&director->gone_ns)) {
        director_applied(director, command, "no viewer drives the run that could release the rank");
        return false;
    }
    if (!is_control(command->id)) {
        *order = (struct order){.kind = ORDER_COMMAND, .command = *command};
        return true;
    }
    apply_control(director, command, steps_done);
    return command->id == COMMAND_STOP && end(order, outcome_of_stop(director));
}

/* The first --at command that is due: before the next step, or now that memory ran out. */
static struct planned *planned_now(struct director *director, int64_t steps_done)
{
    int64_t due = director->state == RUN_OUT_OF_MEMORY ? -1 : steps_done + 1;
    for (int i = 0; i < director->options.at.count; i++)
        if (director->plan[i].step == due && !director->plan[i].done) return &director->plan[i];
    return NULL;
}

static bool next_command(struct director *director, int64_t steps_done, struct order *order)
{
    char line[LINE_BYTES];
    struct planned *planned;
    while (!director->operations && (planned = planned_now(director, steps_done))) {
        planned->done = true;
        if (handle(director, &planned->command, steps_done, order)) return true;
    }
    /* Once `step` or `op` has asked for the next step, commands sent later apply after it. */
    while (!(director->state == RUN_RUNNING && director->stepped_from == steps_done) &&
           (lines_take(&director->kept, line) || take_line(director, line))) {
        struct command command;
        struct error err;
        if (command_parse(&command, line, &err)) director->options.on_answer(director->options.user, line, err.text);
        else if (handle(director, &command, steps_done, order)) return true;
    }
    return false;
}

static bool is_signalled(const struct director *director)
{
    struct pollfd signals = {.fd = director->options.signal_fd, .events = POLLIN};
    return poll(&signals, 1, 0) > 0;
}

static void sleep_until_woken(struct director *director, int timeout_ms)
{
    const uint64_t grace_ms = owner_grace(director) / 1000000;
    if (timeout_ms < 0 && grace_ms < INT_MAX) timeout_ms = (int)grace_ms + 1;
    struct pollfd woken[2] = {{.fd = director->wake_fd, .events = POLLIN},
                              {.fd = director->options.signal_fd, .events = POLLIN}};
    if (poll(woken, 2, timeout_ms) <= 0) return;
    eventfd_read(director->wake_fd, &(eventfd_t){0}); /* may fail: an earlier read took this wake-up too */
}

/* True: there is an order other than to step. */
static bool ends_or_commands(struct director *director, int64_t steps_done, struct order *order)
{
    const int64_t steps = director->options.steps;
    if (director->stop || is_signalled(director) || owner_grace(director) == 0)
        return end(order, outcome_of_stop(director));
    if (steps > 0 && steps_done >= steps && director->state != RUN_OUT_OF_MEMORY) return end(order, OUTCOME_FINISHED);
    if (next_command(director, steps_done, order)) return true;
    return director->state == RUN_OUT_OF_MEMORY && !director->options.interactive && end(order, OUTCOME_OUT_OF_MEMORY);
}

void director_next(struct director *director, int64_t steps_done, struct order *order)
{
    enum { LOOK_MS = 20 };
    const struct director_options *options = &director->options;
    atomic_store(&director->stepping, false);
    if (director->options.gate) gate_raise(director->options.gate, GATE_OPEN);
    if (director->stepped_from >= 0 && steps_done > director->stepped_from) {
        director->stepped_from = -1;
        if (director->state == RUN_RUNNING) enter(director, RUN_PAUSED, "after one step");
    }
    for (;;) {
        if (ends_or_commands(director, steps_done, order)) return;
        /* A stopped or slow front end that keeps every record delays the run, as a full pipe would. */
        const bool lags = !is_waiting(director) && options->reader_lags && options->reader_lags(options->user);
        if (!lags && !is_waiting(director)) break;
        sleep_until_woken(director, lags ? LOOK_MS : -1);
    }
    enter(director, RUN_RUNNING, "");
    *order = (struct order){.kind = ORDER_STEP, .operations = director->operations};
    atomic_store(&director->stepping, true);
    director->operations = 0;
}

/* ---- within a step ---- */

/* Keeps a command that cannot be applied within a step, and records a note. */
static void keep(struct director *director, const struct command *command, int64_t steps_done)
{
    char line[LINE_BYTES], note[LINE_BYTES + 64];
    command_format(command, line, sizeof line);
    if (!lines_put(&director->kept, line)) {
        director->options.on_answer(director->options.user, line, "too many commands wait for the end of the step");
        return;
    }
    if (command->id == COMMAND_FAULT && hold_at_once(director, command)) return;
    snprintf(note, sizeof note, "%s waits for the end of step %lld", line, (long long)steps_done + 1);
    director->options.on_note(director->options.user, note);
}

/* The next command that was applied at the gate; false: none has arrived. */
static bool next_control(struct director *director, int64_t steps_done, struct command *command)
{
    char line[LINE_BYTES];
    struct error err;
    for (;;) {
        struct planned *planned = planned_now(director, steps_done);
        if (planned) planned->done = true, *command = planned->command;
        else if (!take_line(director, line)) return false;
        else if (command_parse(command, line, &err)) {
            director->options.on_answer(director->options.user, line, err.text);
            continue;
        }
        if (!is_control(command->id)) keep(director, command, steps_done);
        else if (apply_control(director, command, steps_done)) return true;
    }
}

/* How far to open the gate; 0: not yet. */
static uint32_t hear_at_gate(struct director *director, int64_t steps_done, uint32_t next_op)
{
    struct command command;
    if (is_signalled(director) || owner_grace(director) == 0) {
        hurry(director); /* director_next() will find the same, and end the run */
        return GATE_OPEN;
    }
    if (!next_control(director, steps_done, &command)) return 0;
    director->stop = command.id == COMMAND_STOP;
    uint32_t count = director->operations;
    director->operations = 0;
    return count && count < GATE_OPEN - next_op ? next_op + count : GATE_OPEN;
}

void director_at_gate(struct director *director, int64_t steps_done, uint32_t next_op, uint32_t operations,
                      const char *what)
{
    enum { LOOK_MS = 200 }; /* a rank that finds a peer dead opens the gate, but cannot wake us */
    struct gate *gate = director->options.gate;
    uint32_t limit = next_op < operations ? 0 : GATE_OPEN; /* no operation is left */
    char reason[160];
    director->in_step = true;
    snprintf(reason, sizeof reason, "before op %u %s of step %lld", next_op, what, (long long)steps_done + 1);
    if (!limit) enter(director, RUN_PAUSED, reason);
    while (!limit && !gate_lets(gate, next_op) && !(limit = hear_at_gate(director, steps_done, next_op)))
        sleep_until_woken(director, LOOK_MS);
    enter(director, RUN_RUNNING, "");
    director->in_step = false;
    if (limit) gate_raise(gate, limit);
}

enum run_state director_state(const struct director *director)
{
    return director->state;
}

static void add_lines(struct text_list *to, const struct lines *lines)
{
    for (int i = 0; i < lines->count && to->count < TEXT_LIST_MAX; i++)
        to->at[to->count++] = lines->at[(lines->first + i) % QUEUE_LINES];
}

void director_rest(const struct director *director, struct text_list *at, struct text_list *lines)
{
    at->count = lines->count = 0;
    for (int i = 0; i < director->options.at.count; i++)
        if (!director->plan[i].done) at->at[at->count++] = director->options.at.at[i];
    add_lines(lines, &director->kept);
    add_lines(lines, &director->queue);
}

void director_applied(struct director *director, const struct command *command, const char *refusal)
{
    char line[LINE_BYTES];
    command_format(command, line, sizeof line);
    director->options.on_answer(director->options.user, line, refusal);
    bool changes = command_class(command) == COMMAND_CLASS_LIVE;
    if (refusal || !changes || director->state != RUN_OUT_OF_MEMORY) return;
    if (director->rests) enter(director, RUN_PAUSED, "by command");
    else enter(director, RUN_RUNNING, "tries again");
}

void director_short_of_memory(struct director *director, const char *text)
{
    director->stepped_from = -1;
    director->rests = false;
    director->short_ns = clock_ns();
    enter(director, RUN_OUT_OF_MEMORY, text);
}
