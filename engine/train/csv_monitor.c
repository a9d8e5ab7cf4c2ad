#include "engine/train/rank.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/optim/learning_rate.h"

/* DeepSpeed has the loss scale of fp16 only. Its engine writes train_loss only where it runs a pipeline. */
static const char *const names[CSV_MONITOR_FILES] = {"train_loss", "lr", "loss_scale"};

void csv_monitor_close(struct csv_monitor *monitor)
{
    for (int f = 0; f < CSV_MONITOR_FILES; f++)
        if (monitor->file[f]) fclose(monitor->file[f]);
    *monitor = (struct csv_monitor){0};
}

int csv_monitor_open(struct csv_monitor *monitor, const struct config *config, bool begins, struct error *err)
{
    const struct config_csv_monitor *of = &config->csv_monitor;
    char path[sizeof of->output_path + sizeof of->job_name + 48];
    *monitor = (struct csv_monitor){0};
    for (int f = 0; f < CSV_MONITOR_FILES && of->enabled; f++) {
        if (f == 2 && !config->fp16.enabled) continue;
        snprintf(path, sizeof path, "%s%s%s/Train_Samples_%s.csv", of->output_path, *of->output_path ? "/" : "",
                 of->job_name, names[f]);
        file_make_folders(path);
        monitor->file[f] = file_open_named_stream(path, O_APPEND);
        if (!monitor->file[f] || (begins && fprintf(monitor->file[f], "step,%s\r\n", names[f]) < 0) ||
            fflush(monitor->file[f])) {
            error_set(err, STATUS_USAGE, "csv_monitor: cannot write %.400s: %s", path, file_why(errno));
            csv_monitor_close(monitor);
            return STATUS_USAGE;
        }
    }
    return STATUS_OK;
}

/* With the fewest digits that give the same number, as Python writes one. */
static void write_shortest(char out[32], double value)
{
    int digits = 1;
    do snprintf(out, 32, "%.*g", digits, value);
    while (digits++ < 17 && strtod(out, NULL) != value);
}

int csv_monitor_step(struct csv_monitor *monitor, const struct config *config, const struct zero_result *result,
                     int64_t updates, struct error *err)
{
    const double values[CSV_MONITOR_FILES] = {(double)result->loss, learning_rate_at(config, updates).rate,
                                              result->next_loss_scale};
    char text[32];
    for (int f = 0; f < CSV_MONITOR_FILES; f++) {
        if (!monitor->file[f]) continue;
        write_shortest(text, values[f]);
        fprintf(monitor->file[f], "%lld,%s\r\n", (long long)(result->step * config->train_batch_size), text);
        if (fflush(monitor->file[f]) == 0) continue;
        error_set(err, STATUS_RUN, "csv_monitor: cannot write Train_Samples_%s.csv: %s; it is not written any more",
                  names[f], strerror(errno));
        csv_monitor_close(monitor);
        return STATUS_RUN;
    }
    return STATUS_OK;
}
