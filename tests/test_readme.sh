#!/bin/bash
# What the documents show is what the program prints: every block between "<!-- `zerolab ...` -->" and "<!-- end -->" is made
# by that command. ACCEPT=1 writes the blocks anew; look at the difference before committing it.
zerolab=$(realpath "${ZEROLAB:-build/release/zerolab}")
cd "$(dirname "$0")/.." || exit 1
export LC_ALL=C.UTF-8
work=$(mktemp -d "${TMPDIR:-/tmp}/zerolab-script-XXXXXX")
trap 'rm -rf "$work"' EXIT

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

count=0 failures=0
for file in docs/REFERENCE.md docs/LABS.md; do
    count=$((count + 1))
    if rewrite $file >"$work/made" && grep -q '^<!-- end -->$' $file; then
        [ -n "${ACCEPT:-}" ] && cp "$work/made" $file
        if diff $file "$work/made" | head -n 20 | sed 's/^/# /' | tee "$work/diff" && [ ! -s "$work/diff" ]; then
            echo "ok $count - $file shows what the program prints"
            continue
        fi
    fi
    echo "not ok $count - $file shows what the program prints (ACCEPT=1 writes it anew)"
    failures=$((failures + 1))
done

# The picture of the README: the overview of a recorded run.
count=$((count + 1))
"$zerolab" replay docs/example.zlt --frame 100x30 --at step:8 --as svg -o "$work/screen.svg"
[ -n "${ACCEPT:-}" ] && cp "$work/screen.svg" docs/screen.svg
if cmp -s docs/screen.svg "$work/screen.svg"; then echo "ok $count - docs/screen.svg is the screen"
else echo "not ok $count - docs/screen.svg is the screen (ACCEPT=1 writes it anew)" && failures=$((failures + 1)); fi
echo "1..$count"
[ $failures -eq 0 ]
