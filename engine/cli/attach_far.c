/* `zerolab attach HOST:RUN`: a launch agent (ssh) starts `zerolab attach --stdio RUN` on that host, which carries bytes between the
 * run's socket there and its standard input and output. So the network has no port of ours, and ssh decides who may attach. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/cli/front.h"
#include "engine/launch/launch.h"
#include "engine/trace/listen.h"

/* ---- on that host ---- */

/* Moves what can be read from one descriptor to the other. False: the end, or nobody reads there any more. */
static bool carry(int from, int to)
{
    char bytes[65536];
    ssize_t count = read(from, bytes, sizeof bytes);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) return true;
    return count > 0 && file_put(to, bytes, (size_t)count);
}

int attach_carry(const char *socket_path, bool watches, struct error *err)
{
    int fd, status = connect_to(&fd, socket_path, watches, err);
    if (status) return status;
    signal(SIGPIPE, SIG_IGN);
    for (bool open = true; open;) {
        struct pollfd ends[] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = fd, .events = POLLIN}};
        if (poll(ends, 2, -1) < 0) continue;
        if (ends[0].revents) open = carry(STDIN_FILENO, fd);
        if (open && ends[1].revents) open = carry(fd, STDOUT_FILENO);
    }
    close(fd);
    return STATUS_OK;
}

/* ---- here ---- */

struct agent {
    const char *command, *host;
    pid_t pid;
    int said_fd; /* a file without a name: what the agent printed */
};

/* Other hosts may have the program at this place or on their PATH. The name of the run is digits. */
static int command_of(char *out, size_t room, const char *run, bool watches, struct error *err)
{
    char program[LAUNCH_PROGRAM_ROOM], rest[64];
    int status = launch_program(program, err);
    snprintf(rest, sizeof rest, "attach --stdio%s %s", watches ? " --readonly" : "", run);
    const bool quotable = !strchr(program, '\'');
    if (!status && quotable)
        snprintf(out, room, "[ -x '%s' ] && exec '%s' %s; exec zerolab %s", program, program, rest, rest);
    else snprintf(out, room, "exec zerolab %s", rest);
    return status;
}

/* The agent's words are the user's own, and may hold options. The shell becomes the agent. */
static void become(const struct agent *agent, int fd, const char *command)
{
    char script[1024];
    snprintf(script, sizeof script, "exec %s \"$@\"", agent->command);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    dup2(fd, STDIN_FILENO);
    dup2(fd, STDOUT_FILENO);
    dup2(agent->said_fd, STDERR_FILENO);
    execl("/bin/sh", "sh", "-c", script, "sh", agent->host, command, (char *)NULL);
    _exit(127);
}

/* Says why the agent has ended. A status of zerolab on that host is kept, if it is the user's fault. */
static int explain(const struct agent *agent, struct error *err)
{
    char said[16384], name[320];
    int ended = 0;
    waitpid(agent->pid, &ended, 0);
    const ssize_t count = pread(agent->said_fd, said, sizeof said - 1, 0);
    said[count > 0 ? count : 0] = '\0';
    snprintf(name, sizeof name, "the launch agent \"%.256s\"", agent->command);
    if (!failure_explain(ended, said, name, err)) error_set(err, STATUS_INPUT, "%s ended", name);
    if (err->status != STATUS_USAGE) err->status = STATUS_INPUT;
    return error_prefix(err, "host %s", agent->host);
}

/* The first bytes come when the agent is in, after a password perhaps. */
static int await_stream(const struct agent *agent, int fd, struct error *err)
{
    enum { PATIENCE_MS = 60000 };
    char first;
    struct pollfd answer = {.fd = fd, .events = POLLIN};
    const int ready = poll(&answer, 1, PATIENCE_MS);
    if (ready > 0 && recv(fd, &first, 1, MSG_PEEK) > 0) return STATUS_OK;
    if (ready > 0) return explain(agent, err);
    kill(agent->pid, SIGTERM);
    return error_set(err, STATUS_INPUT, "host %s: no answer through the launch agent \"%s\" in %d s", agent->host,
                     agent->command, PATIENCE_MS / 1000);
}

static int connect_through(int *out, struct agent *agent, const char *command, struct error *err)
{
    int ends[2];
    agent->said_fd = memfd_create("zerolab-agent", MFD_CLOEXEC);
    if (agent->said_fd < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return error_set(err, STATUS_RUN, "no socket for the launch agent: %s", strerror(errno));
    agent->pid = fork();
    if (agent->pid == 0) become(agent, ends[1], command);
    close(ends[1]);
    int status = agent->pid < 0 ? error_set(err, STATUS_RUN, "no process for the launch agent: %s", strerror(errno))
                                : await_stream(agent, ends[0], err);
    close(agent->said_fd);
    if (status) close(ends[0]);
    else *out = ends[0];
    return status;
}

int attach_far(struct source **source, const char *name, const char *agent_command, bool watches, struct error *err)
{
    char host[256], command[2 * LAUNCH_PROGRAM_ROOM + 256];
    const char *run = strrchr(name, ':') + 1;
    struct agent agent = {.command = agent_command ? agent_command : "ssh", .host = host};
    snprintf(host, sizeof host, "%.*s", (int)(run - 1 - name), name);
    if (!*host || *host == '-' || run[strspn(run, "0123456789")])
        return error_set(err, STATUS_USAGE, "%s is not HOST:RUN, as in node7:4711", name);
    int fd = -1, status = command_of(command, sizeof command, run, watches, err);
    if (!status) status = connect_through(&fd, &agent, command, err);
    return status ? status : source_adopt_fd(source, fd, err);
}
