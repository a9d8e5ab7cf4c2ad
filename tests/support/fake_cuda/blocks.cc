/* A kernel on one host thread: block after block, and within a block its threads as fibers, each with a stack of its own, that
 * take turns. A fiber runs until it comes to a barrier or a warp operation whose other threads are not there yet. */
#include "tests/support/fake_cuda/inside.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#ifndef __x86_64__
#include <ucontext.h>
#endif

__thread fake_thread *fake_this_thread;
__thread fake_block fake_this_block;

namespace
{

enum { PAGE = 4096, LINE = 64, STACK_BYTES = (128 << 10) + PAGE };
enum state { READY, AT_BARRIER, AT_MEETING, DONE };

struct copy {
    void *to;
    const void *from;
    size_t bytes;
};

#ifdef __x86_64__
using place = void *; /* where a fiber left off: its stack, with the registers on it */
#else
using place = ucontext_t;
#endif

struct fiber {
    fake_thread seen;
    place left;
    enum state state;
    std::vector<std::vector<copy>> copies; /* on their way, by group; the last is not committed */
};

/* Threads that come to a place together: a warp, or a warpgroup. */
enum { WARP_THREADS = 32, GROUP_THREADS = 128 };
struct meeting {
    void *lanes[GROUP_THREADS];
    int size, here;
};

struct machine {
    fiber fibers[FAKE_THREADS_MOST];
    meeting warps[FAKE_THREADS_MOST / WARP_THREADS], groups[FAKE_THREADS_MOST / GROUP_THREADS];
    int threads, waiting, alive;
    fiber *lanes[WARP_THREADS + 1]; /* of the warp that runs, in their order; then nullptr */
    int lane;                       /* the next one that may run */
    char *stacks, *shared;
    place scheduler;
    const fake_kernel *kernel;
};

thread_local std::unique_ptr<machine> owned; /* of this thread; */
__thread machine *here;                      /* the same, read without a check whether it is initialized */
std::atomic<int> chosen_order{FAKE_FORWARD};

int number_of(const fiber *f)
{
    return (int)(f - here->fibers);
}

fiber *current()
{
    return (fiber *)fake_this_thread; /* `seen` is its first member */
}

/* ---- switching ------------------------------------------------------------------------------------------------------- */

void leave();

void fiber_main()
{
    here->kernel->body();
    current()->state = DONE;
    here->alive--;
    leave();
}

#ifdef __x86_64__
extern "C" void fake_switch(void **from, void *to);
asm(".text\n.globl fake_switch\n.type fake_switch,@function\nfake_switch:\n"
    "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
    "mov %rsp,(%rdi)\nmov %rsi,%rsp\n"
    /* Not `ret`, whose target the processor predicts to be the place of the last call. */
    "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\npop %rcx\njmp *%rcx\n.size fake_switch,.-fake_switch\n");

void go(place *from, place *to)
{
    fake_switch(from, *to);
}

void prepare(fiber *f)
{
    /* Their first bytes in different sets of the processor's caches. */
    const size_t color = (size_t)(number_of(f) % (PAGE / LINE)) * LINE;
    void **top = (void **)(here->stacks + (size_t)(number_of(f) + 1) * STACK_BYTES - color) - 2;
    *top = (void *)fiber_main; /* what the first switch returns to, with the stack as after a call */
    f->left = top - 6;
}
#else
void go(place *from, place *to)
{
    swapcontext(from, to);
}

void prepare(fiber *f)
{
    getcontext(&f->left);
    f->left.uc_stack.ss_sp = here->stacks + (size_t)number_of(f) * STACK_BYTES + PAGE;
    f->left.uc_stack.ss_size = STACK_BYTES - PAGE;
    makecontext(&f->left, fiber_main, 0);
}
#endif

/* The next thread of the warp that can run, or nullptr. */
fiber *next_lane()
{
    while (fiber *f = here->lanes[here->lane]) {
        here->lane++;
        if (f->state == READY) return f;
    }
    return nullptr;
}

/* The calling thread stays where it is, and the next of its warp goes on. */
void leave()
{
    fiber *const mine = current(), *const f = next_lane();
    if (f) fake_this_thread = &f->seen;
    go(&mine->left, f ? &f->left : &here->scheduler);
}

/* ---- faults ---------------------------------------------------------------------------------------------------------- */

void on_fault(int, siginfo_t *info, void *)
{
    char where[256], line[512];
    fake_where(where, sizeof where);
    const int n =
        snprintf(line, sizeof line, "fake CUDA: %s touched %p, which is %s\n", where, info->si_addr,
                 info->si_code == 4 /* SEGV_PKUERR */ ? "memory of the device" : "no memory that it may touch");
    if (write(2, line, (size_t)n) < 0) _exit(134);
    _exit(134);
}

struct faults {
    faults()
    {
        struct sigaction action = {};
        action.sa_sigaction = on_fault;
        action.sa_flags = SA_SIGINFO;
        sigaction(SIGSEGV, &action, nullptr);
        sigaction(SIGBUS, &action, nullptr);
    }
};

/* ---- scheduling ------------------------------------------------------------------------------------------------------ */

void order_fill(int *order, int n)
{
    const int how = chosen_order;
    for (int i = 0; i < n; i++) order[i] = how == FAKE_BACKWARD ? n - 1 - i : i;
    for (int i = n - 1; i > 0 && how == FAKE_RANDOM; i--) std::swap(order[i], order[fake_random() % (uint64_t)(i + 1)]);
}

machine *machine_new()
{
    static faults once;
    machine *m = new machine();
    m->stacks = (char *)mmap(nullptr, (size_t)FAKE_THREADS_MOST * STACK_BYTES, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    for (int i = 0; i < FAKE_THREADS_MOST; i++) mprotect(m->stacks + (size_t)i * STACK_BYTES, PAGE, PROT_NONE);
    const size_t room = (FAKE_SHARED_MOST + PAGE - 1) / PAGE * PAGE;
    m->shared = (char *)mmap(nullptr, room + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) + room;
    mprotect(m->shared, PAGE, PROT_NONE); /* `shared` is the end: what is used lies before it */
    return m;
}

void block_begin(machine *m, const fake_kernel &kernel, unsigned number)
{
    const dim3 g = kernel.grid, b = kernel.block;
    const size_t shared = (kernel.shared_bytes + 15) / 16 * 16;
    fake_this_block = {{number % g.x, number / g.x % g.y, number / g.x / g.y}, b, g, m->shared - shared};
    memset(m->shared - shared, 0xff, shared); /* not a number, in any type */
    m->threads = m->alive = (int)(b.x * b.y * b.z);
    m->waiting = 0;
    for (int w = 0; w * 32 < m->threads; w++) m->warps[w] = {{}, std::min(32, m->threads - w * 32), 0};
    for (int g = 0; g * 128 < m->threads; g++) m->groups[g] = {{}, std::min(128, m->threads - g * 128), 0};
    fake_products_begin(m->threads, shared);
    for (int i = 0; i < m->threads; i++) {
        const unsigned t = (unsigned)i;
        m->fibers[i].seen.index = {t % b.x, t / b.x % b.y, t / b.x / b.y};
        m->fibers[i].state = READY;
        auto &copies = m->fibers[i].copies;
        if (copies.size() != 1 || !copies[0].empty()) copies.assign(1, {}); /* seldom: all were waited for */
        prepare(&m->fibers[i]);
    }
}

/* Runs the warp as far as it comes without other warps; false where it could not move at all. */
bool warp_run(machine *m, int number, const int *order)
{
    int n = 0;
    for (int i = 0; i < WARP_THREADS; i++)
        if (order[i] < m->warps[number].size) m->lanes[n++] = &m->fibers[number * WARP_THREADS + order[i]];
    m->lanes[n] = nullptr;
    for (bool moved = false;; moved = true) {
        m->lane = 0;
        fiber *f = next_lane();
        if (!f) return moved;
        fake_this_thread = &f->seen;
        go(&m->scheduler, &f->left);
    }
}

/* One warp after the other goes as far as it can: they get as far apart as barriers allow. */
void block_run(machine *m)
{
    const int warps = (m->threads + 31) / 32;
    int order[FAKE_THREADS_MOST / 32], lanes[32];
    order_fill(order, warps);
    order_fill(lanes, 32);
    while (m->alive) {
        bool moved = false;
        for (int w = 0; w < warps; w++) moved = warp_run(m, order[w], lanes) || moved;
        if (m->alive && m->waiting == m->alive) {
            for (int i = 0; i < m->threads; i++)
                if (m->fibers[i].state == AT_BARRIER) m->fibers[i].state = READY;
            m->waiting = 0;
            fake_products_barrier();
        } else if (m->alive && !moved) {
            fake_die("%s: the threads wait for each other: some at a barrier or a warp operation that the others never "
                     "come to",
                     m->kernel->name);
        }
    }
    for (int i = 0; i < m->threads; i++)
        for (const auto &group : m->fibers[i].copies)
            if (!group.empty()) fake_die("%s ended with copies that it never waited for", m->kernel->name);
    fake_products_end();
}

/* The last to come does for all what they came for. */
void meet(meeting *meetings, int full, const char *what, void *mine, void (*all)(void *const *lanes))
{
    const int number = number_of(current()), first = number / full * full;
    meeting *m = &meetings[number / full];
    if (m->size < full) fake_die("%s: %s of %d threads", here->kernel->name, what, m->size);
    m->lanes[number - first] = mine;
    if (++m->here < full) {
        current()->state = AT_MEETING;
        return leave();
    }
    all(m->lanes);
    m->here = 0;
    for (int i = first; i < first + full; i++) here->fibers[i].state = READY;
}

} // namespace

void fake_run(const fake_kernel &kernel)
{
    if (!here) owned.reset(here = machine_new());
    here->kernel = &kernel;
    const int blocks = (int)(kernel.grid.x * kernel.grid.y * kernel.grid.z);
    std::vector<int> order((size_t)blocks);
    order_fill(order.data(), blocks);
    for (int number : order) {
        block_begin(here, kernel, (unsigned)number);
        block_run(here);
    }
    here->kernel = nullptr;
    fake_this_thread = nullptr;
}

void fake_barrier()
{
    current()->state = AT_BARRIER;
    here->waiting++;
    leave();
}

void fake_warp_meet(void *mine, void (*all)(void *const lanes[32]))
{
    meet(here->warps, WARP_THREADS, "a warp operation in a warp", mine, all);
}

void fake_group_meet(void *mine, void (*all)(void *const *lanes))
{
    meet(here->groups, GROUP_THREADS, "a product in a warpgroup", mine, all);
}

int fake_thread_number()
{
    return number_of(current());
}

void fake_copy_later(void *to, const void *from, size_t bytes)
{
    current()->copies.back().push_back({to, from, bytes});
    fake_products_copy_begins(to, bytes);
}

void fake_copies_commit()
{
    current()->copies.emplace_back();
}

void fake_copies_wait(int groups_left)
{
    auto &groups = current()->copies;
    while ((int)groups.size() - 1 > groups_left) {
        for (const copy &c : groups.front()) {
            if (c.from) memcpy(c.to, c.from, c.bytes);
            else memset(c.to, 0, c.bytes);
            fake_products_copy_arrived(c.to, c.bytes);
        }
        groups.erase(groups.begin());
    }
}

void fake_where(char *text, size_t room)
{
    if (!here || !here->kernel || !fake_this_thread) {
        snprintf(text, room, "the host");
        return;
    }
    const dim3 b = fake_this_block.index, t = fake_this_thread->index;
    snprintf(text, room, "%s, block (%u, %u, %u), thread (%u, %u, %u),", here->kernel->name, b.x, b.y, b.z, t.x, t.y,
             t.z);
}

void fake_die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("fake CUDA: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    fflush(stderr);
    _exit(134);
}

uint64_t fake_random()
{
    static std::atomic<uint64_t> state{1};
    uint64_t x = state.fetch_add(0x9e3779b97f4a7c15u);
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

void fake_set_order(enum fake_order order)
{
    chosen_order = order;
}
