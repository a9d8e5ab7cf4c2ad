#include "engine/simulate/hardware.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/base/json.h"

/* The built-in profiles, assembled into the program so that they work from any folder. */
#define PROFILES(X)  X(t4) X(v100) X(a100) X(h100) X(h200) X(b200)
#define INCLUDED(id) "hardware_" #id ": .incbin \"configs/hardware/" #id ".json\"\n.byte 0\n"
__asm__(".pushsection .rodata\n" PROFILES(INCLUDED) ".popsection");

#define DECLARED(id) extern const char hardware_##id[];
PROFILES(DECLARED)

static const struct {
    const char *name, *text;
} profiles[] = {
#define ROW(id) {#id, hardware_##id},
    PROFILES(ROW)
#undef ROW
};
enum { PROFILE_COUNT = sizeof profiles / sizeof *profiles };

const char *hardware_names(void)
{
#define NAME(id) #id " "
    return PROFILES(NAME);
#undef NAME
}

static const char *const way_names[WAYS] = {"fastest", "ring", "tree", "hierarchical", "direct"};

static const struct {
    const char *key;
    size_t offset;
    bool required;
} figures[] = {
#define FIGURE(field, key, required, meaning) {key, offsetof(struct hardware, field), required},
#include "engine/simulate/figures.def"
#undef FIGURE
};
enum { FIGURE_COUNT = sizeof figures / sizeof *figures };

static uint64_t *figure_at(const struct hardware *hardware, int f)
{
    return (uint64_t *)((char *)(uintptr_t)hardware + figures[f].offset);
}

static int read_figure(struct hardware *hardware, const cJSON *json, struct error *err)
{
    const cJSON *value = cJSON_GetArrayItem(json, 0), *source = cJSON_GetArrayItem(json, 1);
    int f = 0;
    while (f < FIGURE_COUNT && strcmp(figures[f].key, json->string) != 0) f++;
    if (f == FIGURE_COUNT)
        return error_set(err, STATUS_USAGE, "%.80s: not a figure of a hardware profile", json->string);
    if (!cJSON_IsNumber(value) || !cJSON_IsString(source) || !*source->valuestring)
        return error_set(err, STATUS_USAGE, "%s: give [value, \"source\"]", figures[f].key);
    const double number = value->valuedouble;
    if (!(number >= 0 && number <= 0x1p53 && number == (double)(uint64_t)number))
        return error_set(err, STATUS_USAGE, "%s: give a whole number from 0 to 2^53", figures[f].key);
    *figure_at(hardware, f) = (uint64_t)number;
    return STATUS_OK;
}

static int read_member(struct hardware *hardware, const cJSON *json, struct error *err)
{
    if (!strcmp(json->string, "name") && cJSON_IsString(json)) {
        snprintf(hardware->name, sizeof hardware->name, "%s", json->valuestring);
        return STATUS_OK;
    }
    if (strcmp(json->string, "collectives") != 0) return read_figure(hardware, json, err);
    for (int way = 0; way < WAYS && cJSON_IsString(json); way++)
        if (!strcmp(json->valuestring, way_names[way])) return hardware->way = (enum way)way, STATUS_OK;
    return error_set(err, STATUS_USAGE, "collectives: give fastest, ring, tree, direct or hierarchical");
}

static int read_profile(struct hardware *hardware, const char *text, struct error *err)
{
    cJSON *json = cJSON_Parse(text);
    const cJSON *member;
    int status = cJSON_IsObject(json) ? STATUS_OK : error_set(err, STATUS_INPUT, "not a JSON object");
    *hardware = (struct hardware){.name = "unnamed"};
    cJSON_ArrayForEach(member, json)
    {
        if (!status) status = read_member(hardware, member, err);
    }
    cJSON_Delete(json);
    for (int f = 0; f < FIGURE_COUNT && !status; f++)
        if (figures[f].required && !*figure_at(hardware, f))
            status = error_set(err, STATUS_USAGE, "%s: is missing, or 0", figures[f].key);
    return status;
}

/* A word without "." and "/" is a name, not a file. */
static int find_text(char **text, const char *name, struct error *err)
{
    enum { PROFILE_BYTES_MAX = 1 << 20 };
    size_t length;
    for (int p = 0; p < PROFILE_COUNT; p++)
        if (!strcmp(name, profiles[p].name)) {
            *text = strdup(profiles[p].text);
            return *text ? STATUS_OK : error_set(err, STATUS_RUN, "no memory for a profile");
        }
    if (!*name || !strpbrk(name, "./"))
        return error_set(err, STATUS_USAGE, "give t4, v100, a100, h100, h200, b200, or a file of --calibrate");
    return file_read(text, &length, name, PROFILE_BYTES_MAX, true, err);
}

int hardware_load(struct hardware *hardware, const char *name, struct error *err)
{
    char *text = NULL;
    int status = find_text(&text, name ? name : "", err);
    if (!status) status = read_profile(hardware, text, err);
    free(text);
    return status ? error_prefix(err, "--hardware%s%s", name ? " " : "", name ? name : "") : STATUS_OK;
}

/* Whole and not 0, unless it is 0; a rate of 1e18 takes no time, and times are cut at thirty years. */
static uint64_t whole(double value)
{
    return value > 0 ? (uint64_t)fmin(fmax(round(value), 1), 1e18) : 0;
}

bool hardware_of_paces(struct hardware *hardware, const struct config *config)
{
    const bool is_seen = config->topology.slow_motion >= SLOW_MOTION_EYE;
    bool paced = is_seen || config->topology.device_flops > 0;
    uint64_t rate[LINKS], ns[LINKS];
    for (int link = 0; link < LINKS; link++) {
        rate[link] = whole(config->topology.links[link].bandwidth_bytes_per_s);
        ns[link] = whole(1e9 * config->topology.links[link].latency_s);
        paced |= rate[link] || ns[link];
    }
    *hardware = (struct hardware){
        .name = "paces", .way = WAY_DIRECT, .paced = true,
        .product_efficiency = 1000, .memory_efficiency = 1000, .link_efficiency = 1000,
        .intra_rate = rate[LINK_INTRA], .intra_ns = ns[LINK_INTRA],
        .inter_rate = rate[LINK_INTER], .inter_ns = ns[LINK_INTER],
        .pcie_rate = rate[LINK_PCIE], .pcie_ns = ns[LINK_PCIE],
        .nvme_read_rate = rate[LINK_NVME], .nvme_write_rate = rate[LINK_NVME], .nvme_ns = ns[LINK_NVME],
        .least_ns = is_seen ? (uint64_t)(1e9 * SLOW_MOTION_EYE_SECONDS) : 0, .slow_motion = config->topology.slow_motion,
        .slow_rank = config->topology.slow_rank, .straggler = config->topology.slow_rank >= 0 ? SLOW_RANK_FACTOR : 0,
    };
    hardware->flops_fp32 = hardware->flops_bf16 = hardware->flops_fp16 = whole(config->topology.device_flops);
    return paced;
}

char *hardware_text(const struct hardware *hardware, const char *source)
{
    cJSON *json = json_object(TEXT("name", hardware->name), TEXT("collectives", way_names[hardware->way]));
    for (int f = 0; f < FIGURE_COUNT; f++) {
        cJSON *figure = cJSON_AddArrayToObject(json, figures[f].key);
        cJSON_AddItemToArray(figure, cJSON_CreateNumber((double)*figure_at(hardware, f)));
        cJSON_AddItemToArray(figure, cJSON_CreateString(source));
    }
    return json_lines(json);
}

uint64_t hardware_flops(const struct hardware *hardware, enum dtype dtype)
{
    return dtype == DTYPE_BF16  ? hardware->flops_bf16
           : dtype == DTYPE_F16 ? hardware->flops_fp16
                                : hardware->flops_fp32;
}

int hardware_place(struct config *config, const struct hardware *hardware, struct error *err)
{
    const int ranks = config->topology.ranks, devices = (int)hardware->node_devices;
    if (config->topology.ranks_per_node || ranks <= devices) return STATUS_OK;
    if (ranks % devices)
        return error_set(err, STATUS_USAGE, "%d ranks do not fill nodes of %d; set topology.ranks_per_node", ranks, devices);
    config->topology.ranks_per_node = devices;
    return STATUS_OK;
}
