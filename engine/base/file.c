#include "engine/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/words.h"

enum { PIPE_TICK_MS = 10, LINKS_MAX = 8, PIECE_BYTES = 1 << 16 };

static FILE *stream_of(int fd, const char *mode)
{
    FILE *file = fd < 0 ? NULL : fdopen(fd, mode);
    if (!file && fd >= 0) close(fd);
    return file;
}

/* ---- names that the program chose ---- */

int file_create(const char *path, int flags)
{
    if (unlink(path) != 0 && errno != ENOENT) return -1;
    return open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | flags, 0666);
}

FILE *file_create_stream(const char *path)
{
    return stream_of(file_create(path, 0), "w");
}

FILE *file_unnamed(const char *folder)
{
    return stream_of(open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600), "w+");
}

/* ---- names that the user gave ---- */

static bool is_pipe(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISFIFO(about.st_mode);
}

/* Opens with O_NONBLOCK, because otherwise a pipe without a reader would block for ever. */
static int open_patiently(const char *path, int flags)
{
    const uint64_t until_ns = clock_ns() + (uint64_t)FILE_PIPE_PATIENCE_MS * 1000000;
    int fd;
    while ((fd = open(path, flags | O_NONBLOCK | O_CLOEXEC, 0666)) < 0 && errno == ENXIO && is_pipe(path) &&
           clock_ns() < until_ns)
        poll(NULL, 0, PIPE_TICK_MS);
    if (fd >= 0) fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    return fd;
}

/* The target of the link `fd`; a relative target counts from the folder of `path`. */
static bool target_of(char target[PATH_MAX], int fd, const char *path)
{
    char text[PATH_MAX];
    const ssize_t length = readlinkat(fd, "", text, sizeof text - 1);
    if (length <= 0) return false;
    text[length] = '\0';
    const char *slash = strrchr(path, '/');
    const int folder = *text == '/' || !slash ? 0 : (int)(slash + 1 - path);
    if (snprintf(target, PATH_MAX, "%.*s%s", folder, path, text) < PATH_MAX) return true;
    return errno = ENAMETOOLONG, false;
}

/* Links in /proc belong to the kernel and may point to files without a name. Any other link is held open while its
 * owner is checked and its target is read, so that another process cannot exchange it in between. */
static int open_link(const char *path, int flags, int links)
{
    struct stat about;
    struct statfs place;
    char target[PATH_MAX];
    int link = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC), fd = -1;
    if (link < 0 || fstat(link, &about) != 0 || fstatfs(link, &place) != 0) fd = -1;
    else if (place.f_type == PROC_SUPER_MAGIC) fd = open_patiently(path, flags);
    else if (!S_ISLNK(about.st_mode)) errno = EAGAIN; /* it has just been replaced */
    else if (about.st_uid != geteuid() && about.st_uid != 0) errno = ELOOP;
    else if (links == LINKS_MAX) errno = EMLINK;
    else if (target_of(target, link, path)) {
        fd = open_patiently(target, flags | O_NOFOLLOW);
        if (fd < 0 && errno == ELOOP) fd = open_link(target, flags, links + 1);
    }
    const int cause = errno;
    if (link >= 0) close(link);
    return errno = cause, fd;
}

void file_make_folders(char *path)
{
    for (char *slash = path + 1; (slash = strchr(slash, '/')); slash++) *slash = '\0', mkdir(path, 0755), *slash = '/';
}

bool file_replace(char *path, const char *text)
{
    char beside[PATH_MAX];
    file_make_folders(path);
    if (snprintf(beside, sizeof beside, "%s.new", path) >= (int)sizeof beside) return errno = ENAMETOOLONG, false;
    FILE *file = file_create_stream(beside);
    const bool ends = *text && text[strlen(text) - 1] == '\n';
    bool written = file && fprintf(file, ends ? "%s" : "%s\n", text) >= 0;
    if (file && fclose(file) != 0) written = false;
    if (written && rename(beside, path) == 0) return true;
    const int cause = errno;
    unlink(beside);
    return errno = cause, false;
}

int file_state_path(char *path, size_t room, const char *name)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    if (state && *state == '/') return snprintf(path, room, "%s/zerolab/%s", state, name);
    return home && *home == '/' ? snprintf(path, room, "%s/.local/state/zerolab/%s", home, name) : -1;
}

int file_open_named(const char *path, int flags)
{
    int fd = open_patiently(path, flags | O_NOFOLLOW);
    return fd < 0 && errno == ELOOP ? open_link(path, flags, 1) : fd;
}

FILE *file_open_named_stream(const char *path, int flags)
{
    return stream_of(file_open_named(path, O_WRONLY | O_CREAT | flags), flags & O_APPEND ? "a" : "w");
}

bool file_ends_in(const char *name, const char *ending)
{
    return *name && *name != '.' && text_ends_in(name + 1, ending);
}

const char *file_why(int cause)
{
    if (cause == ELOOP) return "it is a link of another user; give the file itself";
    if (cause == ENXIO) return "it is a pipe without a reader";
    return strerror(cause);
}

/* ---- all of the bytes, though a call may move some of them or be interrupted ---- */

size_t file_get(int fd, void *out, size_t count, uint64_t offset)
{
    for (size_t done = 0; done < count;) {
        const ssize_t got = pread(fd, (char *)out + done, count - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got == 0) errno = ENODATA;
        if (got <= 0) return done;
        done += (size_t)got;
    }
    return count;
}

bool file_put(int fd, const void *bytes, size_t count)
{
    for (size_t done = 0; done < count;) {
        const ssize_t put = write(fd, (const char *)bytes + done, count - done);
        if (put < 0 && errno == EINTR) continue;
        if (put == 0) errno = ENOSPC;
        if (put <= 0) return false;
        done += (size_t)put;
    }
    return true;
}

bool file_number(const char *path, const char *format, uint64_t *value)
{
    char line[160];
    FILE *file = fopen(path, "re");
    bool found = false;
    while (file && !found && fgets(line, sizeof line, file)) found = sscanf(line, format, value) == 1;
    if (file) fclose(file);
    return found;
}

/* ---- with a descriptor ---- */

union control {
    struct cmsghdr header;
    char room[CMSG_SPACE(sizeof(int))];
};

bool file_send(int to, const void *bytes, size_t count, int passed)
{
    union control control = {.header.cmsg_len = 0};
    struct iovec vector = {(void *)(uintptr_t)bytes, count};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
    if (passed >= 0) {
        message.msg_control = control.room;
        message.msg_controllen = sizeof control.room;
        control.header = (struct cmsghdr){CMSG_LEN(sizeof passed), SOL_SOCKET, SCM_RIGHTS};
        memcpy(CMSG_DATA(&control.header), &passed, sizeof passed);
    }
    while (vector.iov_len) {
        const ssize_t sent = sendmsg(to, &message, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) return false;
        vector = (struct iovec){(char *)vector.iov_base + sent, vector.iov_len - (size_t)sent};
        message.msg_controllen = 0;
    }
    return true;
}

bool file_receive(int from, void *bytes, size_t count, int *passed)
{
    union control control = {.header.cmsg_len = 0};
    struct iovec vector = {bytes, count};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = passed ? control.room : NULL};
    if (passed) *passed = -1;
    while (vector.iov_len) {
        message.msg_controllen = passed && *passed < 0 ? sizeof control.room : 0;
        const ssize_t got = recvmsg(from, &message, MSG_CMSG_CLOEXEC | MSG_WAITALL);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        const struct cmsghdr *with = CMSG_FIRSTHDR(&message);
        if (with && with->cmsg_level == SOL_SOCKET && with->cmsg_type == SCM_RIGHTS)
            memcpy(passed, CMSG_DATA(with), sizeof *passed);
        vector = (struct iovec){(char *)vector.iov_base + got, vector.iov_len - (size_t)got};
    }
    return true;
}

/* ---- reading ---- */

/* Reads more bytes; 0 at the end, -1 on error. A pipe may have no bytes and no writer yet: then it is tried until `until_ns`. */
static ssize_t read_some(int fd, char *at, size_t room, bool waits, uint64_t until_ns)
{
    for (;;) {
        const ssize_t got = read(fd, at, room);
        if (got < 0 && errno == EAGAIN) poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, -1);
        else if (got == 0 && waits && clock_ns() < until_ns) poll(NULL, 0, PIPE_TICK_MS);
        else if (got >= 0 || errno != EINTR) return got;
    }
}

static int read_open(char **text, size_t *length, int fd, const struct stat *about, size_t most, struct error *err)
{
    const bool pipe = S_ISFIFO(about->st_mode), is_small = S_ISREG(about->st_mode) && (uint64_t)about->st_size < most;
    const uint64_t until_ns = clock_ns() + (uint64_t)FILE_PIPE_PATIENCE_MS * 1000000;
    size_t room = is_small ? (size_t)about->st_size + 2 : PIECE_BYTES;
    for (ssize_t got = 1; got > 0; *length += (size_t)got) {
        if (*length + 1 >= room || !*text) {
            char *more = realloc(*text, room = *text ? 2 * room : room);
            if (!more) return error_set(err, STATUS_RUN, "no memory to read it");
            *text = more;
        }
        got = read_some(fd, *text + *length, room - 1 - *length, pipe && !*length, until_ns);
        if (got < 0) return error_set(err, STATUS_INPUT, "cannot be read: %s", strerror(errno));
        if (*length + (size_t)got > most) return error_set(err, STATUS_INPUT, "longer than %zu bytes", most);
    }
    if (pipe && !*length) return error_set(err, STATUS_INPUT, "a pipe without a writer; give a file");
    return (*text)[*length] = '\0', STATUS_OK;
}

int file_read(char **text, size_t *length, const char *path, size_t most, bool pipes, struct error *err)
{
    struct stat about;
    int status, fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    *text = NULL, *length = 0;
    if (fd < 0 || fstat(fd, &about) != 0) status = error_set(err, STATUS_INPUT, "cannot be opened: %s", strerror(errno));
    else if (S_ISDIR(about.st_mode)) status = error_set(err, STATUS_INPUT, "cannot be read: %s", strerror(EISDIR));
    else if (!pipes && !S_ISREG(about.st_mode)) status = error_set(err, STATUS_INPUT, "a pipe or a device, not a file");
    else status = read_open(text, length, fd, &about, most, err);
    if (fd >= 0) close(fd);
    if (status) free(*text), *text = NULL;
    return status;
}
