#include "engine/train/csv_monitor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/base/file.h"
#include "engine/optim/learning_rate.h"

/* DeepSpeed has the loss scale of fp16 only. Its engine writes train_loss only where it runs a pipeline. */
static const char *const names[] = {"train_loss", "lr", "loss_scale"};

static int file_count(const struct config *config)
{
    return config->fp16.enabled ? 3 : 2;
}

/* Appends to a file, which is open only for that, as DeepSpeed does. */
static int append(const struct config *config, int f, const char *text, int status, struct error *err)
{
    const struct config_csv_monitor *of = &config->csv_monitor;
    char path[sizeof of->output_path + sizeof of->job_name + 48];
    snprintf(path, sizeof path, "%s%s%s/Train_Samples_%s.csv", of->output_path, *of->output_path ? "/" : "",
             of->job_name, names[f]);
    file_make_folders(path);
    FILE *file = file_open_named_stream(path, O_APPEND);
    const bool put = file && fputs(text, file) >= 0;
    if (file && fclose(file) == 0 && put) return STATUS_OK;
    return error_set(err, status, "csv_monitor: cannot write %.400s: %s%s", path, file_why(errno),
                     status == STATUS_RUN ? "; it is not written any more" : "");
}

int csv_monitor_begin(const struct config *config, bool begins, struct error *err)
{
    char head[32];
    int status = STATUS_OK;
    for (int f = 0; f < file_count(config) && !status; f++) {
        snprintf(head, sizeof head, "step,%s\r\n", names[f]);
        status = append(config, f, begins ? head : "", STATUS_USAGE, err);
    }
    return status;
}

int csv_monitor_step(const struct config *config, const struct zero_result *result, int64_t updates, struct error *err)
{
    const double values[] = {(double)result->loss, learning_rate_at(config, updates).rate, result->next_loss_scale};
    int status = STATUS_OK;
    for (int f = 0; f < file_count(config) && !status; f++) {
        char value[32], line[64];
        int digits = 1; /* the fewest that give the same number, as Python writes one */
        do snprintf(value, sizeof value, "%.*g", digits, values[f]);
        while (digits++ < 17 && strtod(value, NULL) != values[f]);
        snprintf(line, sizeof line, "%lld,%s\r\n", (long long)(result->step * config->train_batch_size), value);
        status = append(config, f, line, STATUS_RUN, err);
    }
    return status;
}
