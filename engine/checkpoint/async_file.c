#include "engine/checkpoint/async_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/futex.h"

int async_file_open(struct async_file *file, const char *path, bool writes, struct error *err)
{
    file->writes = writes;
    for (int direct = O_DIRECT;; direct = 0) { /* not every file system has it */
        file->fd = writes ? file_create(path, direct) : open(path, O_RDONLY | O_CLOEXEC | direct);
        if (file->fd >= 0 || errno != EINVAL || !direct) break;
    }
    if (file->fd < 0) return error_set(err, STATUS_RUN, "%s", strerror(errno));
    return STATUS_OK;
}

void async_file_close(struct async_file *file)
{
    if (file->fd < 0) return;
    for (int s = 0; s < ASYNC_FILE_SLOTS; s++) async_file_wait(file, s, NULL);
    close(file->fd);
    file->fd = -1;
}

/* ---- moving ---- */

static ssize_t move_now(const struct async_file *file, unsigned char *at, size_t bytes, off_t offset)
{
    ssize_t moved = file->writes ? pwrite(file->fd, at, bytes, offset) : pread(file->fd, at, bytes, offset);
    return moved < 0 ? -errno : moved;
}

enum { REST, MOVE, END };

static void order(struct async_file_slot *slot, uint32_t what)
{
    atomic_store(&slot->order, what);
    futex_wake_all(&slot->order);
}

static void *run_slot(void *user)
{
    struct async_file_slot *slot = user;
    for (uint32_t what; (what = atomic_load(&slot->order)) != END;)
        if (what == REST) futex_wait(&slot->order, REST, 0);
        else slot->result = move_now(slot->file, slot->at, slot->bytes, slot->offset), order(slot, REST);
    return NULL;
}

static bool is_worth_a_thread(struct async_file_slot *slot)
{
    enum { WORTH_BYTES = 512 << 10 };
    if (slot->bytes >= WORTH_BYTES && !slot->has_thread)
        slot->has_thread = pthread_create(&slot->thread, NULL, run_slot, slot) == 0;
    return slot->bytes >= WORTH_BYTES && slot->has_thread;
}

void async_file_release(struct async_file *file)
{
    async_file_close(file);
    for (int s = 0; s < ASYNC_FILE_SLOTS; s++) {
        struct async_file_slot *slot = &file->slot[s];
        if (!slot->has_thread) continue;
        order(slot, END);
        pthread_join(slot->thread, NULL);
        atomic_store(&slot->order, REST);
        slot->has_thread = false;
    }
}

/* ---- pieces ---- */

void async_file_start(struct async_file *file, int s, void *at, size_t bytes, off_t offset)
{
    struct async_file_slot *slot = &file->slot[s];
    slot->file = file;
    slot->at = at;
    slot->bytes = bytes;
    slot->offset = offset;
    slot->pending = true;
    if (is_worth_a_thread(slot)) order(slot, MOVE);
    else slot->result = move_now(file, at, bytes, offset);
}

/* The rest of a piece that was moved only in part is moved here, so a full disk gives ENOSPC and not a short write. */
int async_file_wait(struct async_file *file, int s, struct error *err)
{
    struct async_file_slot *slot = &file->slot[s];
    if (!slot->pending) return STATUS_OK;
    while (atomic_load(&slot->order) == MOVE) futex_wait(&slot->order, MOVE, 0);
    slot->pending = false;
    size_t done = 0;
    for (ssize_t moved = slot->result;;
         moved = move_now(file, slot->at + done, slot->bytes - done, slot->offset + (off_t)done)) {
        if (moved == -EINTR || moved == -EAGAIN) continue;
        if (moved < 0) return error_set(err, STATUS_RUN, "%s", strerror((int)-moved));
        done += (size_t)moved;
        if (done == slot->bytes) return STATUS_OK;
        if (moved == 0)
            return error_set(err, STATUS_RUN, file->writes ? "nothing more can be written" : "the file ends early");
    }
}
