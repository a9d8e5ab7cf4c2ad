# On a GPU a run that does not end would take all others with it: with limit_runs SECONDS $played is a script that ends it then, and
# shows where its lanes were. Sourced after tap.sh.
limit_runs() {
    cat >"$work/limited" <<END
#!/bin/bash
program=$played trace=$work/limited.zlt
[ "\$1" != train ] || [[ " \$* " == *" --trace "* ]] || set -- "\$@" --trace "\$trace"
timeout -k 5 $1 "\$program" "\$@"
status=\$?
if [ \$status -eq 124 ] || [ \$status -eq 137 ]; then
    echo "no end after $1 s. Each lane's last operations:"
    [ ! -e "\$trace" ] || "\$program" replay "\$trace" --frame 120x40 --view timeline --at end
fi >&2
rm -f "\$trace"
exit \$status
END
    chmod +x "$work/limited"
    played=$work/limited
}
