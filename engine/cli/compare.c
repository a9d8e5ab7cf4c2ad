/* `zerolab compare`: two traces, two runs in progress, or one configuration trained twice, on one screen. Runs that are trained here
 * are recorded into files without a name, so nothing is left behind. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/cli/front.h"
#include "engine/launch/launcher.h"

enum { NAME_ROOM = 256, PATH_ROOM = 512 };

/* A side of the comparison. */
struct side {
    char name[NAME_ROOM], path[PATH_ROOM];
    const char *file;               /* a trace; NULL: a run in progress */
    struct source *source, *totals; /* of a run in progress */
    int fd;                         /* of a file without a name; -1: none */
    pid_t pid;
};

/* ---- training both ------------------------------------------------------------------------------------------------- */

static void add_sets(const char *args[], int *count, const struct text_list *sets)
{
    for (int i = 0; i < sets->count; i++) args[(*count)++] = "--set", args[(*count)++] = sets->at[i];
}

/* In the child: the lines of a headless run are not shown, its errors are. */
static void become_run(const struct cli *cli, const struct side *side, bool is_b)
{
    const int null = open("/dev/null", O_WRONLY);
    const char **args = calloc((size_t)(2 * (cli->sets.count + cli->b_sets.count) + 12), sizeof *args);
    char steps[32];
    int count = 0;
    if (!args || null < 0 || dup2(null, STDOUT_FILENO) < 0) _exit(STATUS_RUN);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    args[count++] = "zerolab", args[count++] = "train";
    if (cli->operand) args[count++] = cli->operand;
    args[count++] = "--headless", args[count++] = "--trace", args[count++] = side->path;
    add_sets(args, &count, &cli->sets);
    if (is_b) add_sets(args, &count, &cli->b_sets);
    snprintf(steps, sizeof steps, "%lld", (long long)cli->steps);
    if (cli->steps) args[count++] = "--steps", args[count++] = steps;
    execv("/proc/self/exe", (char *const *)args);
    _exit(STATUS_RUN);
}

/* The run has said on standard error what was wrong. */
static int await_run(struct side *side, char letter, struct error *err)
{
    int how = 0;
    while (waitpid(side->pid, &how, 0) < 0 && errno == EINTR)
        if (interrupt_asked()) kill(side->pid, SIGTERM);
    side->pid = 0;
    if (interrupt_asked()) return error_set(err, STATUS_RUN, "stopped while run %c was trained", letter);
    if (WIFEXITED(how) && WEXITSTATUS(how) == 0) return STATUS_OK;
    return error_set(err, WIFEXITED(how) ? WEXITSTATUS(how) : STATUS_RUN,
                     "run %c failed, so there is nothing to compare", letter);
}

static int train_both(struct side sides[2], const struct cli *cli, struct error *err)
{
    struct launcher_outer outer;
    int status = STATUS_OK;
    if (launcher_outer(&outer))
        return error_set(err, STATUS_USAGE, "compare trains two runs; start it once, without mpirun or srun");
    for (int s = 0; s < 2 && !status; s++) {
        fprintf(stderr, "training run %c: %s\n", 'A' + s, sides[s].name);
        fflush(NULL);
        sides[s].pid = fork();
        if (sides[s].pid == 0) become_run(cli, &sides[s], s);
        if (sides[s].pid < 0) status = error_set(err, STATUS_RUN, "cannot start a run: %s", strerror(errno));
        if (!status && !cli->at_once) status = await_run(&sides[s], (char)('A' + s), err);
    }
    for (int s = 0; s < 2; s++) {
        struct error other;
        const int ended = sides[s].pid > 0 ? await_run(&sides[s], (char)('A' + s), status ? &other : err) : STATUS_OK;
        if (!status) status = ended;
    }
    return status;
}

/* Takes the name of a trace away; the open file is its new one. */
static int keep_unnamed(struct side *side, struct error *err)
{
    side->fd = open(side->path, O_RDONLY | O_CLOEXEC);
    if (side->fd < 0) return error_set(err, STATUS_RUN, "%s: %s", side->path, strerror(errno));
    unlink(side->path);
    snprintf(side->path, sizeof side->path, "/proc/self/fd/%d", side->fd);
    side->file = side->path;
    return STATUS_OK;
}

static bool sets_key(const struct text_list *sets, const char *set)
{
    const size_t length = strcspn(set, "=") + 1;
    for (int i = 0; i < sets->count; i++)
        if (!strncmp(sets->at[i], set, length)) return true;
    return false;
}

static void name_set(struct side *side, const char *set)
{
    const char *end = set + strcspn(set, "=");
    while (end > set && end[-1] != '.') end--;
    const size_t used = strlen(side->name);
    snprintf(side->name + used, NAME_ROOM - used, " %s", end);
}

/* "nano.json stage=3": the file and the last words of the keys that are set. */
static void name_run(struct side *side, const struct cli *cli, bool is_b)
{
    const char *slash = cli->operand ? strrchr(cli->operand, '/') : NULL;
    snprintf(side->name, NAME_ROOM, "%.100s", slash ? slash + 1 : cli->operand ? cli->operand : "default");
    for (int i = 0; i < cli->sets.count; i++)
        if (!is_b || !sets_key(&cli->b_sets, cli->sets.at[i])) name_set(side, cli->sets.at[i]);
    for (int i = 0; is_b && i < cli->b_sets.count; i++) name_set(side, cli->b_sets.at[i]);
}

static int record_both(struct side sides[2], const struct cli *cli, struct error *err)
{
    char folder[PATH_ROOM - 8];
    const char *above = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%.400s/zerolab-compare-XXXXXX", above && *above ? above : "/tmp");
    if (!mkdtemp(folder)) return error_set(err, STATUS_RUN, "%s: %s", folder, strerror(errno));
    for (int s = 0; s < 2; s++) {
        snprintf(sides[s].path, sizeof sides[s].path, "%s/%c.zlt", folder, 'a' + s);
        name_run(&sides[s], cli, s);
    }
    interrupt_watch();
    int status = train_both(sides, cli, err);
    for (int s = 0; s < 2; s++) {
        if (!status) status = keep_unnamed(&sides[s], err);
        if (status) unlink(sides[s].path);
    }
    rmdir(folder);
    return status;
}

/* ---- what is there already ----------------------------------------------------------------------------------------- */

static bool is_run(const char *name)
{
    return !name[strspn(name, "0123456789")] && access(name, F_OK) != 0;
}

/* given: as it was typed; another program's trace has been imported into a file of another name. */
static int open_side(struct side *side, const char *name, const char *given, const struct cli *cli, struct error *err)
{
    const char *slash = strrchr(given, '/');
    snprintf(side->name, NAME_ROOM, is_run(name) ? "run %s" : "%s", slash && slash[1] ? slash + 1 : given);
    if (!is_run(name)) return side->file = name, STATUS_OK;
    if (cli->frame || cli->json)
        return error_set(err, STATUS_USAGE, "run %s goes on; --frame and --json are for traces", name);
    const int status = front_open_run(&side->source, name, true, err);
    return status ? status : front_open_run(&side->totals, name, true, err);
}

static int check_options(const struct cli *cli, struct error *err)
{
    const bool trains = !cli->second;
    if (cli->by && strcmp(cli->by, "step") && strcmp(cli->by, "time"))
        return error_set(err, STATUS_USAGE, "--by %s: give step or time", cli->by);
    if (trains && !cli->b_sets.count)
        return error_set(err, STATUS_USAGE, "compare needs two traces, two runs, or --b KEY=VALUE for the second run");
    if (!trains && (cli->sets.count || cli->b_sets.count || cli->at_once || cli->steps))
        return error_set(err, STATUS_USAGE,
                         "--set, --b, --steps and --at-once are for one CONFIG, which is trained twice");
    if (cli->json && cli->frame)
        return error_set(err, STATUS_USAGE, "--json and --frame are two answers; give one of them");
    if (cli->as && (!strcmp(cli->as, "html") || !strcmp(cli->as, "cast")))
        return error_set(err, STATUS_USAGE, "--as %s is for replay; give text, ansi or svg", cli->as);
    if (!cli->frame && (cli->view || cli->where || cli->as || (cli->output && !cli->json)))
        return error_set(err, STATUS_USAGE, "--view, --at, --as and --output belong to --frame COLSxROWS");
    if (!cli->frame && !cli->json && !app_terminal_fits(err)) return STATUS_USAGE;
    return STATUS_OK;
}

static int show(const struct side sides[2], const struct cli *cli, struct error *err)
{
    struct app_compare compare = {.name = {sides[0].name, sides[1].name},
                                  .file = sides[1].file,
                                  .source = sides[1].source,
                                  .totals = {sides[0].totals, sides[1].totals},
                                  .by_time = cli->by && !strcmp(cli->by, "time")};
    struct app_options options = {
        .replay_file = sides[0].file, .source = sides[0].source, .readonly = true, .compare = &compare};
    const bool named = cli->second;
    if (cli->json)
        return front_difference(
            cli, (const char *const[]){sides[0].file, sides[1].file},
            (const char *const[]){named ? cli->given[0] : sides[0].name, named ? cli->given[1] : sides[1].name}, err);
    if (cli->frame) return front_frame(cli, sides[0].file, &compare, err);
    const int status = front_look(&options.look, cli, err);
    return status ? status : app_run(&options, err);
}

int front_compare(const struct cli *cli, struct error *err)
{
    struct side sides[2] = {{.fd = -1}, {.fd = -1}};
    int status = check_options(cli, err);
    if (!status && !cli->second) status = record_both(sides, cli, err);
    for (int s = 0; s < 2 && !status && cli->second; s++)
        status = open_side(&sides[s], s ? cli->second : cli->operand, cli->given[s], cli, err);
    if (!status) status = show(sides, cli, err);
    for (int s = 0; s < 2; s++) {
        if (sides[s].source) source_close(sides[s].source);
        if (sides[s].totals) source_close(sides[s].totals);
        if (sides[s].fd >= 0) close(sides[s].fd);
    }
    return status;
}
