#include "engine/run/director.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/base/clock.h"

enum { LINE_BYTES = 320, QUEUE_LINES = 64 };

struct planned {
    int64_t step;
    struct command command;
    bool done;
}; /* step -1: on running out of memory */

struct director {
    struct director_options options;
    struct planned plan[CLI_LIST_MAX];
    int plan_count;
    enum run_state state;
    int64_t stepped_from; /* a single step was ordered after this many; -1: none */

    int wake_fd;
    _Atomic uint64_t gone_ns; /* when the owner went; 0: here */
    pthread_mutex_t lock;     /* of the queue */
    char queue[QUEUE_LINES][LINE_BYTES];
    int queue_first, queue_count;
};

int director_new(struct director **out, const struct director_options *options, struct error *err)
{
    struct director *director = calloc(1, sizeof *director);
    if (!director) return error_set(err, STATUS_RUN, "no memory for the command queue");
    director->options = *options;
    director->stepped_from = -1;
    director->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&director->lock, NULL);
    for (int i = 0; i < options->at.count; i++) {
        struct planned *planned = &director->plan[director->plan_count++];
        int status = command_parse_at(options->at.at[i], &planned->step, &planned->command, err);
        if (status) return director_free(director), status;
    }
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
    uint64_t one = 1;
    ssize_t written = write(director->wake_fd, &one, sizeof one);
    (void)written; /* fails only when a wake-up is pending already */
}

void director_push(struct director *director, const char *line)
{
    pthread_mutex_lock(&director->lock);
    if (director->queue_count < QUEUE_LINES) {
        char *slot = director->queue[(director->queue_first + director->queue_count++) % QUEUE_LINES];
        strncpy(slot, line, LINE_BYTES - 1);
        slot[LINE_BYTES - 1] = '\0';
    }
    pthread_mutex_unlock(&director->lock);
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
    wake(director);
}

static bool take_line(struct director *director, char line[LINE_BYTES])
{
    pthread_mutex_lock(&director->lock);
    bool any = director->queue_count > 0;
    if (any) {
        memcpy(line, director->queue[director->queue_first], LINE_BYTES);
        director->queue_first = (director->queue_first + 1) % QUEUE_LINES;
        director->queue_count--;
    }
    pthread_mutex_unlock(&director->lock);
    return any;
}

/* ---- states ---- */

static void enter(struct director *director, enum run_state state, const char *reason)
{
    if (director->state == state) return;
    director->state = state;
    director->options.on_state(director->options.user, state, reason);
}

static bool is_waiting(const struct director *director)
{
    return director->state == RUN_PAUSED || director->state == RUN_OUT_OF_MEMORY;
}

/* Nanoseconds until a run without an owner ends; 0: now; UINT64_MAX: never. */
static uint64_t owner_grace(const struct director *director)
{
    uint64_t gone_ns = atomic_load(&director->gone_ns), now_ns = clock_ns();
    if (gone_ns == 0 || director->options.detached) return UINT64_MAX;
    uint64_t grace_ns = director->options.interactive ? director->options.grace_ns : 0;
    return now_ns - gone_ns >= grace_ns ? 0 : gone_ns + grace_ns - now_ns;
}

/* The commands that only the director needs to know. A refusal, or NULL. */
static const char *control(struct director *director, const struct command *command, int64_t steps_done, bool *stop)
{
    bool waiting = is_waiting(director);
    switch (command->id) {
    case COMMAND_PAUSE:
        if (waiting) return "already waiting";
        return enter(director, RUN_PAUSED, "by command"), NULL;
    case COMMAND_RESUME:
        if (!waiting) return "not paused";
        return enter(director, RUN_RUNNING, "by command"), NULL;
    case COMMAND_TOGGLE: return enter(director, waiting ? RUN_RUNNING : RUN_PAUSED, "by command"), NULL;
    case COMMAND_STEP:
        if (!waiting) return "only while paused";
        return director->stepped_from = steps_done, enter(director, RUN_RUNNING, "one step"), NULL;
    default: return *stop = true, NULL;
    }
}

static bool is_control(enum command_id id)
{
    return id == COMMAND_PAUSE || id == COMMAND_RESUME || id == COMMAND_TOGGLE || id == COMMAND_STEP ||
           id == COMMAND_STOP;
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

/* True if the command makes an order; else it has been dealt with here. */
static bool handle(struct director *director, const struct command *command, int64_t steps_done, struct order *order)
{
    if (!is_control(command->id)) {
        *order = (struct order){.kind = ORDER_COMMAND, .command = *command};
        return true;
    }
    bool stop = false;
    char line[LINE_BYTES];
    command_format(command, line, sizeof line);
    const char *refusal = control(director, command, steps_done, &stop);
    director->options.on_command(director->options.user, line, refusal);
    return stop && end(order, outcome_of_stop(director));
}

/* The first --at command that is due: before the next step, or now that memory ran out. */
static struct planned *planned_now(struct director *director, int64_t steps_done)
{
    int64_t due = director->state == RUN_OUT_OF_MEMORY ? -1 : steps_done + 1;
    for (int i = 0; i < director->plan_count; i++)
        if (director->plan[i].step == due && !director->plan[i].done) return &director->plan[i];
    return NULL;
}

static bool next_command(struct director *director, int64_t steps_done, struct order *order)
{
    char line[LINE_BYTES];
    struct planned *planned;
    while ((planned = planned_now(director, steps_done))) {
        planned->done = true;
        if (handle(director, &planned->command, steps_done, order)) return true;
    }
    while (take_line(director, line)) {
        struct command command;
        struct error err;
        if (command_parse(&command, line, &err)) director->options.on_command(director->options.user, line, err.text);
        else if (handle(director, &command, steps_done, order)) return true;
    }
    return false;
}

static bool is_signalled(const struct director *director)
{
    struct pollfd signals = {.fd = director->options.signal_fd, .events = POLLIN};
    return poll(&signals, 1, 0) > 0;
}

static void sleep_until_woken(struct director *director)
{
    uint64_t grace_ns = owner_grace(director), count;
    int timeout_ms = grace_ns / 1000000 > 3600000 ? -1 : (int)(grace_ns / 1000000) + 1;
    struct pollfd woken[2] = {{.fd = director->wake_fd, .events = POLLIN},
                              {.fd = director->options.signal_fd, .events = POLLIN}};
    if (poll(woken, 2, timeout_ms) <= 0) return;
    ssize_t size = read(director->wake_fd, &count, sizeof count);
    (void)size; /* nothing to read: another wake-up was taken with it */
}

void director_next(struct director *director, int64_t steps_done, struct order *order)
{
    bool all_done = director->options.steps > 0 && steps_done >= director->options.steps;
    if (director->stepped_from >= 0 && steps_done > director->stepped_from) {
        director->stepped_from = -1;
        if (director->state == RUN_RUNNING) enter(director, RUN_PAUSED, "after one step");
    }
    for (;;) {
        if (is_signalled(director) || owner_grace(director) == 0) {
            end(order, outcome_of_stop(director));
            return;
        }
        if (all_done && director->state != RUN_OUT_OF_MEMORY) {
            end(order, OUTCOME_FINISHED);
            return;
        }
        if (next_command(director, steps_done, order)) return;
        if (director->state == RUN_OUT_OF_MEMORY && !director->options.interactive) {
            end(order, OUTCOME_OUT_OF_MEMORY);
            return;
        }
        if (!is_waiting(director)) break;
        sleep_until_woken(director);
    }
    enter(director, RUN_RUNNING, "");
    *order = (struct order){.kind = ORDER_STEP};
}

void director_applied(struct director *director, const struct command *command, const char *refusal)
{
    char line[LINE_BYTES];
    command_format(command, line, sizeof line);
    director->options.on_command(director->options.user, line, refusal);
    bool changes = command_table[command->id].class == COMMAND_CLASS_LIVE;
    if (!refusal && changes && director->state == RUN_OUT_OF_MEMORY) enter(director, RUN_RUNNING, "tries again");
}

void director_short_of_memory(struct director *director, const char *text)
{
    director->stepped_from = -1;
    enter(director, RUN_OUT_OF_MEMORY, text);
}
