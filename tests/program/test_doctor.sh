#!/usr/bin/env bash
# `zerolab doctor`: every line has a verdict and a finding, the exit status follows the verdicts, and what is broken on
# purpose is found.
. "$(dirname "$0")/../support/tap.sh"

line() { grep -E "^(good|note|bad) +$1 " "${2:-all}"; }
doctor() { "$zerolab" doctor --path "$work" "$@" >all 2>err; }

status=0
doctor || status=$?
names='terminal locale processor cores instructions products memory shared.memory locked.memory huge.pages run.folder launch MPI host.name space O_DIRECT libaio CUDA GPU.memory GPU.link NCCL'
every_line() {
    local name
    for name in $names; do line "$name" | grep -qE '^[a-z]+ +.{14,} *[^ ]' || { echo "# no line: $name"; return 1; }; done
    [ "$(grep -cE '^(good|note|bad) ' all)" = "$(wc -w <<<"$names")" ]
}
check "every check says something" every_line
counted() {
    local good note bad
    read -r good note bad < <(sed -n 's/^\([0-9]*\) good, \([0-9]*\) notes, \([0-9]*\) bad: .*/\1 \2 \3/p' all)
    [ "$good" = "$(grep -c '^good' all)" ] && [ "$note" = "$(grep -c '^note' all)" ] && [ "$bad" = "$(grep -c '^bad' all)" ]
}
check "the last line counts them" counted
follows() { if grep -q '^bad' all; then [ $status -eq 1 ]; else [ $status -eq 0 ]; fi; }
check "the exit status is 1 when something is bad" follows
train run --steps 1
same_instructions() {
    case $(grep '"isa"' run.json) in
    *avx512*) line instructions | grep -q AVX-512 ;;
    *avx2*) line instructions | grep -q 'use AVX2' ;;
    *plain*) line instructions | grep -q 'neither' ;;
    *) false ;;
    esac
}
check "the instruction set is that of a run" same_instructions
check "nothing is left behind" sh -c '! ls "$1"/zerolab-doctor-* "$2"/zerolab/* 2>/dev/null | grep -q .' - "$work" "$XDG_RUNTIME_DIR"

check "TERM=dumb is a note" sh -c "TERM=dumb '$zerolab' doctor --path '$work' | grep -qE '^note +terminal '"
check "without UTF-8 there is a note" sh -c "LC_ALL=C '$zerolab' doctor | grep -qE '^note +locale .*ASCII'"
check "a folder that is not there is a note" sh -c "'$zerolab' doctor --path /none/of/these | grep -qE '^note +space +/none/of/these: No such'"

json() { "$zerolab" doctor --json | tr -d '\n\t' | grep -qE '^\{"checks":\[\{"group":"terminal","name":"terminal","verdict":"[a-z]+","found":".+","next":.*"bad":[0-9]+\}$'; }
check "as JSON" json

if "$zerolab" doctor --storage --path "$work" >disk 2>err; then
    check "the disk is measured in every way" sh -c '[ "$(grep -cE "^  (sequential|random|mixed) (read|write) +[14] [KM]iB +[0-9.]+ GB/s +[1-9][0-9]* /s +[0-9.]+ ms +[0-9.]+ ms$" disk)" = 6 ]'
    check "... and nothing is left on it" sh -c '! ls -A "$1" | grep -q nvme' - "$work"
else
    skip "measuring the disk" "$(cat err)"
fi
check "a folder that is not there cannot be measured" sh -c "'$zerolab' doctor --storage --path /none/of/these 2>&1 | grep -q 'cannot look at /none/of/these'"

check "two ranks said hello" grep -qE "^good +launch +2 ranks said hello in" all
mkdir none
check "without mpirun they do, too" sh -c "PATH=$work/none '$zerolab' doctor | grep -qE '^good +launch +2 ranks said hello'"
if command -v mpirun >/dev/null; then
    check "two of mpirun's as well" grep -qE "^(good|note) +MPI .*; 2 ranks said hello (in|after)" all # a note: the host's name is not in /etc/hosts
    mkdir broken
    printf '#!/bin/sh\necho "there are not enough slots"; exit 1\n' >broken/mpirun
    chmod +x broken/mpirun
    PATH=$work/broken:$PATH doctor
    check "an mpirun that does not work is a note, and said by its own words" grep -qE '^note +MPI .*there are not enough slots' all
    check "an mpirun that is missing, too" sh -c "PATH=$work/none '$zerolab' doctor | grep -qE '^note +MPI .*mpirun is not installed'"
else
    skip "mpirun" "no mpirun"
fi
finish
