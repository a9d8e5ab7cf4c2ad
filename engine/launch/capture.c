#include "engine/launch/capture.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/base/file.h"

enum { HEAD_BYTES = 16384, TAIL_BYTES = 16384 };

struct capture {
    pthread_t thread;
    int read_fd, stop_fd, ended_fd; /* stop: asks the thread to end; ended: it says that it has */
    FILE *file; /* of the log; NULL: none */
    struct capture_log *log;
    size_t head_bytes, tail_bytes; /* tail_bytes counts all that came after the head; the tail is a ring */
    char head[HEAD_BYTES], tail[TAIL_BYTES];
};

static void keep(struct capture *capture, const char *bytes, size_t count)
{
    if (capture->file && fwrite(bytes, 1, count, capture->file) < count && !capture->log->cause)
        capture->log->cause = errno;
    size_t i = 0;
    while (i < count && capture->head_bytes < HEAD_BYTES) capture->head[capture->head_bytes++] = bytes[i++];
    while (i < count) capture->tail[capture->tail_bytes++ % TAIL_BYTES] = bytes[i++];
}

static void read_all(struct capture *capture)
{
    struct pollfd polled[2] = {{.fd = capture->read_fd, .events = POLLIN}, {.fd = capture->stop_fd, .events = POLLIN}};
    char bytes[4096];
    for (;;) {
        if (poll(polled, 2, -1) < 0 && errno != EINTR) return;
        if (polled[0].revents) {
            ssize_t count = read(capture->read_fd, bytes, sizeof bytes);
            if (count == 0 || (count < 0 && errno != EINTR && errno != EAGAIN)) return;
            if (count > 0) keep(capture, bytes, (size_t)count);
        } else if (polled[1].revents) {
            return;
        }
    }
}

static void *run(void *user)
{
    struct capture *capture = user;
    read_all(capture);
    eventfd_write(capture->ended_fd, 1);
    return NULL;
}

int capture_start(struct capture **out, int read_fd, struct capture_log *log, struct error *err)
{
    struct capture *capture = calloc(1, sizeof *capture);
    int status = STATUS_OK;
    if (capture) *capture = (struct capture){.read_fd = read_fd, .log = log, .stop_fd = eventfd(0, EFD_CLOEXEC), .ended_fd = eventfd(0, EFD_CLOEXEC)};
    if (!capture || capture->stop_fd < 0 || capture->ended_fd < 0) status = error_set(err, STATUS_RUN, "no memory to start the engine");
    if (!status && log->path && !(capture->file = file_open_named_stream(log->path, O_APPEND)))
        status = error_set(err, STATUS_USAGE, "cannot write the log %s: %s", log->path, file_why(errno));
    if (!status && pthread_create(&capture->thread, NULL, run, capture) != 0)
        status = error_set(err, STATUS_RUN, "cannot start a thread");
    if (!status) return *out = capture, STATUS_OK;

    if (capture && capture->file) fclose(capture->file);
    if (capture && capture->stop_fd >= 0) close(capture->stop_fd);
    if (capture && capture->ended_fd >= 0) close(capture->ended_fd);
    free(capture);
    close(read_fd);
    return status;
}

bool capture_wait(struct capture *capture, int timeout_ms)
{
    struct pollfd ended = {.fd = capture->ended_fd, .events = POLLIN};
    if (!capture->thread) return true;
    if (poll(&ended, 1, timeout_ms) <= 0) return false; /* unaffected by setting the wall clock */
    pthread_join(capture->thread, NULL);
    capture->thread = 0;
    return true;
}

static char *join_text(const struct capture *capture)
{
    size_t kept = capture->tail_bytes < TAIL_BYTES ? capture->tail_bytes : TAIL_BYTES;
    char *text = malloc(capture->head_bytes + kept + 1);
    if (!text) return NULL;
    memcpy(text, capture->head, capture->head_bytes);
    for (size_t i = 0; i < kept; i++)
        text[capture->head_bytes + i] = capture->tail[(capture->tail_bytes - kept + i) % TAIL_BYTES];
    text[capture->head_bytes + kept] = '\0';
    return text;
}

char *capture_finish(struct capture *capture)
{
    uint64_t one = 1;
    if (capture->thread && write(capture->stop_fd, &one, sizeof one) == sizeof one) pthread_join(capture->thread, NULL);
    char *text = join_text(capture);
    if (capture->file && fclose(capture->file) != 0 && !capture->log->cause) capture->log->cause = errno;
    close(capture->read_fd);
    close(capture->stop_fd);
    close(capture->ended_fd);
    free(capture);
    return text;
}
