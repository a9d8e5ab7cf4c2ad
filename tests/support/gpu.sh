# For scripts that train on a GPU, sourced by them: tap.sh, and $trainer, the program to train with. That is build/fake/zerolab, which
# has a CUDA device emulated on the CPU (make fake), or with GPU=PROGRAM one that has a real GPU. There a run that does not end would
# take all others with it: with TRAIN_LIMIT=SECONDS $trainer is a script that ends it then, and shows where its lanes were.
build=$(realpath -m "$(dirname "${ZEROLAB:-build/release/zerolab}")")
trainer=$(realpath -m "${GPU:-build/fake/zerolab}")
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"
case ${GPU:+given}$build in given* | *release*) ;; *) echo "1..0 # SKIP it is the same program in every build"; exit 0 ;; esac
[ -x "$trainer" ] || { echo "1..0 # SKIP $trainer is not built"; exit 0; }

limit_runs() {
    cat >"$work/limited" <<END
#!/bin/bash
program=$trainer trace=$work/limited.zlt
[ "\$1" != train ] || [[ " \$* " == *" --trace "* ]] || set -- "\$@" --trace "\$trace"
timeout -k 5 $1 "\$program" "\$@" &
trap 'kill -TERM %1' TERM # a shell in the background does not hear INT
wait %1
status=\$?
[ \$status -ne 143 ] || { wait %1; status=\$?; }
if [ \$status -eq 124 ] || [ \$status -eq 137 ]; then
    echo "no end after $1 s. Each lane's last operations:"
    [ ! -e "\$trace" ] || "\$program" replay "\$trace" --frame 120x40 --view timeline --at end
fi >&2
rm -f "\$trace"
exit \$status
END
    chmod +x "$work/limited"
    trainer=$work/limited
}
[ -z "${TRAIN_LIMIT:-}" ] || limit_runs "$TRAIN_LIMIT"

# The peaks in NAME.json are within their plan, and near it.
as_planned() {
    tr -d ' \t\n' <"$1.json" | grep -o '"peak":\[[^]]*\]' | grep -o '"bytes":[0-9]*,"predicted_bytes":[0-9]*' | tr -c '0-9\n' ' ' |
        awk '{ if ($1 > $2 || $1 < 0.9 * $2) { print "# " $0; bad = 1 } } END { exit bad || NR == 0 }'
}

# What plan --fit takes for free and what the run NAME had outside of all tiers are together all of an emulated GPU.
free_is_known() { # NAME RANKS_ON_A_GPU ARGS...
    local free outside
    free=$(FAKE_MEMORY_MIB=512 "$trainer" plan --fit --json --set topology.backend=cuda "${@:3}" | sed -n 's/.*"limit_bytes":{"device":\([0-9]*\).*/\1/p')
    outside=$(tr -d ' \t\n' <"$1.json" | sed 's/.*"outside_bytes":\([0-9]*\).*/\1/')
    [ $((free * $2 + outside)) -eq $((512 << 20)) ] || { echo "# $free free for each rank, $outside outside"; return 1; }
}

losses_near() {
    paste <(grep '"loss"' "$1.json" | tr -dc '0-9.\n') <(grep '"loss"' "$2.json" | tr -dc '0-9.\n') |
        awk '{ d = $1 - $2; if (d < 0) d = -d; if (d > 0.02) { print "# " $0; bad = 1 } } END { exit bad || NR < 3 }'
}
