/* Proves, before anything runs, what must be true of a schedule in every interleaving of its lanes:
 *
 *   order      an operation depends only on operations earlier in the list, so lane order, data and memory edges together
 *              are acyclic: in-order lanes cannot deadlock
 *   use        a buffer is used only between its take and its give, as seen from the operation that uses it
 *   activation every activation that a use reads was written by the previous use, by the unit's forward, or by its recomputation
 *   access     operations that touch the same bytes, one of them writing, have a certain order
 *   memory     every take waits for every give to its tier that is earlier in the list, so live bytes never exceed those of
 *              the list's order; buffers that share addresses never live together
 *   gather     parameters are gathered before use and given back after the last
 *   coverage   each gradient element is reduced exactly once per round, each parameter element updated exactly once, and
 *              every rank ends with every parameter that its layout says it holds
 *   groups     a collective is among the ranks that hold, or receive, what it moves; replicas add up what was just
 *              reduced; a gather across nodes is followed by one within them, which takes what the first brought
 *   limits     a bucket of more than reduce_bucket_size elements is a single tensor; no prefetched gather brings the gathered
 *              elements above stage3_max_live_parameters
 *   lanes      collectives stand on one communicating lane, in one order for all ranks
 */
#pragma once

#include "engine/plan/schedule.h"

/* STATUS_CHECK and the first violation in err, naming the operation. */
int schedule_check(const struct schedule *schedule, const struct model *model, struct error *err);
