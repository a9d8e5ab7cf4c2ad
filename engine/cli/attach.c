/* `zerolab attach`: lists the live runs of this user, or watches one of them. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/json.h"
#include "engine/base/printable.h"
#include "engine/cli/front.h"
#include "engine/import/stream.h"
#include "engine/launch/rundir.h"

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

static void print_run(FILE *out, const struct rundir_found *run, const struct run_model *model, bool answers)
{
    const long long ago_s = (long long)run->age_s;
    const struct run_header *header = &model->header;
    const struct run_schedule *plan = run_training(model);
    const struct run_step *step = run_last_step(model);
    fprintf(out, "%lld   for %lld:%02lld:%02lld   ", (long long)run->pid, ago_s / 3600, ago_s / 60 % 60, ago_s % 60);
    if (!knows_enough(model)) {
        fputs(answers ? "does not say yet what it is\n" : "does not answer\n", out);
        return;
    }
    fprintf(out, "%s, %d rank%s", header->model_name[0] ? header->model_name : "unnamed model", header->ranks,
            plural(header->ranks));
    if (plan) fprintf(out, ", stage %d", plan->stage);
    if (step) fprintf(out, ", step %u", step->step);
    fprintf(out, ", %s\n", run_state_name(model->state));
}

static cJSON *run_object(const struct rundir_found *run, const struct run_model *model, bool answers)
{
    const struct run_schedule *plan = run_training(model);
    const struct run_step *step = run_last_step(model);
    cJSON *object = cJSON_CreateObject();
    json_put(object, NUMBER("run", run->pid), NUMBER("seconds", run->age_s));
    if (!answers) cJSON_AddStringToObject(object, "state", "does not answer");
    if (!knows_enough(model)) return object;
    json_put(object, TEXT("model", model->header.model_name), NUMBER("ranks", model->header.ranks));
    if (plan) cJSON_AddNumberToObject(object, "stage", plan->stage);
    if (step) cJSON_AddNumberToObject(object, "step", step->step);
    cJSON_AddStringToObject(object, "state", run_state_name(model->state));
    return object;
}

static void print_json(FILE *out, const struct rundir_found *run, const struct run_model *model, bool answers)
{
    cJSON *object = run_object(run, model, answers);
    char *text = printable_json(cJSON_PrintUnformatted(object));
    if (text) fputs(text, out);
    free(text);
    cJSON_Delete(object);
}

static void print_runs(FILE *out, const struct rundir_found *found, int count, bool json)
{
    if (json) fputc('[', out);
    for (int i = 0; i < count; i++) {
        struct run_model *model = run_model_new(&(struct run_model_options){.steps = 8, .notices = 8});
        if (!model) break;
        const bool answers = look_at(model, &found[i]);
        if (json) fputs(i ? ",\n  " : "\n  ", out), print_json(out, &found[i], model, answers);
        else print_run(out, &found[i], model, answers);
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

static int carry(const struct rundir_found *run, bool watches, struct error *err)
{
    char path[96];
    snprintf(path, sizeof path, "%s/socket", run->path);
    return attach_carry(path, watches, err);
}

/* A job of another program that writes of itself (docs/STREAM.md): a file or folder of its lines, or a socket that it writes to. */
static int attach_job(const struct cli *cli, struct error *err)
{
    struct app_options options = {.readonly = true};
    if (cli->json || cli->stdio || cli->agent)
        return error_set(err, STATUS_USAGE,
                         "%s is another program's job; --json, --stdio and --launch-agent are for runs of zerolab",
                         cli->operand);
    int status = front_look(&options.look, cli, err);
    if (!status && !app_terminal_fits(err)) status = err->status ? err->status : STATUS_USAGE;
    if (!status) status = stream_open(&options.source, cli->operand, true, err);
    if (status) return status;
    status = app_run(&options, err);
    source_close(options.source);
    return status;
}

int front_attach(const struct cli *cli, struct error *err)
{
    struct rundir_found found[RUNS_MAX];
    const struct rundir_found *chosen = NULL;
    struct app_options options = {.readonly = cli->readonly};
    const int count = rundir_list(found, RUNS_MAX);
    if (cli->operand && (strchr(cli->operand, '/') || stream_is(cli->operand))) return attach_job(cli, err);
    const bool far = cli->operand && strchr(cli->operand, ':');
    if (far && (cli->json || cli->stdio))
        return error_set(err, STATUS_USAGE, "%s is on another host; there, zerolab attach --json lists the runs",
                         cli->operand);
    if (cli->agent && !far)
        return error_set(err, STATUS_USAGE, "--launch-agent reaches another host; attach to HOST:RUN");
    if (cli->json) return print_runs(stdout, found, count, true), STATUS_OK;
    int status = far ? STATUS_OK : choose(&chosen, found, count, cli->operand, cli->stdio ? NULL : stdout, err);
    if (!status && cli->stdio) return carry(chosen, cli->readonly, err);
    if (!status) status = front_look(&options.look, cli, err);
    if (!status && !app_terminal_fits(err)) status = err->status ? err->status : STATUS_USAGE;
    if (status) return status;
    status = far ? attach_far(&options.source, cli->operand, cli->agent, cli->readonly, err)
                 : front_open_run(&options.source, cli->operand, cli->readonly, err);
    if (status) return status;
    status = app_run(&options, err);
    source_close(options.source);
    return status;
}
