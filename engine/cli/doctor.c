/* `zerolab doctor`: runs the checks of a table, one after the other. Each line says what a check found, and the
 * remedy if there is one. */
#include "engine/doctor/doctor.h"
#include "engine/base/version.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "engine/base/words.h"
#include "engine/cli/session.h"

static const struct check {
    const char *group, *name;
    doctor_look *look;
} checks[] = {
    {"terminal", "terminal", look_terminal},
    {"terminal", "locale", look_locale},
    {"computing", "processor", look_processor},
    {"computing", "cores", look_cores},
    {"computing", "instructions", look_instructions},
    {"computing", "products", look_products},
    {"memory", "memory", look_memory},
    {"memory", "shared memory", look_shared_memory},
    {"memory", "locked memory", look_locked_memory},
    {"memory", "huge pages", look_huge_pages},
    {"ranks", "run folder", look_run_folder},
    {"ranks", "launch", look_launch},
    {"ranks", "MPI", look_mpi},
    {"ranks", "host name", look_name},
    {"storage", "space", look_space},
    {"storage", "O_DIRECT", look_direct},
    {"storage", "libaio", look_aio},
    {"GPU", "CUDA", look_cuda},
    {"GPU", "GPU memory", look_gpu_memory},
    {"GPU", "GPU link", look_gpu_link},
    {"GPU", "NCCL", look_nccl},
};
enum { CHECKS = sizeof checks / sizeof *checks };

static const char *const verdicts[] = {"good", "note", "bad"};

void doctor_say(struct finding *finding, enum verdict verdict, const char *next, const char *found, ...)
{
    finding->verdict = verdict;
    snprintf(finding->next, sizeof finding->next, "%s", next);
    FORMAT_ARGUMENTS(finding->found, sizeof finding->found, found);
}

struct answer {
    struct finding *findings;
    int count, counts[3]; /* counts: by verdict */
};

static cJSON *facts_of(const struct answer *answer)
{
    struct utsname system;
    cJSON *facts = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(facts, "checks");
    const char *group = "";
    for (const struct finding *finding = answer->findings; finding < answer->findings + answer->count; finding++) {
        json_put(json_item(list), TEXT("group", finding->group), TEXT("name", finding->name),
                 TEXT("verdict", verdicts[finding->verdict]), TEXT("found", finding->found),
                 TEXT_IF("next", finding->next), TRUTH(".first", strcmp(finding->group, group) != 0));
        group = finding->group;
    }
    uname(&system);
    json_put(facts, TEXT("version", ZEROLAB_VERSION), TEXT(".system", system.sysname), TEXT(".release", system.release),
             TEXT(".machine", system.machine));
    for (int v = 0; v < 3; v++) json_put(facts, NUMBER(verdicts[v], answer->counts[v]));
    return facts;
}

static const char page[] =
    "zerolab {version} on {.system} {.release}, {.machine}\n"
    "{#checks}{?.first}\n{group}\n{/}{verdict:-6}{name:-15}{~:21}{found}{/}"
    "{?next}                     -> {~:24}{next}{/}{/}{/}"
    "\n{good} good, {note} notes, {bad} bad: {+bad}a run would stop at what is bad{/}{-bad}nothing here stops a run{/}\n";

static int measure_storage(const struct cli *cli, const char *folder, struct error *err)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    int status = out ? doctor_storage(folder, cli->json, out, isatty(STDERR_FILENO) ? stderr : NULL, err)
                     : error_set(err, STATUS_RUN, "no memory for what was found");
    if (out) fclose(out);
    if (!status) return front_give(cli->output, text, err);
    free(text);
    return status;
}

static int tell(const struct cli *cli, struct answer *answer, struct error *err)
{
    for (int c = 0; c < answer->count; c++) answer->counts[answer->findings[c].verdict]++;
    const int status = front_answer(cli, page, facts_of(answer), err);
    return status ? status : answer->counts[VERDICT_BAD] ? STATUS_CHECK : STATUS_OK;
}

/* --hosts, --hostfile. */
static int look_at_hosts(const struct cli *cli, const char *folder, struct error *err)
{
    struct hosts hosts;
    int status = place_hosts(&hosts, cli, err);
    if (!status && hosts.count < 2) status = error_set(err, STATUS_USAGE, "give two hosts at least, such as --hosts a,b");
    if (!status) status = launcher_mpirun.check(err);
    if (status) return status;
    struct answer answer = {0};
    answer.findings = doctor_hosts(&hosts, cli->agent, folder, &answer.count);
    status = answer.findings ? tell(cli, &answer, err) : error_set(err, STATUS_RUN, "no memory for what was found");
    free(answer.findings);
    return status;
}

int front_doctor(const struct cli *cli, struct error *err)
{
    const char *temporary = getenv("TMPDIR");
    const char *folder = cli->path ? cli->path : temporary && *temporary ? temporary : "/tmp";
    if (cli->storage) return measure_storage(cli, folder, err);
    if (cli->hosts || cli->hostfile) return look_at_hosts(cli, folder, err);
    struct finding findings[CHECKS] = {0};
    struct answer answer = {findings, CHECKS, {0}};
    for (int c = 0; c < CHECKS; c++) {
        findings[c].folder = folder;
        findings[c].group = checks[c].group;
        snprintf(findings[c].name, sizeof findings[c].name, "%s", checks[c].name);
        checks[c].look(&findings[c]);
    }
    return tell(cli, &answer, err);
}
