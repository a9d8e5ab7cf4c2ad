/* Sends and receives a handover: each descriptor travels with a head that gives its type and how many bytes follow. */
#include "engine/trace/handover.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/file.h"

enum what { THE_SOCKET, A_VIEWER, THE_END };
enum { BYTES_MAX = 64 << 20 }; /* longer than any viewer's queue */

struct head {
    uint32_t what, queue_bytes, line_bytes;
    struct viewer_terms terms;
};

static int failed(struct error *err)
{
    return error_set(err, STATUS_RUN, "the viewers' connections could not be handed on: %s",
                     errno ? strerror(errno) : "the other side is gone");
}

/* ---- sending ---- */

static bool send_viewer(int fd, const struct viewer *viewer)
{
    const struct head head = {A_VIEWER, (uint32_t)viewer->queue.count, (uint32_t)viewer->line_bytes, viewer->terms};
    return file_send(fd, &head, sizeof head, viewer->fd) && file_send(fd, viewer->queue.at, viewer->queue.count, -1) &&
           file_send(fd, viewer->line, viewer->line_bytes, -1);
}

int handover_send(int fd, const struct handover *handover, struct error *err)
{
    errno = 0;
    const struct head listens = {.what = THE_SOCKET}, ends = {.what = THE_END};
    bool sent = handover->listen_fd < 0 || file_send(fd, &listens, sizeof listens, handover->listen_fd);
    for (int i = 0; sent && i < handover->viewers; i++) sent = send_viewer(fd, &handover->viewer[i]);
    return sent && file_send(fd, &ends, sizeof ends, -1) ? STATUS_OK : failed(err);
}

/* ---- receiving ---- */

/* The descriptor belongs to the handover from here on, whatever follows. */
static bool receive_viewer(int fd, const struct head *head, int passed, struct handover *handover)
{
    struct viewer *viewer = &handover->viewer[handover->viewers++];
    *viewer = (struct viewer){.fd = passed, .terms = head->terms, .line_bytes = head->line_bytes};
    if (head->queue_bytes > BYTES_MAX || !bytes_reserve(&viewer->queue, head->queue_bytes)) return false;
    viewer->queue.count = head->queue_bytes;
    return file_receive(fd, viewer->queue.at, head->queue_bytes, NULL) && head->line_bytes <= LINE_BYTES_MAX &&
           file_receive(fd, viewer->line, head->line_bytes, NULL);
}

static bool receive_one(int fd, struct handover *handover, bool *more)
{
    struct head head;
    int passed;
    if (!file_receive(fd, &head, sizeof head, &passed)) return false;
    *more = head.what != THE_END;
    if (!*more) return true;
    if (head.what == THE_SOCKET && passed >= 0 && handover->listen_fd < 0) return handover->listen_fd = passed, true;
    if (head.what == A_VIEWER && passed >= 0 && handover->viewers < VIEWERS_MAX)
        return receive_viewer(fd, &head, passed, handover);
    if (passed >= 0) close(passed);
    return false;
}

int handover_receive(int fd, struct handover *handover, struct error *err)
{
    bool more = true;
    *handover = (struct handover){.listen_fd = -1};
    errno = 0;
    while (more)
        if (!receive_one(fd, handover, &more)) return failed(err);
    return STATUS_OK;
}

void handover_release(struct handover *handover)
{
    if (handover->listen_fd >= 0) close(handover->listen_fd);
    for (int i = 0; i < handover->viewers; i++) {
        struct viewer *viewer = &handover->viewer[i];
        if (viewer->fd >= 0) close(viewer->fd);
        bytes_release(&viewer->queue);
    }
    *handover = (struct handover){.listen_fd = -1};
}
