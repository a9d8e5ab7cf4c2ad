/* What events of the kind "checkpoint" say: a save has begun, is done, or came to nothing. */
#include <cjson/cJSON.h>
#include <string.h>

#include "engine/observe/fold.h"

static void text(char *out, size_t room, const cJSON *object, const char *key)
{
    const char *value = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));
    text_into(out, room, (struct trace_text){value, value ? strlen(value) : 0});
}

static uint64_t number_of(const cJSON *object, const char *key)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsNumber(value) && value->valuedouble > 0 ? (uint64_t)value->valuedouble : 0;
}

void save_read(struct run_save *save, const cJSON *detail, uint32_t step, uint64_t time_ns)
{
    const char *state = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(detail, "state"));
    if (!state) return;
    text(save->tag, sizeof save->tag, detail, "tag");
    save->saving = strcmp(state, "saving") == 0;
    save->failed = strcmp(state, "failed") == 0;
    if (!save->failed) text(save->folder, sizeof save->folder, detail, "folder");
    else if (!*save->saved_tag) *save->folder = '\0';
    if (save->failed) {
        save->failed_ns = time_ns;
        save->lost_step = step;
        text(save->lost_tag, sizeof save->lost_tag, detail, "tag");
    }
    if (strcmp(state, "saved") != 0) return;
    text(save->saved_tag, sizeof save->saved_tag, detail, "tag");
    save->saved_ns = time_ns;
    if (step >= save->lost_step) *save->lost_tag = '\0'; /* an older one may end later, in the background */
    save->saved_bytes = number_of(detail, "bytes");
}
