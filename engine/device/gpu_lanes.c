/* A rank's lanes as streams of its GPU: the mover of each lane, and the events (marks) by which a lane runs ahead of its stream. */
#include "engine/device/gpu_parts.h"

/* A copy from or to unpinned host memory is complete when this returns. So an operation that depends on the copy may
 * start as soon as the copy was sent, also if it reads that memory on the host. */
static int copy(void *user, void *to, const void *from, uint64_t bytes, struct error *err)
{
    struct gpu_lane *lane = user;
    struct gpu_pages *pages = &lane->rank->pages;
    int status = STATUS_OK;
    for (uint64_t done = 0, more; done < bytes && !status; done += more) {
        unsigned char *next_to = (unsigned char *)to + done;
        const unsigned char *next_from = (const unsigned char *)from + done;
        more = gpu_pages_stretch(pages, next_to, bytes - done);
        more = gpu_pages_stretch(pages, next_from, more);
        status = device_copy(lane->stream, next_to, next_from, more, err);
    }
    return status;
}

static int clear(void *user, void *at, uint64_t bytes, struct error *err)
{
    struct gpu_lane *lane = user;
    return device_set(lane->stream, at, 0, bytes, err);
}

static int finish(void *user, struct error *err)
{
    struct gpu_lane *lane = user;
    return device_stream_wait(lane->stream, err);
}

static int mark(void *user, int mark, struct error *err)
{
    struct gpu_lane *lane = user;
    return device_event_record(lane->marks[mark], lane->stream, err);
}

static int await(void *user, const struct lane_stream *other, int mark, struct error *err)
{
    struct gpu_lane *lane = user, *awaited = other->user;
    return device_stream_await(lane->stream, awaited->marks[mark], err);
}

static int reach(void *user, int mark, uint64_t *at_ns, struct error *err)
{
    struct gpu_lane *lane = user;
    int status = device_event_wait(lane->marks[mark], err);
    return status ? status : device_event_time(lane->marks[mark], at_ns, NULL, err);
}

int gpu_lanes_open(struct gpu_rank *rank, struct error *err)
{
    int status = STATUS_OK;
    for (int l = 0; l < LANES && !status; l++) {
        struct gpu_lane *lane = &rank->lanes[l];
        if (l == LANE_HOST || l == LANE_NVME_READ || l == LANE_NVME_WRITE) continue; /* they use host memory alone */
        lane->rank = rank;
        lane->mover = (struct mover){lane, copy, clear, finish};
        lane->ahead = (struct lane_stream){lane, mark, await, reach};
        rank->device.movers[l] = &lane->mover;
        rank->device.streams[l] = &lane->ahead;
        status = device_stream_create(&lane->stream, rank->on, lane_name((enum lane)l), err);
        for (int m = 0; m < LANE_MARKS && !status; m++) status = device_event_create(&lane->marks[m], rank->on, err);
    }
    return status;
}

void gpu_lanes_close(struct gpu_rank *rank)
{
    for (int l = 0; l < LANES; l++) {
        for (int m = 0; m < LANE_MARKS; m++) device_event_destroy(rank->lanes[l].marks[m]);
        device_stream_destroy(rank->lanes[l].stream);
    }
}
