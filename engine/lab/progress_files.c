#include "engine/lab/progress_files.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/file.h"

enum { PATH_ROOM = 4096, FILE_BYTES_MAX = 1 << 16 };

static bool is_plain(const char *name)
{
    return *name && *name != '.' && !strchr(name, '/');
}

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
    if (!is_plain(name)) return error_set(err, STATUS_USAGE, "%.60s: this is no name of a lab", name);
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
