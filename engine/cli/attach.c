/* `zerolab attach`: lists the live runs of this user, or watches one of them, here or on another host. For HOST:RUN a launch agent
 * (ssh) starts `zerolab attach --stdio RUN` there, which carries bytes between the run's socket and its standard input and output. So
 * the network has no port of ours, and ssh decides who may attach. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/printable.h"
#include "engine/base/template.h"
#include "engine/cli/front.h"
#include "engine/import/stream.h"
#include "engine/launch/launch.h"
#include "engine/launch/rundir.h"
#include "engine/trace/listen.h"

/* ---- another host: on that host, until one of both ends ---- */

/* Moves what can be read from one descriptor to the other. False: the end, or nobody reads there any more. */
static bool carry(int from, int to)
{
    char bytes[65536];
    ssize_t count = read(from, bytes, sizeof bytes);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) return true;
    return count > 0 && file_put(to, bytes, (size_t)count);
}

static int attach_carry(const char *socket_path, bool watches, struct error *err)
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

/* ---- another host: here ---- */

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

static int attach_far(struct source **source, const char *name, const char *agent_command, bool watches,
                      struct error *err)
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

enum { RUNS_MAX = 64 };

/* ---- the list: the first records that a viewer gets say what a run is and how it stands ---- */

static bool knows_enough(const struct run_model *model)
{
    return model->header.known && model->has_state;
}

/* False: the run has sent nothing. */
static bool look_at(struct run_model *model, const struct rundir_found *run)
{
    enum { PATIENCE_MS = 1000 };
    struct source *source;
    struct trace_record record;
    char path[96];
    bool answers = false;
    snprintf(path, sizeof path, "%s/socket", run->path);
    if (source_open_socket(&source, path, true, NULL)) return false;
    const uint64_t deadline_ns = clock_ns() + PATIENCE_MS * 1000000u;
    for (uint64_t now_ns; (now_ns = clock_ns()) < deadline_ns;) {
        const enum source_result result = source_next(source, &record);
        if (result == SOURCE_RECORD) run_model_fold(model, &record), answers = true;
        else if (result != SOURCE_WAIT || knows_enough(model)) break;
        else
            poll(&(struct pollfd){.fd = source_fd(source), .events = POLLIN}, 1,
                 (int)((deadline_ns - now_ns) / 1000000) + 1);
    }
    source_close(source);
    return answers;
}

static cJSON *run_object(const struct rundir_found *run, const struct run_model *model, bool answers)
{
    const long long age_s = (long long)run->age_s;
    const struct run_schedule *plan = run_training(model);
    const struct run_step *step = run_last_step(model);
    char age[48];
    snprintf(age, sizeof age, "%lld:%02lld:%02lld", age_s / 3600, age_s / 60 % 60, age_s % 60);
    cJSON *object = json_object(NUMBER("run", run->pid), NUMBER("seconds", run->age_s), TEXT(".age", age));
    if (!answers) cJSON_AddStringToObject(object, "state", "does not answer");
    if (!knows_enough(model)) return object;
    json_put(object, TEXT("model", model->header.model_name), NUMBER("ranks", model->header.ranks));
    if (plan) cJSON_AddNumberToObject(object, "stage", plan->stage);
    if (step) cJSON_AddNumberToObject(object, "step", step->step);
    cJSON_AddStringToObject(object, "state", run_state_name(model->state));
    return object;
}

static const char run_page[] =
    "{run}   for {.age}   {!ranks}{state|does not say yet what it is}{/}{?ranks}{model|unnamed model}, "
    "{ranks} rank{ranks:s}{?stage}, stage {stage}{/}{?step}, step {step}{/}, {state}{/}\n";

static void print_runs(FILE *out, const struct rundir_found *found, int count, bool json)
{
    if (json) fputc('[', out);
    for (int i = 0; i < count; i++) {
        struct run_model *model = run_model_new(&(struct run_model_options){.steps = 8, .notices = 8});
        if (!model) break;
        const bool answers = look_at(model, &found[i]);
        cJSON *object = run_object(&found[i], model, answers);
        char *text = json ? printable_json(cJSON_PrintUnformatted(template_strip(object))) : NULL;
        if (json) fprintf(out, "%s%s", i ? ",\n  " : "\n  ", text ? text : "");
        else template_print(out, run_page, object);
        free(text);
        cJSON_Delete(object);
        run_model_free(model);
    }
    if (json) fputs(count ? "\n]\n" : "]\n", out);
}

/* Several runs and no name: they are listed to `out`, if it is not NULL. */
static int choose(const struct rundir_found **chosen, const struct rundir_found *found, int count, const char *name,
                  FILE *out, struct error *err)
{
    char *end;
    long long pid = name ? strtoll(name, &end, 10) : 0;
    if (name && (*end || pid <= 0))
        return error_set(err, STATUS_USAGE, "%s is not the number of a run; see zerolab attach --json", name);
    for (int i = 0; i < count && name; i++)
        if (found[i].pid == pid) return *chosen = &found[i], STATUS_OK;
    if (name) return error_set(err, STATUS_INPUT, "no run %s goes on", name);
    if (count == 0) return error_set(err, STATUS_INPUT, "no run goes on; start one with zerolab train --detach");
    if (count == 1) return *chosen = &found[0], STATUS_OK;
    if (out) print_runs(out, found, count, false);
    return error_set(err, STATUS_USAGE, "%d runs go on; say which: zerolab attach %lld", count,
                     (long long)found[0].pid);
}

/* During a relaunch, the engine takes no viewers for some seconds. */
static int await_answer(const struct source *source, const struct rundir_found *run, struct error *err)
{
    enum { PATIENCE_MS = 10000 };
    struct pollfd answer = {.fd = source_fd(source), .events = POLLIN};
    if (poll(&answer, 1, PATIENCE_MS) > 0) return STATUS_OK;
    return error_set(err, STATUS_INPUT, "run %lld does not answer; if its engine was stopped, kill -CONT continues it",
                     (long long)run->pid);
}

int front_open_run(struct source **source, const char *name, bool watches, struct error *err)
{
    struct rundir_found found[RUNS_MAX];
    const struct rundir_found *chosen = NULL;
    char path[96];
    int status = choose(&chosen, found, rundir_list(found, RUNS_MAX), name, stdout, err);
    if (status) return status;
    snprintf(path, sizeof path, "%s/socket", chosen->path);
    status = source_open_socket(source, path, watches, err);
    if (status) return status;
    status = await_answer(*source, chosen, err);
    if (status) source_close(*source), *source = NULL;
    return status;
}

/* Which options go with what is attached to. */
static int check_options(const struct cli *cli, bool is_job, bool far, struct error *err)
{
    if (is_job && (cli->json || cli->stdio || cli->agent))
        return error_set(err, STATUS_USAGE,
                         "%s is another program's job; --json, --stdio and --launch-agent are for runs of zerolab",
                         cli->operand);
    if (far && (cli->json || cli->stdio))
        return error_set(err, STATUS_USAGE, "%s is on another host; there, zerolab attach --json lists the runs",
                         cli->operand);
    if (cli->agent && !far)
        return error_set(err, STATUS_USAGE, "--launch-agent reaches another host; attach to HOST:RUN");
    return STATUS_OK;
}

/* is_job: it is a job of another program, which writes of itself (docs/STREAM.md): a file or folder of its lines, or a socket that it writes to. */
int front_attach(const struct cli *cli, struct error *err)
{
    struct rundir_found found[RUNS_MAX];
    const struct rundir_found *chosen = NULL;
    const int count = rundir_list(found, RUNS_MAX);
    const bool is_job = cli->operand && (strchr(cli->operand, '/') || stream_is(cli->operand)),
               far = cli->operand && !is_job && strchr(cli->operand, ':');
    struct app_options options = {.readonly = cli->readonly || is_job};
    char path[96];
    int status = check_options(cli, is_job, far, err);
    if (!status && cli->json) return print_runs(stdout, found, count, true), STATUS_OK;
    if (!status && !far && !is_job)
        status = choose(&chosen, found, count, cli->operand, cli->stdio ? NULL : stdout, err);
    if (!status && cli->stdio) {
        snprintf(path, sizeof path, "%s/socket", chosen->path);
        return attach_carry(path, cli->readonly, err);
    }
    if (!status) status = front_look(&options.look, cli, err);
    if (!status && !app_terminal_fits(err)) status = err->status ? err->status : STATUS_USAGE;
    if (status) return status;
    status = is_job ? stream_open(&options.source, cli->operand, true, err)
             : far  ? attach_far(&options.source, cli->operand, cli->agent, cli->readonly, err)
                    : front_open_run(&options.source, cli->operand, cli->readonly, err);
    if (status) return status;
    status = app_run(&options, err);
    source_close(options.source);
    return status;
}
