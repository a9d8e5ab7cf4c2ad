#include "engine/launch/home.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* A close-on-exec Unix stream socket, and the address of `home` in the folder. */
static int make_socket(const struct rundir *dir, struct sockaddr_un *address)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    rundir_path(dir, "home", address->sun_path, sizeof address->sun_path);
    return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

int home_listen(const struct rundir *dir, int *listen_fd, struct error *err)
{
    struct sockaddr_un address;
    int fd = make_socket(dir, &address);
    unlink(address.sun_path); /* that of the engine before */
    /* Linux gives the path the mode that the socket has at bind(). */
    if (fd >= 0 && fchmod(fd, 0600) == 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0 && listen(fd, 1) == 0)
        return *listen_fd = fd, STATUS_OK;
    int status = error_set(err, STATUS_RUN, "cannot listen on %s: %s", address.sun_path, strerror(errno));
    if (fd >= 0) close(fd);
    return status;
}

int home_call(const struct rundir *dir, int *connected_fd, struct error *err)
{
    struct sockaddr_un address;
    int fd = make_socket(dir, &address);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0) return *connected_fd = fd, STATUS_OK;
    int status = error_set(err, STATUS_RUN, "the front end is gone (%s: %s)", address.sun_path, strerror(errno));
    if (fd >= 0) close(fd);
    return status;
}
