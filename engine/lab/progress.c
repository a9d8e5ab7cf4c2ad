#include "engine/lab/progress.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/json.h"

static const char *const marks[LAB_MARKS] = {
    [LAB_OPEN] = "open", [LAB_RIGHT] = "right", [LAB_WRONG] = "wrong", [LAB_SKIPPED] = "skipped"};

const char *lab_mark_name(enum lab_mark mark)
{
    return marks[mark];
}

enum lab_mark lab_mark_named(const char *name)
{
    for (int m = 0; name && m < LAB_MARKS; m++)
        if (strcmp(marks[m], name) == 0) return (enum lab_mark)m;
    return LAB_OPEN;
}

void lab_progress_init(struct lab_progress *progress, const struct lab *lab)
{
    *progress = (struct lab_progress){.count = lab->step_count};
}

/* A right answer stays right on later attempts; a wrong one can become right. */
static void answered(struct lab_step_progress *at, const struct lab_input *input)
{
    if (!at->attempts++ && !input->right && input->believed)
        snprintf(at->believed, sizeof at->believed, "%s", input->believed);
    if (at->mark != LAB_RIGHT) at->mark = input->right ? LAB_RIGHT : LAB_WRONG;
    snprintf(at->said, sizeof at->said, "%s", input->said ? input->said : "");
}

static void go_to(struct lab_progress *progress, int step)
{
    if (step < 0) step = 0;
    progress->finished = step >= progress->count;
    for (int s = progress->step; s < step && s < progress->count; s++)
        if (progress->at[s].mark == LAB_OPEN) progress->at[s].mark = LAB_SKIPPED;
    progress->step = progress->finished ? progress->count - 1 : step;
}

void lab_progress_fold(struct lab_progress *progress, const struct lab_input *input)
{
    struct lab_step_progress *at = &progress->at[progress->step];
    switch (input->kind) {
    case LAB_INPUT_ANSWERED: answered(at, input); break;
    case LAB_INPUT_READ: at->mark = LAB_RIGHT; break;
    case LAB_INPUT_HINT: at->hints += at->hints < LAB_HINTS_MAX; break;
    case LAB_INPUT_NEXT: go_to(progress, progress->step + 1); break;
    case LAB_INPUT_GO: go_to(progress, input->step); break;
    case LAB_INPUT_RESET_STEP: *at = (struct lab_step_progress){0}, progress->finished = false; break;
    case LAB_INPUT_RESET: *progress = (struct lab_progress){.count = progress->count}; break;
    case LAB_INPUT_SPENT: at->seconds += input->seconds > 0 ? input->seconds : 0; break;
    }
}

struct lab_sums lab_progress_sums(const struct lab_progress *progress)
{
    struct lab_sums sums = {0};
    for (int s = 0; s < progress->count; s++) {
        sums.right += progress->at[s].mark == LAB_RIGHT;
        sums.played += progress->at[s].mark != LAB_SKIPPED;
        sums.attempts += progress->at[s].attempts;
        sums.hints += progress->at[s].hints;
        sums.seconds += progress->at[s].seconds;
    }
    return sums;
}

char *lab_progress_result(char text[LAB_RESULT_ROOM], const struct lab_progress *progress)
{
    const struct lab_sums sums = lab_progress_sums(progress);
    snprintf(text, LAB_RESULT_ROOM, "%d of %d parts %sare right", sums.right, sums.played,
             sums.played < progress->count ? "that you played " : "");
    return text;
}

char *lab_progress_json(const struct lab_progress *progress, const char *name)
{
    cJSON *root = cJSON_CreateObject(), *steps = cJSON_AddArrayToObject(root, "steps");
    json_put(root, NUMBER("version", 1), TEXT("lab", name), NUMBER("step", progress->step + 1),
             TRUTH("finished", progress->finished));
    for (int s = 0; s < progress->count; s++) {
        const struct lab_step_progress *at = &progress->at[s];
        json_put(json_item(steps), TEXT("mark", marks[at->mark]), NUMBER("attempts", at->attempts),
                 NUMBER("hints", at->hints), NUMBER("seconds", (int)(at->seconds + 0.5)), TEXT("said", at->said),
                 TEXT("believed", at->believed));
    }
    char *text = cJSON_Print(root);
    cJSON_Delete(root);
    return text;
}

static int not_progress(struct error *err)
{
    return error_set(err, STATUS_INPUT, "this is no lab's progress");
}

static int read_steps(struct lab_progress *progress, const cJSON *root, struct error *err)
{
    const cJSON *steps = json_get(root, "steps"), *step;
    if (!cJSON_IsArray(steps)) return not_progress(err);
    struct lab_progress read = {.count = progress->count};
    struct lab_step_progress *at = read.at;
    cJSON_ArrayForEach(step, steps)
    {
        if (at == read.at + read.count) break;
        at->mark = lab_mark_named(json_get_text(step, "mark"));
        at->attempts = (int)json_get_number(step, "attempts", 1e6, 0);
        at->hints = (int)json_get_number(step, "hints", LAB_HINTS_MAX, 0);
        at->seconds = json_get_number(step, "seconds", 1e9, 0);
        json_copy_text(at->said, sizeof at->said, step, "said");
        json_copy_text(at->believed, sizeof at->believed, step, "believed");
        at++;
    }
    int number = (int)json_get_number(root, "step", LAB_STEPS_MAX, 0);
    read.step = number < 1 ? 0 : number > read.count ? read.count - 1 : number - 1;
    read.finished = cJSON_IsTrue(json_get(root, "finished")) && number == read.count;
    *progress = read;
    return STATUS_OK;
}

int lab_progress_read(struct lab_progress *progress, const char *text, struct error *err)
{
    cJSON *root = cJSON_Parse(text);
    int status = read_steps(progress, root, err);
    cJSON_Delete(root);
    return status;
}

static bool is_name(const char *name)
{
    if (!name || !*name || strlen(name) >= LAB_FOLDER_MAX) return false;
    for (; *name; name++)
        if ((unsigned char)*name <= ' ' || *name == '/' || *name == 0x7f) return false;
    return true;
}

int lab_progress_identify(struct lab_progress *progress, char name[LAB_FOLDER_MAX], const char *text, struct error *err)
{
    cJSON *root = cJSON_Parse(text);
    const char *lab = json_get_text(root, "lab");
    int steps = cJSON_GetArraySize(json_get(root, "steps"));
    *progress = (struct lab_progress){.count = steps};
    int status =
        is_name(lab) && steps >= 1 && steps <= LAB_STEPS_MAX ? read_steps(progress, root, err) : not_progress(err);
    if (!status) snprintf(name, LAB_FOLDER_MAX, "%s", lab);
    cJSON_Delete(root);
    return status;
}

enum { PATH_ROOM = 4096, FILE_BYTES_MAX = 1 << 16 };

static int state_path(char path[PATH_ROOM], const char *name, struct error *err)
{
    const int length = file_state_path(path, PATH_ROOM, name);
    if (length < 0)
        return error_set(err, STATUS_RUN, "there is no home folder to keep progress in; set XDG_STATE_HOME");
    return length < PATH_ROOM - 8 ? STATUS_OK : error_set(err, STATUS_RUN, "the path of the state folder is too long");
}

static int path_of(char path[PATH_ROOM], const char *name, struct error *err)
{
    char file[300];
    if (!*name || *name == '.' || strchr(name, '/'))
        return error_set(err, STATUS_USAGE, "%.60s: this is no name of a lab", name);
    snprintf(file, sizeof file, "labs/%.250s.json", name);
    return state_path(path, file, err);
}

int lab_load(struct lab_progress *progress, const struct lab *lab, struct error *err)
{
    char path[PATH_ROOM], *text;
    size_t length;
    lab_progress_init(progress, lab);
    int status = path_of(path, lab->name, err);
    if (status || access(path, F_OK) != 0) return status;
    status = file_read(&text, &length, path, FILE_BYTES_MAX, false, err);
    if (!status) status = lab_progress_read(progress, text, err);
    free(text);
    return status ? error_prefix(err, "%s", path) : STATUS_OK;
}

int lab_save(const struct lab_progress *progress, const struct lab *lab, struct error *err)
{
    char path[PATH_ROOM];
    int status = path_of(path, lab->name, err);
    if (status) return status;
    char *text = lab_progress_json(progress, lab->name);
    if (!text || !file_replace(path, text))
        status = error_set(err, STATUS_RUN, "progress cannot be kept in %.300s: %s", path, strerror(errno));
    free(text);
    return status;
}

static bool is_there(const char *name)
{
    char path[PATH_ROOM];
    return state_path(path, name, NULL) || access(path, F_OK) == 0;
}

bool lab_nobody_played(void)
{
    return !is_there("labs") && !is_there("tour");
}

int lab_refuse_tour(struct error *err)
{
    char path[PATH_ROOM];
    int status = state_path(path, "tour", err);
    if (status || file_replace(path, "not wanted; zerolab lab tour plays it all the same\n")) return status;
    return error_set(err, STATUS_RUN, "cannot write %.300s: %s", path, strerror(errno));
}

int lab_forget(const char *name, struct error *err)
{
    char path[PATH_ROOM];
    int status = path_of(path, name, err);
    if (status || unlink(path) == 0 || errno == ENOENT) return status;
    return error_set(err, STATUS_RUN, "cannot remove %.300s: %s", path, strerror(errno));
}

int lab_forget_all(struct error *err)
{
    char path[PATH_ROOM];
    int status = state_path(path, "labs", err);
    DIR *folder = status ? NULL : opendir(path);
    if (!folder) return status;
    for (struct dirent *file; !status && (file = readdir(folder));)
        if (file_ends_in(file->d_name, ".json") && unlinkat(dirfd(folder), file->d_name, 0) != 0)
            status = error_set(err, STATUS_RUN, "cannot remove %.300s/%s: %s", path, file->d_name, strerror(errno));
    closedir(folder);
    return status;
}
