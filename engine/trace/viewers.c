#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/trace/chunk.h"
#include "engine/trace/listen.h"
#include "engine/trace/writer.h"

enum { LAG_BYTES = 16 << 20, LINGER_MS = 1000, DRIVER_LINGER_MS = 60000 };

struct viewers {
    struct trace_writer_options options;
    struct latest_records *latest; /* what a viewer that comes late gets first */
    int listen_fd;
    bool deaf; /* accept() failed (no descriptors left): try again later, not at once */
    struct viewer *seats[VIEWERS_MAX];
    int count;
    uint64_t newest_ns;  /* time of the newest record */
    struct chunk chunk;  /* being built */
    struct bytes sealed; /* chunks before it, of the same batch */
    bool no_memory;      /* a record did not go into it */
    struct bytes shared; /* the chunks that go to every whole viewer */
};

/* --- out ------------------------------------------------------------------------------------------------------------ */

static void leave(struct viewers *viewers, int seat)
{
    struct viewer *viewer = viewers->seats[seat];
    viewers->seats[seat] = viewers->seats[--viewers->count];
    bool drove = viewer->terms.drives;
    close(viewer->fd);
    bytes_release(&viewer->queue);
    free(viewer);
    if (drove && viewers->options.on_driver_gone) viewers->options.on_driver_gone(viewers->options.user);
}

/* Sends what the socket takes now; false: the connection is over. */
static bool flush(struct viewer *viewer)
{
    while (viewer->sent < viewer->queue.count) {
        ssize_t sent = send(viewer->fd, viewer->queue.at + viewer->sent, viewer->queue.count - viewer->sent,
                            MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
        viewer->sent += (size_t)sent;
    }
    viewer->queue.count = viewer->sent = 0;
    return true;
}

static size_t waiting_bytes(const struct viewer *viewer)
{
    return viewer->queue.count - viewer->sent;
}

static bool enqueue(struct viewer *viewer, const void *bytes, size_t count)
{
    if (viewer->sent > viewer->queue.count / 2) {
        bytes_drop(&viewer->queue, viewer->sent);
        viewer->sent = 0;
    }
    return bytes_append(&viewer->queue, bytes, count);
}

/* A chunk that is full is sealed, and another begun. */
static void add_record(void *user, const void *record)
{
    struct viewers *viewers = user;
    const struct trace_head head = trace_peek(record);
    if (chunk_append(&viewers->chunk, record, head)) return;
    const bool added = chunk_seal(&viewers->chunk, NULL, &viewers->sealed) && chunk_append(&viewers->chunk, record, head);
    if (!added) viewers->no_memory = true;
}

/* Appends to `out` what was added. False: a record is missing from it, and its viewers must be cut off. */
static bool seal(struct viewers *viewers, struct bytes *out)
{
    bool whole = bytes_append(out, viewers->sealed.at, viewers->sealed.count) && !viewers->no_memory;
    if (viewers->chunk.head.records) whole = chunk_seal(&viewers->chunk, NULL, out) && whole;
    viewers->sealed.count = 0;
    viewers->no_memory = false;
    return whole;
}

/* Seals what was added and queues it for one viewer. */
static bool enqueue_added(struct viewers *viewers, struct viewer *viewer)
{
    struct bytes sealed = {0};
    bool done = seal(viewers, &sealed) && enqueue(viewer, sealed.at, sealed.count);
    bytes_release(&sealed);
    return done;
}

/* Decides which records are left out from now on; queues the latest records of kinds that are sent again. */
static bool settle(struct viewers *viewers, struct viewer *viewer, size_t waiting)
{
    if (viewer->terms.gets_all) waiting = 0;
    thin_settle(&viewer->thin, waiting, viewers->latest, viewers->newest_ns, add_record, viewers);
    return enqueue_added(viewers, viewer);
}

/* One line from the writer to one viewer. */
static bool tell(struct viewers *viewers, struct viewer *viewer, const char *text)
{
    const struct trace_record record = trace_log(1, text, clock_ns());
    uint8_t bytes[TRACE_FIXED_MAX + 256];
    if (trace_encoded_bytes(&record) > sizeof bytes) return true;
    trace_encode(&record, bytes);
    add_record(viewers, bytes);
    return enqueue_added(viewers, viewer) && flush(viewer);
}

/* A viewer that attaches within a step would get half of its operations and could not know it. So these are left out;
 * all other records (state, log, answers to commands) go to it at once. A slow viewer gets what thin.h says. */
static bool enqueue_filtered(struct viewers *viewers, struct viewer *viewer, const struct bytes *records)
{
    struct viewer_terms *terms = &viewer->terms;
    struct trace_record record;
    for (size_t at = 0, size; at < records->count; at += size) {
        size = trace_decode(records->at + at, records->count - at, &record);
        if (!size) break;
        bool operation = record.kind == TRACE_OP_BEGIN || record.kind == TRACE_OP_END;
        if (record.kind == TRACE_STEP_BEGIN && record.step_begin.step > terms->first_step) terms->whole = true;
        const uint32_t step = record.kind == TRACE_OP_BEGIN ? record.op_begin.step : record.op_end.step;
        if (!terms->whole && operation && step < terms->first_step) continue;
        if (thin_takes(&viewer->thin, records->at + at)) add_record(viewers, records->at + at);
    }
    return enqueue_added(viewers, viewer);
}

/* The chunks that all whole viewers get. */
static bool seal_shared(struct viewers *viewers, const struct bytes *records)
{
    viewers->shared.count = 0;
    for (size_t at = 0; at < records->count;) {
        const struct trace_head head = trace_peek(records->at + at);
        if (head.time_ns > viewers->newest_ns) viewers->newest_ns = head.time_ns;
        add_record(viewers, records->at + at);
        at += head.bytes;
    }
    return seal(viewers, &viewers->shared);
}

static int put(void *self, struct bytes *records, uint64_t now_ns, struct error *err)
{
    struct viewers *viewers = self;
    (void)now_ns, (void)err;
    for (size_t at = 0; at < records->count; at += trace_peek(records->at + at).bytes)
        latest_records_put(viewers->latest, records->at + at);
    if (!viewers->count) return STATUS_OK;
    bool shared = seal_shared(viewers, records);
    for (int seat = viewers->count - 1; seat >= 0; seat--) {
        struct viewer *viewer = viewers->seats[seat];
        bool everything = viewer->terms.whole && !thin_is_on(&viewer->thin);
        bool kept = everything ? shared && enqueue(viewer, viewers->shared.at, viewers->shared.count)
                               : enqueue_filtered(viewers, viewer, records);
        if (!kept || !flush(viewer) || !settle(viewers, viewer, waiting_bytes(viewer))) leave(viewers, seat);
    }
    return STATUS_OK;
}

bool viewers_lag(const struct viewers *viewers)
{
    for (int seat = 0; seat < viewers->count; seat++)
        if (viewers->seats[seat]->terms.gets_all && waiting_bytes(viewers->seats[seat]) > LAG_BYTES) return true;
    return false;
}

/* --- in ------------------------------------------------------------------------------------------------------------- */

static bool someone_drives(const struct viewers *viewers)
{
    for (int seat = 0; seat < viewers->count; seat++)
        if (viewers->seats[seat]->terms.drives) return true;
    return false;
}

static bool greet(struct viewers *viewers, struct viewer *viewer)
{
    uint8_t head[STREAM_HEAD_BYTES];
    stream_head_write(viewer->terms.drives ? STREAM_DRIVES : 0, head);
    latest_records_each(viewers->latest, 0, add_record, viewers);
    return enqueue(viewer, head, sizeof head) && enqueue_added(viewers, viewer) && flush(viewer);
}

static void seat_viewer(struct viewers *viewers, int fd, bool only_watches)
{
    struct viewer *viewer = viewers->count < VIEWERS_MAX ? calloc(1, sizeof *viewer) : NULL;
    if (!viewer) {
        close(fd);
        return;
    }
    uint32_t open_step = latest_records_open_step(viewers->latest);
    viewer->fd = fd;
    viewer->terms.drives = !only_watches && !someone_drives(viewers);
    viewer->terms.whole = !open_step;
    viewer->terms.first_step = open_step + 1;
    viewers->seats[viewers->count++] = viewer;
    bool adopted = fd == viewers->options.adopted_fd;
    if (viewer->terms.drives && !adopted && viewers->options.on_driver)
        viewers->options.on_driver(viewers->options.user);
    if (!greet(viewers, viewer)) leave(viewers, viewers->count - 1);
}

static bool take_line(struct viewers *viewers, struct viewer *viewer)
{
    bool too_long = viewer->line_bytes == LINE_BYTES_MAX;
    viewer->line[too_long ? 0 : viewer->line_bytes] = '\0';
    viewer->line_bytes = 0;
    if (!strcmp(viewer->line, STREAM_WANTS_ALL)) return viewer->terms.gets_all = true;
    if (!viewer->terms.drives)
        return tell(viewers, viewer, "you only watch: another viewer drives this run; attach again when it has left");
    if (too_long) return tell(viewers, viewer, "command ignored: longer than 1023 bytes");
    if (viewers->options.on_command && viewer->line[0])
        viewers->options.on_command(viewers->options.user, viewer->line);
    return true;
}

/* Takes what has arrived; false: the connection is over. */
static bool listen_to(struct viewers *viewers, struct viewer *viewer)
{
    char bytes[4096];
    ssize_t count = recv(viewer->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (count < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
    for (ssize_t i = 0; i < count; i++) {
        if (bytes[i] == '\n') {
            if (!take_line(viewers, viewer)) return false;
        } else if (viewer->line_bytes < LINE_BYTES_MAX) {
            viewer->line[viewer->line_bytes++] = bytes[i];
        }
    }
    return count > 0;
}

bool viewers_poll(struct viewers *viewers, int wake_fd, int timeout_ms)
{
    struct pollfd polled[VIEWERS_MAX + 2] = {{.fd = wake_fd, .events = POLLIN},
                                             {.fd = viewers->deaf ? -1 : viewers->listen_fd, .events = POLLIN}};
    viewers->deaf = false;
    for (int seat = 0; seat < viewers->count; seat++) {
        const struct viewer *viewer = viewers->seats[seat];
        polled[2 + seat] = (struct pollfd){.fd = viewer->fd, .events = POLLIN | (viewer->queue.count ? POLLOUT : 0)};
    }
    if (poll(polled, (nfds_t)viewers->count + 2, timeout_ms) <= 0) return false;
    for (int seat = viewers->count - 1; seat >= 0; seat--) { /* downwards: leave() fills a seat from above */
        struct viewer *viewer = viewers->seats[seat];
        short happened = polled[2 + seat].revents;
        bool stays = !(happened & (POLLIN | POLLHUP | POLLERR)) || listen_to(viewers, viewer);
        if (stays && (happened & POLLOUT)) stays = flush(viewer);
        if (!stays) leave(viewers, seat);
    }
    if (polled[1].revents & POLLIN) {
        bool only_watches;
        int fd = accept_from(viewers->listen_fd, &only_watches);
        if (fd >= 0) seat_viewer(viewers, fd, only_watches);
        viewers->deaf = fd < 0;
    }
    return polled[0].revents & POLLIN;
}

/* --- life ----------------------------------------------------------------------------------------------------------- */

/* Takes over viewers that already have the stream's head. Without memory a viewer is closed, and may attach again. */
static void seat_handed(struct viewers *viewers, struct viewer *from)
{
    struct viewer *viewer = malloc(sizeof *viewer);
    if (!viewer) return;
    *viewer = *from;
    viewers->seats[viewers->count++] = viewer;
    *from = (struct viewer){.fd = -1};
}

static void take_handed(struct viewers *viewers, struct handover *handed)
{
    viewers->listen_fd = handed->listen_fd;
    handed->listen_fd = -1;
    for (int i = 0; i < handed->viewers; i++) seat_handed(viewers, &handed->viewer[i]);
    handover_release(handed);
    void (*on_handed)(void *user) =
        someone_drives(viewers) ? viewers->options.on_driver : viewers->options.on_driver_gone;
    if (on_handed) on_handed(viewers->options.user);
}

void viewers_hand_over(struct viewers *viewers, struct handover *handover)
{
    *handover = (struct handover){.listen_fd = viewers->listen_fd};
    viewers->listen_fd = -1;
    for (; viewers->count; free(viewers->seats[viewers->count])) {
        struct viewer *viewer = viewers->seats[--viewers->count];
        settle(viewers, viewer, 0); /* the next engine does not know what this one left out */
        bytes_drop(&viewer->queue, viewer->sent);
        viewer->sent = 0;
        handover->viewer[handover->viewers++] = *viewer;
    }
}

int viewers_open(struct viewers **out, const struct trace_writer_options *options, struct error *err)
{
    *out = NULL;
    struct viewers *viewers = calloc(1, sizeof *viewers);
    if (viewers) viewers->latest = latest_records_new();
    if (!viewers || !viewers->latest)
        return free(viewers), error_set(err, STATUS_RUN, "no memory for the viewers of a run");
    viewers->options = *options;
    viewers->listen_fd = -1;
    int status = STATUS_OK;
    if (options->handed) take_handed(viewers, options->handed);
    else if (options->socket) status = listen_at(&viewers->listen_fd, options->socket, err);
    if (status) return latest_records_free(viewers->latest), free(viewers), status;
    if (options->adopted_fd >= 0) seat_viewer(viewers, options->adopted_fd, false);
    *out = viewers;
    return 0;
}

static bool anyone_reads(const struct viewers *viewers, uint64_t since_ns)
{
    const uint64_t waited_ms = (clock_ns() - since_ns) / 1000000;
    for (int seat = 0; seat < viewers->count; seat++) {
        const struct viewer *viewer = viewers->seats[seat];
        const bool is_patient = viewer->terms.drives || viewer->terms.gets_all;
        if (viewer->queue.count && waited_ms < (is_patient ? DRIVER_LINGER_MS : LINGER_MS)) return true;
    }
    return false;
}

static int end(void *self, bool goes_on, struct error *err)
{
    enum { LOOK_MS = 100 };
    struct viewers *viewers = self;
    (void)goes_on, (void)err;
    unlisten(viewers->listen_fd);
    viewers->listen_fd = -1;
    viewers->options.on_command = NULL; /* it is the run that leaves: nobody to call any more */
    viewers->options.on_driver = viewers->options.on_driver_gone = NULL;
    for (int seat = viewers->count - 1; seat >= 0; seat--)
        if (!settle(viewers, viewers->seats[seat], 0) || !flush(viewers->seats[seat])) leave(viewers, seat);
    const uint64_t since_ns = clock_ns();
    while (anyone_reads(viewers, since_ns)) viewers_poll(viewers, -1, LOOK_MS);
    while (viewers->count) leave(viewers, viewers->count - 1);
    chunk_release(&viewers->chunk);
    bytes_release(&viewers->sealed);
    bytes_release(&viewers->shared);
    latest_records_free(viewers->latest);
    free(viewers);
    return STATUS_OK;
}

struct sink viewers_sink(struct viewers *viewers)
{
    return (struct sink){put, end, viewers};
}
