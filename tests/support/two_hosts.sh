#!/bin/sh
# two_hosts.sh COMMAND...   runs COMMAND on an imitated host "a" (10.9.0.1); mpirun reaches "b" (10.9.0.2) through this file as launch
# agent. Each host has its own network, hostname, PIDs and /dev/shm, and its own empty folders of the list $TWO_HOSTS_PRIVATE. On b,
# CLOCK_MONOTONIC is ahead by $TWO_HOSTS_SKEW_S seconds, and $TWO_HOSTS_BIND=FROM:TO puts a file in the place of another. All of it, processes included, is gone when COMMAND ends or this is killed.
# Inside, "echo down >/run/control" takes the link down, "echo up" brings it back, and "echo kill" kills all processes of b.
self=$(readlink -f "$0")
enter() { # HOST COMMAND...: becomes COMMAND on HOST
    host=$1 skew=
    shift
    [ "$host" = a ] || [ -z "$TWO_HOSTS_SKEW_S" ] || skew="-T --monotonic $TWO_HOSTS_SKEW_S --boottime $TWO_HOSTS_SKEW_S"
    exec ip netns exec "$host" unshare -u -m -i -p -f --kill-child --mount-proc $skew sh -c '
        hostname "$0" && mount --bind /run/hosts /etc/hosts && mount -t tmpfs none /dev/shm || exit 1
        for folder in $TWO_HOSTS_PRIVATE; do mkdir -p -m 700 "$folder" && mount -t tmpfs -o mode=700 none "$folder" || exit 1; done
        [ "$0" = a ] || [ -z "$TWO_HOSTS_BIND" ] || mount --bind "${TWO_HOSTS_BIND%:*}" "${TWO_HOSTS_BIND#*:}" || exit 1
        [ "$0" = a ] || export TMPDIR=/dev/shm
        exec "$@"' "$host" "$@"
}
case "$TWO_HOSTS_STATE:$1" in
up:*) host=$1; shift; enter "$host" sh -c "$*" ;; # called by mpirun: HOST "orted ..."
:*) # first: namespaces of its own, so that nothing is left behind
    user=
    [ "$(id -u)" = 0 ] || user=-Ur
    TWO_HOSTS_STATE=new exec unshare $user -n -m -p -f --kill-child --mount-proc "$self" "$@" ;;
esac
set -e
mount -t tmpfs none /run
printf '127.0.0.1 localhost\n10.9.0.1 a\n10.9.0.2 b\n' >/run/hosts
for host in a b; do ip netns add $host; ip -n $host link set lo up; done
ip link add v0 netns a type veth peer name v0 netns b
ip -n a addr add 10.9.0.1/24 dev v0; ip -n b addr add 10.9.0.2/24 dev v0
for host in a b; do ip -n $host link set v0 up; done
mkfifo /run/control
while read -r word; do
    case $word in
    down | up) ip -n b link set v0 "$word" ;;
    kill) ip netns pids b | xargs -r kill -9 ;;
    esac
done <>/run/control &
export TWO_HOSTS_STATE=up OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
(enter a "$@")
