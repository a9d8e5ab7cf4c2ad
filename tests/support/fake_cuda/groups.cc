/* Products of warpgroups (wgmma) as the PTX ISA describes them, and nothing kinder.
 *
 * What they see of shared memory is a copy of it, their *view*. A copy that begins makes its place in the view not-a-number; what
 * has arrived comes into the view when the thread that waited for it said so (fence.proxy.async) and the block met at a barrier
 * after that. Plain stores never come into it: no kernel needs them to.
 *
 * A product's operands are read when it is sent, and again when the last thread has waited for it: they must be the same, in shared
 * memory and in registers. Its results are not-a-number from when it is sent until the thread waits, and must be untouched then.
 *
 * Where elements lie, in bytes from the operand's beginning, in the exchange of 128 bytes (PTX ISA, canonical layouts): with k
 * along rows, element [mn][k] at mn / 8 x stride + mn % 8 x 128 + 2 k; with rows of k, at mn / 64 x leading + k / 8 x stride + k %
 * 8 x 128 + 2 (mn % 64). Then bits 4-6 of the address are exchanged by its bits 7-9. */
#include "tests/support/fake_cuda/inside.h"

#include <stdio.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "kernels/cuda/wgmma.cuh"

namespace
{

enum { SHARED_BEGINS = 1024 }; /* a block's first address: the hardware keeps the place below */
enum { GROUP_THREADS = 128, ROWS = 64, DEPTH = 16, COLUMNS_MOST = 256 };

struct range {
    char *at;
    size_t bytes;
};

/* A product of a warpgroup that some of its threads still have to wait for. */
struct pending {
    fake_product said; /* as its first thread said it */
    std::vector<uint16_t> a, b;
    int left;
};

/* Registers that products write, or read, until the batch is done. */
struct results {
    float *at;
    std::vector<float> value;
    int batch;
};
struct operands {
    const uint32_t *at;
    uint32_t was[4];
    int batch;
};
struct sent {
    std::shared_ptr<pending> product;
    int batch;
};

struct thread {
    bool begun;
    int batch;                  /* the one that is not committed yet */
    std::vector<range> arrived; /* copies that it waited for, and did not say so yet */
    std::vector<results> writes;
    std::vector<operands> reads;
    std::vector<sent> products;
};

thread_local std::vector<thread> threads;
thread_local std::vector<unsigned char> view;
thread_local std::vector<range> said; /* comes into view at the next barrier */

thread *here()
{
    return &threads[(size_t)fake_thread_number()];
}

char *shared_begin()
{
    return (char *)fake_this_block.shared;
}

bool is_shared(const char *at)
{
    return at >= shared_begin() && at < shared_begin() + view.size();
}

[[noreturn]] void die(const char *what)
{
    char where[256];
    fake_where(where, sizeof where);
    fake_die("%s %s", where, what);
}

/* ---- operands ---------------------------------------------------------------------------------------------------------- */

uint16_t element(uint64_t descriptor, bool rows_of_k, uint32_t mn, uint32_t k)
{
    const uint32_t begin = (uint32_t)(descriptor & 0x3fff) << 4, leading = (uint32_t)(descriptor >> 16 & 0x3fff) << 4,
                   stride = (uint32_t)(descriptor >> 32 & 0x3fff) << 4;
    uint32_t at = begin + (rows_of_k ? mn / 64 * leading + k / 8 * stride + k % 8 * 128 + mn % 64 * 2
                                     : mn / 8 * stride + mn % 8 * 128 + k * 2);
    at ^= at >> 3 & 0x70;
    if (at < SHARED_BEGINS || at + 2 > SHARED_BEGINS + view.size())
        die("multiplies what lies outside of the block's shared memory");
    uint16_t bits;
    memcpy(&bits, &view[at - SHARED_BEGINS], sizeof bits);
    return bits;
}

void check_descriptor(uint64_t descriptor)
{
    if (descriptor >> 62 != 1) die("multiplies by a descriptor of another exchange than that of 128 bytes");
    if (descriptor >> 49 & 7) die("multiplies by a descriptor with a base offset");
    if ((descriptor << 4) & 0x380) die("multiplies from an address that is not on a border of 1024 bytes");
}

/* a [ROWS][DEPTH] or b [columns][DEPTH], as they are in view now. */
std::vector<uint16_t> read_operand(uint64_t descriptor, bool rows_of_k, int mn)
{
    std::vector<uint16_t> elements((size_t)mn * DEPTH);
    for (int i = 0; i < mn; i++)
        for (int k = 0; k < DEPTH; k++)
            elements[(size_t)(i * DEPTH + k)] = element(descriptor, rows_of_k, (uint32_t)i, (uint32_t)k);
    return elements;
}

std::vector<uint16_t> read_a(const fake_product *const *lanes)
{
    if (!lanes[0]->registers) return read_operand(lanes[0]->a, false, ROWS);
    std::vector<uint16_t> a((size_t)ROWS * DEPTH);
    for (int lane = 0; lane < GROUP_THREADS; lane++)
        for (int i = 0; i < 8; i++) {
            const int row = lane / 32 * 16 + lane % 32 / 4 + i / 2 % 2 * 8, k = lane % 4 * 2 + i / 4 * 8 + i % 2;
            a[(size_t)(row * DEPTH + k)] = (uint16_t)(lanes[lane]->registers[i / 2] >> 16 * (i % 2));
        }
    return a;
}

/* ---- sending ----------------------------------------------------------------------------------------------------------- */

bool same(const fake_product *a, const fake_product *b)
{
    return a->columns == b->columns && !a->registers == !b->registers && a->a == b->a && a->b == b->b &&
           a->add == b->add && a->transposed == b->transposed && a->value == b->value;
}

/* The thread's results of products that are not done: what they will be. What its registers say until then is nothing. */
results *results_of(thread *t, const fake_product *mine)
{
    const size_t n = (size_t)mine->columns / 2;
    for (results &r : t->writes)
        if (r.at == mine->c && r.value.size() == n) return &r;
        else if (mine->c < r.at + r.value.size() && r.at < mine->c + n)
            die("multiplies into registers of which a product on its way writes a part");
    t->writes.push_back({mine->c, std::vector<float>(mine->c, mine->c + n), 0});
    memset(mine->c, 0xff, n * sizeof(float));
    return &t->writes.back();
}

/* What the product is, for all threads: called when the last has come. */
void multiply(void *const *lanes_)
{
    const fake_product *const *lanes = (const fake_product *const *)lanes_;
    const fake_product *first = lanes[0];
    for (int lane = 1; lane < GROUP_THREADS; lane++)
        if (!same(first, lanes[lane])) die("multiplies otherwise than other threads of its warpgroup");
    check_descriptor(first->b);
    if (!first->registers) check_descriptor(first->a);
    auto product = std::make_shared<pending>(
        pending{*first, read_a(lanes), read_operand(first->b, first->transposed, first->columns), GROUP_THREADS});

    static thread_local float a[ROWS][DEPTH], b[DEPTH][COLUMNS_MOST];
    for (int i = 0; i < ROWS * DEPTH; i++) a[i / DEPTH][i % DEPTH] = first->value(product->a[(size_t)i]);
    for (int i = 0; i < first->columns * DEPTH; i++) b[i % DEPTH][i / DEPTH] = first->value(product->b[(size_t)i]);
    const int group = fake_thread_number() / GROUP_THREADS * GROUP_THREADS;
    for (int lane = 0; lane < GROUP_THREADS; lane++) {
        thread *t = &threads[(size_t)(group + lane)];
        results *r = results_of(t, lanes[lane]);
        for (size_t i = 0; i < r->value.size(); i++) {
            const int row = lane / 32 * 16 + lane % 32 / 4 + (int)i / 2 % 2 * 8;
            const int column = (int)i / 4 * 8 + lane % 4 * 2 + (int)i % 2;
            float sum = first->add ? r->value[i] : 0;
            for (int k = 0; k < DEPTH; k++) sum += a[row][k] * b[k][column];
            r->value[i] = sum;
        }
        r->batch = t->batch;
        if (const uint32_t *at = lanes[lane]->registers)
            t->reads.push_back({at, {at[0], at[1], at[2], at[3]}, t->batch});
        t->products.push_back({product, t->batch});
    }
}

/* ---- waiting ----------------------------------------------------------------------------------------------------------- */

void results_arrive(results *r)
{
    for (float x : std::vector<float>(r->at, r->at + r->value.size())) {
        uint32_t bits;
        memcpy(&bits, &x, sizeof bits);
        if (bits != 0xffffffff) die("wrote to registers that a product on its way writes");
    }
    std::copy(r->value.begin(), r->value.end(), r->at);
}

void product_done(pending *product)
{
    const fake_product *of = &product->said;
    if (--product->left) return;
    if (read_operand(of->b, of->transposed, of->columns) != product->b ||
        (!of->registers && read_operand(of->a, false, ROWS) != product->a))
        die("waited for a product whose operands in shared memory changed meanwhile");
}

/* Takes what is of a batch up to `last` out of the list, for f to deal with. */
template <class T, class F> void settle(std::vector<T> *list, int last, F f)
{
    for (T &x : *list)
        if (x.batch <= last) f(x);
    list->erase(std::remove_if(list->begin(), list->end(), [=](const T &x) { return x.batch <= last; }), list->end());
}

} // namespace

void fake_group_begin()
{
    here()->begun = true;
}

void fake_group_multiply(const fake_product *mine)
{
    if (!here()->begun) die("multiplies without group_begin() since registers were last its own");
    fake_group_meet((void *)mine, multiply);
}

void fake_group_commit()
{
    here()->batch++;
}

void fake_group_wait(int batches_left)
{
    thread *t = here();
    const int last = t->batch - 1 - batches_left;
    settle(&t->reads, last, [](operands &o) {
        if (memcmp(o.at, o.was, sizeof o.was)) die("wrote to registers that a product on its way reads");
    });
    settle(&t->writes, last, [](results &r) { results_arrive(&r); });
    settle(&t->products, last, [](sent &s) { product_done(s.product.get()); });
    t->begun = false;
}

void fake_shared_written()
{
    thread *t = here();
    said.insert(said.end(), t->arrived.begin(), t->arrived.end());
    t->arrived.clear();
}

uint32_t fake_shared_address(const void *shared)
{
    return (uint32_t)((const char *)shared - shared_begin()) + SHARED_BEGINS;
}

/* ---- what the block does ---------------------------------------------------------------------------------------------------- */

void fake_products_begin(int count, size_t shared_bytes)
{
    threads.assign((size_t)count, {});
    view.assign(shared_bytes, 0xff);
    said.clear();
}

void fake_products_end()
{
    for (const thread &t : threads)
        if (!t.products.empty()) die("ended with products that it never waited for");
}

void fake_products_copy_begins(void *to, size_t bytes)
{
    if (is_shared((char *)to)) memset(&view[(size_t)((char *)to - shared_begin())], 0xff, bytes);
}

void fake_products_copy_arrived(void *to, size_t bytes)
{
    if (is_shared((char *)to)) here()->arrived.push_back({(char *)to, bytes});
}

void fake_products_barrier()
{
    for (const range &r : said) memcpy(&view[(size_t)(r.at - shared_begin())], r.at, r.bytes);
    said.clear();
}
