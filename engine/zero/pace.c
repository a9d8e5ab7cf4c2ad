/* Adds time to operations: for paced links, a paced device, and slow motion. */
#include <math.h>

#include "engine/base/clock.h"
#include "engine/zero/executor_parts.h"

/* Stops early if the run should end. */
static void sleep_until(struct gate *gate, uint64_t when_ns)
{
    for (uint64_t now_ns; !atomic_load(&gate->haste) && (now_ns = clock_ns()) < when_ns;)
        futex_wait(&gate->haste, 0, when_ns - now_ns);
}

/* Time of the bytes over a paced link. */
static double paced_link_ns(const struct executor *executor, const struct comm_stat *stat, int link)
{
    const struct config_link *paced = &executor->host.links[link];
    if (stat->sent_bytes[link] == 0) return 0;
    double seconds = paced->latency_s;
    if (paced->bandwidth_bytes_per_s > 0) seconds += (double)stat->sent_bytes[link] / paced->bandwidth_bytes_per_s;
    return seconds * 1e9;
}

/* That of the slowest link used. */
static double link_ns(const struct executor *executor, const struct comm_stat *stat)
{
    double most_ns = 0;
    for (int link = 0; link < LINKS; link++) most_ns = fmax(most_ns, paced_link_ns(executor, stat, link));
    return most_ns;
}

/* The time to stretch: the thread's CPU time, because ranks may share CPUs, and time taken by other ranks must not be stretched
 * too. Between nodes, where a network does the work, it is the time since all ranks arrived; late ranks were stretched
 * themselves. */
static double counted_ns(const struct executor *executor, const struct flight *flight, uint64_t took_ns,
                         uint64_t worked_ns)
{
    const struct comm_stat *stat = &flight->stat.moved;
    const double *flops = executor->host.device_flops; /* of a paced device */
    const double paced_ns = fmax(link_ns(executor, stat), flops && *flops > 0 ? flight->stat.flops / *flops * 1e9 : 0);
    double counted = (double)(stat->sent_bytes[LINK_INTER] ? took_ns : worked_ns);
    if (counted < paced_ns) counted = paced_ns;
    if (counted < (double)executor->least_ns && op_is_followed(flight->op)) counted = (double)executor->least_ns;
    return counted;
}

uint64_t executor_pace(struct executor *executor, const struct flight *flight)
{
    const uint64_t now_ns = clock_ns(), began_ns = flight->started_ns + flight->stat.moved.arrival_ns,
                   took_ns = now_ns - began_ns;
    const uint64_t worked_ns = executor->slow_motion > 1 ? clock_worked_ns() - flight->worked_ns : 0;
    const double longest_ns = 1e18; /* thirty years: the time of a very slow link could overflow the clock */
    const double slowed_ns = fmin(counted_ns(executor, flight, took_ns, worked_ns) * executor->slow_motion, longest_ns);
    if (slowed_ns <= (double)took_ns) return 0;
    sleep_until(executor->host.gate, began_ns + (uint64_t)slowed_ns);
    return clock_ns() - now_ns;
}

/* A link is in use for as long as bytes moved over it, or for its paced time if that is longer. Where the former was not measured (copies
 * between tiers, devices), what is left of the operation without the wait for other ranks is shared by bytes. Control messages are waits. */
void executor_tell_ended(const struct executor *executor, const struct flight *flight, uint64_t took_ns)
{
    const struct comm_stat *stat = &flight->stat.moved;
    const double slow = executor->slow_motion > 1 ? executor->slow_motion : 1,
                 left_ns = flight->op->kind == OP_AGREE
                               ? 0
                               : (double)took_ns - (double)stat->peers_ns - link_ns(executor, stat) * slow;
    uint64_t busy_ns[LINKS], bytes = 0, measured_ns = 0;
    if (!executor->host.ended) return;
    for (int link = 0; link < LINKS; link++) bytes += stat->sent_bytes[link], measured_ns += stat->link_ns[link];
    for (int link = 0; link < LINKS; link++) {
        const double paced_ns = paced_link_ns(executor, stat, link) * slow;
        const double moved_ns = measured_ns ? (double)stat->link_ns[link] * slow
                                : bytes && left_ns > 0
                                    ? paced_ns + left_ns * (double)stat->sent_bytes[link] / (double)bytes
                                    : 0;
        busy_ns[link] = (uint64_t)fmin(fmax(moved_ns, paced_ns), (double)took_ns);
    }
    executor->host.ended(executor->host.user, flight->op, took_ns, busy_ns);
}
