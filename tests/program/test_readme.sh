#!/bin/bash
# What the documents show is what the program prints: every block between "<!-- `zerolab ...` -->" and "<!-- end -->" is made
# by that command. ACCEPT=1 writes the blocks anew; look at the difference before committing it.
. "$(dirname "$0")/../support/tap.sh"
cd "$root" || exit 1
export LC_ALL=C.UTF-8

# Screens and pages are kept between ``` lines; tables and reference bring their own.
made() { # COMMAND LINE
    case $1 in
    *--frame* | *--explain*) echo '```' && eval "\"$zerolab\" ${1#zerolab }" && echo '```' ;;
    *) eval "\"$zerolab\" ${1#zerolab }" ;;
    esac
}

rewrite() { # FILE: the file with its blocks made anew
    local command='' line
    while IFS= read -r line; do
        case $line in
        '<!-- `zerolab '*'` -->')
            command=${line#<!-- \`}
            command=${command%\` -->}
            printf '%s\n' "$line"
            made "$command" || return 1
            ;;
        '<!-- end -->') command='' && printf '%s\n' "$line" ;;
        *) [ -n "$command" ] || printf '%s\n' "$line" ;;
        esac
    done <"$1"
}

same() { # FILE: as $work/made, which ACCEPT=1 puts in its place
    [ -z "${ACCEPT:-}" ] || cp "$work/made" "$1"
    diff "$1" "$work/made" >"$work/diff" || { head -n 20 "$work/diff" | cut -c 1-200 | sed 's/^/# /'; return 1; }
}
blocks_are_true() { rewrite "$1" >"$work/made" && grep -q '^<!-- end -->$' "$1" && same "$1"; }
for file in docs/REFERENCE.md docs/LABS.md; do
    check "$file shows what the program prints (ACCEPT=1 writes it anew)" blocks_are_true $file
done

# The picture of the README: the overview of a recorded run.
"$zerolab" replay docs/example.zlt --frame 100x30 --at step:8 --as svg -o "$work/made"
check "docs/screen.svg is the screen (ACCEPT=1 writes it anew)" same docs/screen.svg
finish
