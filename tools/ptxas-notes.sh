#!/bin/sh
# Compiles kernels, and takes for an error what ptxas only notes: that it sends products of warpgroups one at a time ("serialized"). Such
# a kernel is right, only slow, so no test would tell. (A wait that it "injected" is none: it stands before the trap of hidden().)
#
#     tools/ptxas-notes.sh OBJECT COMPILER ARGUMENT...
object=$1
shift
said=$("$@" 2>&1)
status=$?
[ -z "$said" ] || printf '%s\n' "$said" >&2
[ $status -eq 0 ] || exit $status
case $said in
*serialized*)
    rm -f "$object"
    echo "$object: ptxas sends products of warpgroups one at a time; see docs/design/gpu.md (WERROR= builds it all the same)" >&2
    exit 1
    ;;
esac
