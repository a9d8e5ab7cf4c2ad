/* Sends and receives a handover: each descriptor travels with a head that gives its type and how many bytes follow. */
#include "engine/trace/handover.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

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

static bool send_all(int fd, const void *bytes, size_t count)
{
    for (size_t done = 0; done < count;) {
        ssize_t now = send(fd, (const char *)bytes + done, count - done, MSG_NOSIGNAL);
        if (now < 0 && errno == EINTR) continue;
        if (now <= 0) return false;
        done += (size_t)now;
    }
    return true;
}

union control {
    char room[CMSG_SPACE(sizeof(int))];
    struct cmsghdr align;
};

/* passed -1: sends the head without a descriptor. */
static bool send_head(int fd, const struct head *head, int passed)
{
    union control control = {0};
    struct iovec vector = {(void *)(uintptr_t)head, sizeof *head};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
    if (passed >= 0) {
        message.msg_control = control.room;
        message.msg_controllen = sizeof control.room;
        struct cmsghdr *with = CMSG_FIRSTHDR(&message);
        with->cmsg_level = SOL_SOCKET;
        with->cmsg_type = SCM_RIGHTS;
        with->cmsg_len = CMSG_LEN(sizeof passed);
        memcpy(CMSG_DATA(with), &passed, sizeof passed);
    }
    ssize_t sent;
    do sent = sendmsg(fd, &message, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent == sizeof *head;
}

static bool send_viewer(int fd, const struct viewer *viewer)
{
    const struct head head = {A_VIEWER, (uint32_t)viewer->queue.count, (uint32_t)viewer->line_bytes, viewer->terms};
    return send_head(fd, &head, viewer->fd) && send_all(fd, viewer->queue.at, viewer->queue.count) &&
           send_all(fd, viewer->line, viewer->line_bytes);
}

int handover_send(int fd, const struct handover *handover, struct error *err)
{
    errno = 0;
    bool sent = handover->listen_fd < 0 || send_head(fd, &(struct head){.what = THE_SOCKET}, handover->listen_fd);
    for (int i = 0; sent && i < handover->viewers; i++) sent = send_viewer(fd, &handover->viewer[i]);
    return sent && send_head(fd, &(struct head){.what = THE_END}, -1) ? STATUS_OK : failed(err);
}

/* ---- receiving ---- */

static bool receive_all(int fd, void *bytes, size_t count)
{
    for (size_t done = 0; done < count;) {
        ssize_t now = recv(fd, (char *)bytes + done, count - done, 0);
        if (now < 0 && errno == EINTR) continue;
        if (now <= 0) return false;
        done += (size_t)now;
    }
    return true;
}

static bool receive_head(int fd, struct head *head, int *passed)
{
    union control control = {0};
    struct iovec vector = {head, sizeof *head};
    struct msghdr message = {
        .msg_iov = &vector, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof control.room};
    ssize_t got;
    do got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC | MSG_WAITALL);
    while (got < 0 && errno == EINTR);
    const struct cmsghdr *with = got > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    *passed = -1;
    if (with && with->cmsg_level == SOL_SOCKET && with->cmsg_type == SCM_RIGHTS)
        memcpy(passed, CMSG_DATA(with), sizeof *passed);
    return got == sizeof *head;
}

/* The descriptor belongs to the handover from here on, whatever follows. */
static bool receive_viewer(int fd, const struct head *head, int passed, struct handover *handover)
{
    struct viewer *viewer = &handover->viewer[handover->viewers++];
    *viewer = (struct viewer){.fd = passed, .terms = head->terms, .line_bytes = head->line_bytes};
    if (head->queue_bytes > BYTES_MAX || !bytes_reserve(&viewer->queue, head->queue_bytes)) return false;
    viewer->queue.count = head->queue_bytes;
    return receive_all(fd, viewer->queue.at, head->queue_bytes) && head->line_bytes <= LINE_BYTES_MAX &&
           receive_all(fd, viewer->line, head->line_bytes);
}

static bool receive_one(int fd, struct handover *handover, bool *more)
{
    struct head head;
    int passed;
    if (!receive_head(fd, &head, &passed)) return false;
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
