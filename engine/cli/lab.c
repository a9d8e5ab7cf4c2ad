/* `zerolab lab`: plays a lab on the screen, lists labs, checks them, prints them, begins new ones, forgets progress. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/text_stream.h"
#include "engine/base/words.h"
#include "engine/cli/lab_run.h"
#include "engine/lab/catalog.h"

/* ---- list ---------------------------------------------------------------------------------------------------------- */

static int list_one(const char *name, struct error *err)
{
    struct lab *lab;
    struct lab_progress progress;
    struct error ignored;
    int status = lab_open(&lab, name, err);
    if (status) return status;
    words_print(stdout, printf("%-15s %2d min ", lab->name, lab->minutes), 23, lab->about);
    const bool known = lab_load(&progress, lab, &ignored) == STATUS_OK;
    const struct lab_sums sums = lab_progress_sums(&progress);
    if (known && progress.finished)
        printf("%22s - done, %d of %d right, %.0f min\n", "", sums.right, progress.count, sums.seconds / 60 + 0.5);
    else if (known && (progress.step || sums.attempts))
        printf("%22s - at part %d of %d\n", "", progress.step + 1, progress.count);
    lab_free(lab);
    return STATUS_OK;
}

/* A folder in labs/ with a lab of one's own. */
static int is_own(const struct dirent *entry)
{
    char path[300];
    snprintf(path, sizeof path, "labs/%s/lab.md", entry->d_name);
    if (lab_catalog_number(entry->d_name) >= 0) return lab_hides_own(entry->d_name);
    return entry->d_name[0] != '.' && access(path, F_OK) == 0;
}

/* Lists the user's own labs. A lab that cannot be read yet does not hide the others. */
static void list_own(void)
{
    struct dirent **names;
    struct error err;
    const int count = scandir("labs", &names, is_own, alphasort);
    if (count > 0) puts("\nin labs/ of this folder");
    for (int n = 0; n < count; n++) {
        const char *name = names[n]->d_name;
        if (lab_hides_own(name))
            printf("%-15s %6s the name is a built-in lab's; zerolab lab labs/%s plays this one\n", name, "", name);
        else if (list_one(name, &err)) printf("%-15s %6s %s\n", name, "", err.text);
        free(names[n]);
    }
    if (count >= 0) free(names);
}

int front_lab_list(const struct cli *cli, struct error *err)
{
    int status = STATUS_OK;
    (void)cli;
    printf("%-15s %-6s %s\n", "lab", "", "what it is about");
    for (int l = 0; l < lab_catalog_count() && !status; l++) status = list_one(lab_catalog_name(l), err);
    if (status) return status;
    list_own();
    puts("\nzerolab lab NAME begins one, or goes on where you stopped");
    return STATUS_OK;
}

/* ---- check and print ----------------------------------------------------------------------------------------------- */

/* Warns that the built-in lab is read if labs/NAME has the same name. */
static int open_named(struct lab **lab, const char *name, struct error *err)
{
    if (lab_hides_own(name))
        fprintf(stderr, "zerolab: %s is the lab that comes with the program; for labs/%s/lab.md give its path: labs/%s\n",
                name, name, name);
    return lab_open(lab, name, err);
}

static int check_one(const struct cli *cli, const char *name, bool has_head, struct error *err)
{
    struct lab *lab;
    struct lab_trial trial = {.numbers = cli->numbers ? stdout : NULL};
    uint64_t begun_ns = clock_ns();
    int status = open_named(&lab, name, err);
    if (status) return status;
    if (!cli->numbers && has_head) printf("%-22s %5s %7s %7s %10s\n", "lab", "parts", "right", "caught", "took");
    status = lab_trial_run(&trial, cli, lab, err);
    if (!cli->numbers)
        printf("%-22s %5d %7d %7d %8.1f s  %s\n", lab->name, lab->step_count, trial.asked, trial.wrongs,
               (double)(clock_ns() - begun_ns) * 1e-9, status ? "FAILED" : "good");
    fflush(stdout);
    lab_free(lab);
    return status;
}

int front_lab_check(const struct cli *cli, struct error *err)
{
    int worst = STATUS_OK;
    if (cli->operand) return check_one(cli, cli->operand, true, err);
    for (int l = 0; l < lab_catalog_count(); l++) {
        struct error own;
        int status = check_one(cli, lab_catalog_name(l), l == 0, &own);
        if (!status) continue;
        fprintf(stderr, "zerolab: %s\n", own.text);
        if (!worst) *err = own;
        worst = status;
    }
    return worst ? error_set(err, worst, "not every lab is true") : STATUS_OK;
}

int front_lab_print(const struct cli *cli, struct error *err)
{
    struct lab *lab;
    int status = open_named(&lab, cli->operand, err);
    if (status) return status;
    struct text_stream stream;
    struct lab_trial trial = {.print = text_stream_open(&stream), .solutions = cli->solutions};
    if (!trial.print) return lab_free(lab), error_set(err, STATUS_RUN, "no memory for a hand-out");
    fprintf(trial.print, "# %s\n\n%s About %d minutes: `zerolab lab %s`.\n", lab->title, lab->about, lab->minutes,
            lab->name);
    status = lab_trial_run(&trial, cli, lab, err);
    char *text = text_stream_close(&stream);
    if (!status) status = front_give(cli->output, text, err);
    else free(text);
    lab_free(lab);
    return status;
}

/* ---- new and reset ------------------------------------------------------------------------------------------------- */

int front_lab_new(const struct cli *cli, struct error *err)
{
    char path[4096];
    const char *name = cli->operand;
    const char *folder = strchr(name, '/') ? "" : "labs/";
    if (lab_catalog_number(name) >= 0)
        return error_set(err, STATUS_USAGE, "%s is a lab that comes with the program; give another name", name);
    if (snprintf(path, sizeof path, "%s%s/lab.md", folder, name) >= (int)sizeof path)
        return error_set(err, STATUS_USAGE, "this name is too long");
    file_make_folders(path);
    FILE *file = fopen(path, "wxe");
    if (!file) return error_set(err, STATUS_USAGE, "cannot begin %.300s: %s", path, strerror(errno));
    const char *title = strstr(lab_skeleton, "# NAME");
    fprintf(file, "%.*s# %s%s", (int)(title - lab_skeleton), lab_skeleton, name, title + strlen("# NAME"));
    if (fclose(file) != 0) return error_set(err, STATUS_RUN, "cannot write %.300s: %s", path, strerror(errno));
    printf("wrote %s: change it; zerolab lab %s plays it, zerolab lab check %s checks it\n", path,
           name, name);
    return STATUS_OK;
}

/* One step: it is asked again, and what came after it stays. */
static int reset_step(const char *name, const char *step_text, struct error *err)
{
    struct lab *lab;
    struct lab_progress progress;
    char *end;
    int status = lab_open(&lab, name, err);
    if (status) return status;
    long step = strtol(step_text, &end, 10);
    status = lab_load(&progress, lab, err);
    if (!status && (*end || step < 1 || step > lab->step_count))
        status = error_set(err, STATUS_USAGE, "%.20s: this lab has the parts 1 to %d", step_text, lab->step_count);
    if (!status) {
        lab_progress_fold(&progress, &(struct lab_input){.kind = LAB_INPUT_GO, .step = (int)step - 1});
        lab_progress_fold(&progress, &(struct lab_input){.kind = LAB_INPUT_RESET_STEP});
        status = lab_save(&progress, lab, err);
    }
    lab_free(lab);
    return status;
}

int front_lab_reset(const struct cli *cli, struct error *err)
{
    struct lab *lab;
    if (!cli->operand) return lab_forget_all(err);
    if (cli->second) return reset_step(cli->operand, cli->second, err);
    int status = lab_open(&lab, cli->operand, err);
    if (!status) status = lab_forget(lab->name, err), lab_free(lab);
    return status;
}

/* For docs/LABS.md, which tests/program/test_readme.sh compares with it. */
int front_lab_metrics(const struct cli *cli, struct error *err)
{
    return front_give(cli->output, lab_metrics_markdown(), err);
}

/* ---- playing ------------------------------------------------------------------------------------------------------- */

static void save(const struct lab_play *play, void *user)
{
    struct error *err = user;
    if (!err->status && lab_save(&play->progress, play->lab, err)) return; /* said once, when the screen is gone */
}

/* A lesson begins in an empty folder: its parts are numbered. */
static int make_lesson(const char *folder, struct error *err)
{
    DIR *found;
    bool is_empty = true;
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return error_set(err, STATUS_USAGE, "cannot make the folder %s: %s", folder, strerror(errno));
    if (!(found = opendir(folder))) return error_set(err, STATUS_USAGE, "%s: %s", folder, strerror(errno));
    for (struct dirent *entry; (entry = readdir(found));) is_empty &= entry->d_name[0] == '.';
    closedir(found);
    if (!is_empty) return error_set(err, STATUS_USAGE, "%s is not empty; give a lesson a folder of its own", folder);
    return access(folder, W_OK) == 0 ? STATUS_OK
                                     : error_set(err, STATUS_USAGE, "cannot write to %s: %s", folder, strerror(errno));
}

static int play(const struct cli *cli, const struct lab *lab, struct app *stage, struct error *err)
{
    struct lab_progress progress;
    struct error kept = {0};
    char result[LAB_RESULT_ROOM];
    if (cli->from_step > lab->step_count)
        return error_set(err, STATUS_USAGE, "--from %lld: this lab has %d parts", (long long)cli->from_step,
                         lab->step_count);
    if (!stage && !app_terminal_fits(err)) return error_prefix(err, "a lab is played on a terminal");
    if (cli->lesson && make_lesson(cli->lesson, err)) return STATUS_USAGE;
    if (lab_load(&progress, lab, err)) fprintf(stderr, "zerolab: %s; the lab begins with its first part\n", err->text);
    const struct lab_input reset = {.kind = LAB_INPUT_RESET},
                           go = {.kind = LAB_INPUT_GO, .step = (int)cli->from_step - 1};
    if (cli->from_step > 0) lab_progress_fold(&progress, &go);
    else if (progress.finished) lab_progress_fold(&progress, &reset);
    struct app_lab played = {
        .save = cli->presenter ? NULL : save, .user = &kept, .presents = cli->presenter, .lesson = cli->lesson};
    lab_play_init(&played.play, lab, &progress);
    played.play.program = program_invocation_name;
    int status = lab_run(cli, &played, stage, NULL, NULL, err);
    if (kept.status) fprintf(stderr, "zerolab: %s\n", kept.text);
    if (!status)
        printf("%s: %s%s\n", lab->name, lab_progress_result(result, &played.play.progress),
               played.play.progress.finished ? "" : "; the same command goes on from here");
    if (!status && cli->lesson) printf("recorded: %s   look at it with: zerolab replay %s\n", cli->lesson, cli->lesson);
    lab_play_release(&played.play);
    return status;
}

int lab_play_named(const struct cli *cli, const char *name, struct app *stage, struct error *err)
{
    struct lab *lab;
    int status = open_named(&lab, name, err);
    if (status) return app_close(stage), status;
    status = play(cli, lab, stage, err);
    lab_free(lab);
    return status;
}

int front_lab(const struct cli *cli, struct error *err)
{
    return cli->operand ? lab_play_named(cli, cli->operand, NULL, err) : front_lab_list(cli, err);
}
