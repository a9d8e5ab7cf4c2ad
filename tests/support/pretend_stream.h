/* Streams of a device that is not there: each a thread that does what was sent to it in order, a little later, at random. For the
 * executor's tests: what it leaves to the device's order, marks and awaits, is all that keeps streams in order here. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include "engine/base/clock.h"
#include "engine/base/rng.h"
#include "engine/zero/lane_stream.h"

enum { PRETEND_TASKS = 1 << 12, PRETEND_MARKS = 192 };

struct pretend_stream;

/* A piece of work: a call; or a mark that is reached; or one of another stream's, by how often it was made, that is awaited. */
struct pretend_task {
    void (*call)(void *user, int argument);
    void *user;
    int argument;
    struct pretend_stream *of;
    int mark;
    uint32_t made;
};

struct pretend_mark { uint32_t made, reached; uint64_t at_ns; };

struct pretend_stream {
    struct lane_stream stream;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    struct pretend_task tasks[PRETEND_TASKS]; /* of one run */
    int sent, done;
    bool ending, forgets; /* forgets: awaits nobody */
    int most_ahead;       /* that were sent and not done, at most */
    int fails_at;         /* the mark of this number, counted over all, is not reached: the device has failed; 0: none */
    int reached_count;
    uint64_t seed;
    struct pretend_mark marks[PRETEND_MARKS];
};

static inline void pretend_await(struct pretend_stream *of, int mark, uint32_t made)
{
    pthread_mutex_lock(&of->lock);
    while (of->marks[mark].reached < made) pthread_cond_wait(&of->changed, &of->lock);
    pthread_mutex_unlock(&of->lock);
}

static inline void pretend_do(struct pretend_stream *stream, const struct pretend_task *task)
{
    if (task->call) task->call(task->user, task->argument);
    else if (task->of != stream) pretend_await(task->of, task->mark, task->made);
    else {
        pthread_mutex_lock(&stream->lock);
        stream->marks[task->mark].reached = task->made;
        stream->marks[task->mark].at_ns = clock_ns();
        pthread_cond_broadcast(&stream->changed);
        pthread_mutex_unlock(&stream->lock);
    }
}

static inline void *pretend_main(void *argument)
{
    struct pretend_stream *stream = argument;
    pthread_mutex_lock(&stream->lock);
    for (;;) {
        while (stream->done == stream->sent && !stream->ending) pthread_cond_wait(&stream->changed, &stream->lock);
        if (stream->done == stream->sent) break;
        const struct pretend_task task = stream->tasks[stream->done % PRETEND_TASKS];
        const uint64_t seed = stream->seed, number = (uint64_t)stream->done;
        pthread_mutex_unlock(&stream->lock);
        if (seed && rng_u64(seed, 3, number) % 4 == 0)
            nanosleep(&(struct timespec){0, (long)(rng_u64(seed, 4, number) % 200000)}, NULL);
        pretend_do(stream, &task);
        pthread_mutex_lock(&stream->lock);
        stream->done++;
        pthread_cond_broadcast(&stream->changed);
    }
    pthread_mutex_unlock(&stream->lock);
    return NULL;
}

static inline void pretend_send(struct pretend_stream *stream, struct pretend_task task)
{
    pthread_mutex_lock(&stream->lock);
    while (stream->sent - stream->done == PRETEND_TASKS) pthread_cond_wait(&stream->changed, &stream->lock);
    stream->tasks[stream->sent++ % PRETEND_TASKS] = task;
    if (stream->sent - stream->done > stream->most_ahead) stream->most_ahead = stream->sent - stream->done;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
}

static inline int pretend_mark(void *user, int mark, struct error *err)
{
    struct pretend_stream *stream = user;
    (void)err;
    pthread_mutex_lock(&stream->lock);
    const uint32_t made = ++stream->marks[mark].made;
    pthread_mutex_unlock(&stream->lock);
    pretend_send(stream, (struct pretend_task){.of = stream, .mark = mark, .made = made});
    return STATUS_OK;
}

static inline int pretend_follow(void *user, const struct lane_stream *other, int mark, struct error *err)
{
    struct pretend_stream *stream = user, *of = other->user;
    (void)err;
    pthread_mutex_lock(&of->lock);
    const uint32_t made = of->marks[mark].made;
    pthread_mutex_unlock(&of->lock);
    if (!stream->forgets) pretend_send(stream, (struct pretend_task){.of = of, .mark = mark, .made = made});
    return STATUS_OK;
}

static inline int pretend_reach(void *user, int mark, uint64_t *at_ns, struct error *err)
{
    struct pretend_stream *stream = user;
    pthread_mutex_lock(&stream->lock);
    while (stream->marks[mark].reached < stream->marks[mark].made) pthread_cond_wait(&stream->changed, &stream->lock);
    *at_ns = stream->marks[mark].at_ns;
    const bool fails = ++stream->reached_count == stream->fails_at;
    pthread_mutex_unlock(&stream->lock);
    return fails ? error_set(err, STATUS_RUN, "the device broke") : STATUS_OK;
}

static inline void pretend_open(struct pretend_stream *stream)
{
    *stream = (struct pretend_stream){.stream = {stream, pretend_mark, pretend_follow, pretend_reach}};
    pthread_mutex_init(&stream->lock, NULL);
    pthread_cond_init(&stream->changed, NULL);
    if (pthread_create(&stream->thread, NULL, pretend_main, stream)) abort();
}

/* All that was sent is done. Streams that await each other end before any is closed. */
static inline void pretend_end(struct pretend_stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    stream->ending = true;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
    pthread_join(stream->thread, NULL);
}

static inline void pretend_close(struct pretend_stream *stream)
{
    pthread_cond_destroy(&stream->changed);
    pthread_mutex_destroy(&stream->lock);
}
