#include "engine/launch/rundir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static const char prefix[] = "zerolab-", lab_ending[] = "-lab";

/* Whether it is a folder (no link), belongs to this user and is closed to all others. */
static bool is_own(const struct stat *s)
{
    return S_ISDIR(s->st_mode) && s->st_uid == geteuid() && (s->st_mode & 077) == 0;
}

static bool is_private(const char *path)
{
    struct stat s;
    return lstat(path, &s) == 0 && is_own(&s);
}

static void own_base(char *base, size_t room)
{
    snprintf(base, room, "/tmp/%s%u", prefix, (unsigned)geteuid());
}

static int refuse_base(const char *base, const struct stat *s, struct error *err)
{
    if (s->st_uid == geteuid())
        return error_set(err, STATUS_RUN, "%s must be a folder that only you may enter; remove it, or: chmod 700 %s",
                         base, base);
    return error_set(
        err, STATUS_RUN,
        "%s belongs to another user (%u), so your runs cannot be kept there; set XDG_RUNTIME_DIR to a folder "
        "of yours with mode 0700",
        base, (unsigned)s->st_uid);
}

/* The folder that holds this user's run folders; make: create it if it is missing. A socket's path must stay under
 * 108 bytes, so a long XDG_RUNTIME_DIR is not used. */
static int base_folder(char *base, int room, bool make, struct error *err)
{
    struct stat s;
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    if (runtime && *runtime == '/' && strlen(runtime) < 48 && is_private(runtime) && access(runtime, W_OK) == 0) {
        snprintf(base, (size_t)room, "%s", runtime);
        return STATUS_OK;
    }
    own_base(base, (size_t)room);
    do { /* the last run of others removes it when it ends, maybe just now */
        if (make && mkdir(base, 0700) != 0 && errno != EEXIST)
            return error_set(err, STATUS_RUN, "cannot make %s: %s", base, strerror(errno));
        if (lstat(base, &s) == 0) return is_own(&s) ? STATUS_OK : refuse_base(base, &s, err);
    } while (make && errno == ENOENT);
    return error_set(err, STATUS_RUN, "cannot use %s: %s", base, strerror(errno));
}

static int remove_entry(const char *path, const struct stat *s, int type, struct FTW *where)
{
    (void)s, (void)type, (void)where;
    remove(path);
    return 0;
}

/* mpirun's daemons may still be removing or adding files: a file that vanishes meanwhile is no error, and later
 * passes remove added ones. */
static void remove_tree(const char *path)
{
    for (int pass = 0; pass < 3 && access(path, F_OK) == 0; pass++) nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static int open_lock(const char *folder, int flags)
{
    char path[96];
    snprintf(path, sizeof path, "%s/lock", folder);
    return open(path, flags | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
}

/* While a folder is being made, its lock is missing or not yet held. So a young folder of a live process is not
 * stale. */
static bool is_stale(const char *folder, pid_t pid)
{
    enum { YOUNG_S = 5 };
    struct stat s;
    bool gone = kill(pid, 0) != 0 && errno == ESRCH;
    if (!gone && (stat(folder, &s) != 0 || time(NULL) - s.st_ctime < YOUNG_S)) return false;
    int fd = open_lock(folder, 0);
    if (fd < 0) return gone;
    bool stale = flock(fd, LOCK_EX | LOCK_NB) == 0;
    close(fd);
    return stale;
}

typedef void visit(void *user, const char *path, pid_t pid);

static void each_folder(visit *visitor, void *user)
{
    char base[64];
    if (base_folder(base, sizeof base, false, NULL)) return;
    DIR *entries = opendir(base);
    for (struct dirent *entry; entries && (entry = readdir(entries));) {
        char path[80], *end;
        if (strncmp(entry->d_name, prefix, sizeof prefix - 1) != 0) continue;
        long pid = strtol(entry->d_name + sizeof prefix - 1, &end, 10);
        if (pid <= 0 || (*end && strcmp(end, lab_ending) != 0) ||
            snprintf(path, sizeof path, "%s/%s", base, entry->d_name) >= (int)sizeof path)
            continue;
        if (is_private(path)) visitor(user, path, (pid_t)pid);
    }
    if (entries) closedir(entries);
}

static void sweep_one(void *user, const char *path, pid_t pid)
{
    if (!is_stale(path, pid)) return;
    remove_tree(path);
    ++*(int *)user;
}

int rundir_sweep(void)
{
    int removed = 0;
    each_folder(sweep_one, &removed);
    return removed;
}

static int take_lock(struct rundir *dir, int flags, struct error *err)
{
    dir->lock_fd = open_lock(dir->path, flags);
    if (dir->lock_fd >= 0 && flock(dir->lock_fd, LOCK_SH) == 0) return STATUS_OK;
    return error_set(err, STATUS_RUN, "cannot lock %s/lock: %s", dir->path, strerror(errno));
}

/* Tries again while another run that ends has removed the empty folder of all runs in between. */
int rundir_create(struct rundir *dir, bool of_lab, struct error *err)
{
    char base[64];
    dir->lock_fd = -1;
    dir->path[0] = '\0';
    rundir_sweep();
    do {
        int status = base_folder(base, sizeof base, true, err);
        if (status) return status;
        snprintf(dir->path, sizeof dir->path, "%s/%s%d%s", base, prefix, (int)getpid(), of_lab ? lab_ending : "");
        if (mkdir(dir->path, 0700) == 0) return take_lock(dir, O_CREAT, err);
    } while (errno == ENOENT);
    int status = error_set(err, STATUS_RUN, "cannot make %s: %s", dir->path, strerror(errno));
    dir->path[0] = '\0';
    return status;
}

int rundir_join(struct rundir *dir, const char *path, struct error *err)
{
    snprintf(dir->path, sizeof dir->path, "%s", path);
    return take_lock(dir, 0, err);
}

void rundir_close(struct rundir *dir, bool remove)
{
    if (remove && dir->path[0]) {
        char own[64];
        remove_tree(dir->path);
        own_base(own, sizeof own);
        rmdir(own); /* goes with the last run; $XDG_RUNTIME_DIR belongs to the system and stays */
    }
    if (dir->lock_fd >= 0) close(dir->lock_fd);
    dir->lock_fd = -1;
}

void rundir_path(const struct rundir *dir, const char *name, char *out, int room)
{
    snprintf(out, (size_t)room, "%s/%s", dir->path, name);
}

void rundir_remove(const struct rundir *dir, const char *name)
{
    char path[128];
    rundir_path(dir, name, path, sizeof path);
    remove_tree(path);
}

/* Moves it beside the run's folder, under a name that rundir_sweep() leaves alone. */
int rundir_keep(const struct rundir *dir, const char *name, char *out, int room, struct error *err)
{
    char path[128];
    const char *own = strrchr(dir->path, '/') + 1;
    rundir_path(dir, name, path, sizeof path);
    snprintf(out, (size_t)room, "%.*s%skept-%s", (int)(own - dir->path), dir->path, prefix, own + sizeof prefix - 1);
    if (rename(path, out) == 0) return STATUS_OK;
    return error_set(err, STATUS_RUN, "cannot move %s to %s: %s", path, out, strerror(errno));
}

struct others {
    const struct rundir *but;
    void (*look)(void *user, const char *path, int64_t pid);
    void *user;
};

static void look_at_one(void *user, const char *path, pid_t pid)
{
    const struct others *others = user;
    if (others->but && strcmp(path, others->but->path) == 0) return;
    int fd = open_lock(path, 0);
    const bool alive = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0;
    if (fd >= 0) close(fd);
    if (alive) others->look(others->user, path, pid);
}

void rundir_others(const struct rundir *but, void (*look)(void *, const char *, int64_t), void *user)
{
    each_folder(look_at_one, &(struct others){but, look, user});
}

struct finding {
    struct rundir_found *found;
    int count, room;
};

/* Seconds since the process began, by the boot clock, because the wall clock may have been set meanwhile. */
static int64_t age_s(pid_t pid)
{
    char path[48], stat[1024] = "";
    unsigned long long began_ticks = 0;
    struct timespec now;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    if (!file) return 0;
    stat[fread(stat, 1, sizeof stat - 1, file)] = '\0';
    fclose(file);
    const char *after_name = strrchr(stat, ')'); /* field 2; the time is field 22 */
    for (int field = 2; after_name && field < 22; field++) after_name = strchr(after_name + 1, ' ');
    if (!after_name || sscanf(after_name, "%llu", &began_ticks) != 1) return 0;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return now.tv_sec - (int64_t)(began_ticks / (unsigned long long)sysconf(_SC_CLK_TCK));
}

static void find_one(void *user, const char *path, pid_t pid)
{
    struct finding *finding = user;
    char socket_path[96];
    struct stat s;
    snprintf(socket_path, sizeof socket_path, "%s/socket", path);
    if (finding->count == finding->room || is_stale(path, pid) || stat(socket_path, &s) != 0) return;
    struct rundir_found *found = &finding->found[finding->count++];
    *found = (struct rundir_found){.pid = pid, .age_s = age_s(pid)};
    snprintf(found->path, sizeof found->path, "%s", path);
}

static int newest_first(const void *a, const void *b)
{
    const struct rundir_found *x = a, *y = b;
    if (x->age_s != y->age_s) return x->age_s > y->age_s ? 1 : -1;
    return x->pid < y->pid ? 1 : -1;
}

int rundir_list(struct rundir_found *found, int room)
{
    struct finding finding = {.found = found, .room = room};
    each_folder(find_one, &finding);
    qsort(found, (size_t)finding.count, sizeof *found, newest_first);
    return finding.count;
}

/* ---- where rank 0 finds its front end ---- */

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
    unlink(address.sun_path); /* the socket of the previous engine */
    /* Linux gives the path the mode that the socket has at bind(). */
    if (fd >= 0 && fchmod(fd, 0600) == 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
        listen(fd, 1) == 0)
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
