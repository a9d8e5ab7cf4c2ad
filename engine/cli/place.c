/* Where the ranks of a run are: on this machine, on the hosts of --hosts, --hostfile or a Slurm allocation, or already started
 * by another launcher. Adds settings to the run: the number of ranks, and how they start. */
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/cli/session.h"
#include "engine/launch/hosts.h"

int session_set(struct run_spec *spec, const char *set, struct error *err)
{
    if (spec->sets.count == TEXT_LIST_MAX)
        return error_set(err, STATUS_USAGE, "--set is given more than %d times", TEXT_LIST_MAX);
    spec->sets.at[spec->sets.count++] = set;
    return STATUS_OK;
}

static int set_ranks(struct session *session, int ranks, struct error *err)
{
    struct run_spec *spec = &session->spec;
    if (config_is_set(spec->sets.at, spec->sets.count, "topology.ranks_as"))
        return error_set(err, STATUS_USAGE, "topology.ranks_as: Open MPI starts the ranks here; leave it out");
    snprintf(session->rank_set, sizeof session->rank_set, "topology.ranks=%d", ranks);
    const int status = session_set(spec, session->rank_set, err);
    return status ? status : session_set(spec, "topology.ranks_as=mpirun", err);
}

/* Whether a name is this machine's, or one of its addresses: a socket can be bound to no other. */
static bool is_here(const char *name)
{
    char own[HOST_NAME_BYTES] = "";
    struct addrinfo *found = NULL;
    bool here = false;
    gethostname(own, sizeof own - 1);
    if (strcmp(name, own) == 0) return true;
    if (getaddrinfo(name, NULL, &(struct addrinfo){.ai_socktype = SOCK_DGRAM}, &found)) return false;
    for (const struct addrinfo *at = found; at && !here; at = at->ai_next) {
        const int fd = socket(at->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        here = fd >= 0 && bind(fd, at->ai_addr, at->ai_addrlen) == 0;
        if (fd >= 0) close(fd);
    }
    freeaddrinfo(found);
    return here;
}

int place_hosts(struct hosts *hosts, const struct cli *cli, struct error *err)
{
    enum { FILE_MOST = 1 << 20 };
    const char *nodes = getenv("SLURM_JOB_NODELIST"), *tasks = getenv("SLURM_TASKS_PER_NODE"), *source = "--hosts";
    char *text = NULL;
    size_t length;
    int status = STATUS_OK, here = 0;
    *hosts = (struct hosts){0};
    if (cli->hosts && cli->hostfile) return error_set(err, STATUS_USAGE, "give --hosts or --hostfile, not both");
    if (cli->hosts) {
        status = hosts_parse(hosts, cli->hosts, err) ? error_prefix(err, "--hosts") : STATUS_OK;
    } else if (cli->hostfile) {
        source = cli->hostfile;
        status = file_read(&text, &length, source, FILE_MOST, true, err)
                     ? error_prefix(err, "--hostfile %.200s", source)
                     : hosts_parse_file(hosts, text, source, err);
    } else if (nodes && *nodes) {
        source = "the Slurm allocation";
        status = hosts_parse_slurm(hosts, nodes, tasks ? tasks : getenv("SLURM_JOB_CPUS_PER_NODE"), err);
        if (!status && hosts->count < 2) hosts->count = 0; /* one node is this machine */
    }
    free(text);
    if (status || !hosts->count) return status;
    while (here < hosts->count && !is_here(hosts->at[here].name)) here++;
    if (here == hosts->count)
        return error_set(err, STATUS_USAGE,
                         "%.200s: this machine is not among the hosts; start zerolab on one of them, which gets rank 0",
                         source);
    return hosts_put_first(hosts, here), STATUS_OK;
}

static int join(struct session *session, const struct launcher_outer *outer, struct error *err)
{
    const struct cli *cli = session->cli;
    if (cli->hosts || cli->hostfile || cli->agent || cli->detach)
        return error_set(err, STATUS_USAGE,
                         "another launcher has started %d ranks; leave out --hosts, --hostfile, "
                         "--launch-agent and --detach, or start zerolab once, without mpirun or srun",
                         outer->ranks);
    if (cli->ranks > 0 && cli->ranks != outer->ranks)
        return error_set(err, STATUS_USAGE, "-n %lld: another launcher has started %d ranks; leave -n out",
                         (long long)cli->ranks, outer->ranks);
    session->spec.external = true;
    return set_ranks(session, outer->ranks, err);
}

int place_choose(struct session *session, struct error *err)
{
    const struct cli *cli = session->cli;
    struct launcher_outer outer;
    struct hosts hosts;
    if (launcher_outer(&outer)) return join(session, &outer, err);
    const int status = place_hosts(&hosts, cli, err);
    if (status) return status;
    if (hosts.count) {
        const int slots = hosts_slots(&hosts);
        if (cli->ranks > slots)
            return error_set(err, STATUS_USAGE, "-n %lld: the hosts have %d slots in all", (long long)cli->ranks,
                             slots);
        hosts_text(&hosts, session->hosts);
        session->spec.hosts = session->hosts;
        session->spec.agent = cli->agent;
        return set_ranks(session, cli->ranks > 0 ? (int)cli->ranks : slots, err);
    }
    if (cli->agent)
        return error_set(err, STATUS_USAGE, "--launch-agent starts processes on other hosts; give --hosts too");
    if (cli->ranks <= 0) return STATUS_OK;
    snprintf(session->rank_set, sizeof session->rank_set, "topology.ranks=%lld", (long long)cli->ranks);
    return session_set(&session->spec, session->rank_set, err);
}
