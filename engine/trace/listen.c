#include "engine/trace/listen.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

static int address_of(struct sockaddr_un *address, const char *path, struct error *err)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (!path[0] || strlen(path) >= sizeof address->sun_path)
        return error_set(err, STATUS_USAGE, "socket path of %zu bytes: %s; at most %zu fit", strlen(path), path,
                         sizeof address->sun_path - 1);
    strcpy(address->sun_path, path);
    return 0;
}

/* Binding an address with only a family asks Linux for a unique abstract name, which leaves no file behind. */
static bool name_end(int fd)
{
    return bind(fd, &(struct sockaddr){.sa_family = AF_UNIX}, sizeof(sa_family_t)) == 0;
}

/* A socket whose owner is gone refuses connections; then its path is free to be taken. */
static bool is_left_over(const struct sockaddr_un *address)
{
    struct stat what;
    if (lstat(address->sun_path, &what) != 0 || !S_ISSOCK(what.st_mode)) return false;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool refused = fd >= 0 && name_end(fd) && connect(fd, (const struct sockaddr *)address, sizeof *address) != 0 &&
                   errno == ECONNREFUSED;
    if (fd >= 0) close(fd);
    return refused;
}

int listen_at(int *out, const char *path, struct error *err)
{
    struct sockaddr_un address;
    int status = address_of(&address, path, err);
    if (status) return status;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return error_set(err, STATUS_RUN, "no socket: %s", strerror(errno));
    /* Linux gives the path the mode of the socket at bind(). So no umask is needed, which other threads would see, and
     * the path is never open to other users. */
    bool bound = fchmod(fd, 0600) == 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0;
    if (!bound && errno == EADDRINUSE && is_left_over(&address)) {
        unlink(path);
        bound = bind(fd, (struct sockaddr *)&address, sizeof address) == 0;
    }
    if (bound && chmod(path, 0600) == 0 && listen(fd, 16) == 0) {
        *out = fd;
        return 0;
    }
    int problem = errno;
    close(fd);
    if (problem == EADDRINUSE)
        return error_set(err, STATUS_USAGE, "socket %s is in use; stop the run that listens there or name another",
                         path);
    return error_set(err, STATUS_USAGE, "cannot listen at %s: %s", path, strerror(problem));
}

void unlisten(int fd)
{
    if (fd < 0) return;
    struct sockaddr_un address;
    socklen_t bytes = sizeof address;
    if (getsockname(fd, (struct sockaddr *)&address, &bytes) == 0) unlink(address.sun_path);
    close(fd);
}

int accept_from(int fd, bool *only_watches)
{
    struct sockaddr_un from;
    socklen_t bytes = sizeof from;
    int accepted = accept4(fd, (struct sockaddr *)&from, &bytes, SOCK_CLOEXEC);
    *only_watches = accepted >= 0 && bytes > sizeof(sa_family_t);
    return accepted;
}

int connect_to(int *out, const char *path, bool only_watches, struct error *err)
{
    const struct timeval patience = {.tv_sec = 2}; /* of connect(), when as many wait as fit */
    struct sockaddr_un address;
    int status = address_of(&address, path, err);
    if (status) return status;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return error_set(err, STATUS_RUN, "no socket: %s", strerror(errno));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if ((!only_watches || name_end(fd)) && connect(fd, (struct sockaddr *)&address, sizeof address) == 0) {
        *out = fd;
        return 0;
    }
    int problem = errno;
    close(fd);
    if (problem == EAGAIN)
        return error_set(err, STATUS_INPUT,
                         "the run at %s does not answer; if its engine was stopped, kill -CONT continues it", path);
    if (problem == ECONNREFUSED) return error_set(err, STATUS_INPUT, "no run listens at %s any more", path);
    return error_set(err, STATUS_INPUT, "cannot attach to %s: %s", path, strerror(problem));
}
