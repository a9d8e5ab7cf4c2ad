#!/usr/bin/env bash
# docs/COURSE.md: its commands make their pictures, its minutes are those of the labs, its schedule adds up, every lab has a place.
. "$(dirname "$0")/../support/tap.sh"
cd "$root" || exit 1
page=$root/docs/COURSE.md

makes_pictures() {
    local line file
    ln -s "$root/configs" "$work/configs"
    while read -r line; do
        (cd "$work" && eval "\"$zerolab\" ${line#zerolab }") >"$work/out" 2>&1 || { echo "# $line"; sed 's/^/# /' "$work/out"; return 1; }
        file=${line##* }
        [ -s "$work/$file" ] || { echo "# $line: $file is empty"; return 1; }
    done < <(sed -n '/^<!-- tests\/program\/test_course.sh/,/^<!-- end/s/^    //p' "$page")
}
check "every command makes its picture" makes_pictures

places() { grep '^| [0-9]' "$page" | grep -oE '[a-z0-9-]+ \([0-9]+\)' | tr -d '()'; }
minutes_agree() {
    places | sort -u | while read -r lab minutes; do
        grep -q "^minutes: $minutes$" "labs/$lab/lab.md" || { echo "# $lab does not take $minutes minutes"; exit 1; }
    done
}
check "minutes are those of the labs" minutes_agree

all_placed() { # in the two days
    local lab
    for lab in $(grep -oE '^LAB\([a-z0-9_]+, "[a-z0-9-]+"' engine/lab/labs.def | cut -d'"' -f2); do
        grep '^| [12] |' "$page" | grep -q "[ ,]$lab (" || { echo "# $lab has no place"; return 1; }
    done
}
check "every lab has a place in the two days" all_placed

adds_up() { # half a day: each row begins where the one before it ends, and its labs fit
    grep '^| [0-9]:[0-9]' "$page" | awk -F' *[|] *' '
        { split($2, t, ":"); at = t[1] * 60 + t[2]; if (NR > 1 && at != end) { print "# " $2 " begins at another time"; bad = 1 } end = at + $3
          labs = 0; text = $5; while (match(text, /\([0-9]+\)/)) { labs += substr(text, RSTART + 1, RLENGTH - 2); text = substr(text, RSTART + RLENGTH) }
          if (labs > $3) { print "# " $2 ": its labs take longer"; bad = 1 } }
        END { exit bad || NR < 10 }'
}
check "the half day adds up" adds_up

sheet=$root/docs/QUESTIONS.md
key() { grep -E '^\| [0-9]+ \| [a-d] \|' "$page"; }
fifteen() { # each with four answers, and no key beside them; no letter is a safe guess
    local letter
    [ "$(grep -cE '^[0-9]+\. ' "$sheet")" -eq 15 ] && [ "$(grep -cE '^ +a\) .* b\) .* c\) .* d\) ' "$sheet")" -eq 15 ] || return 1
    ! grep -qE '^\|' "$sheet" && [ "$(key | cut -d'|' -f2 | tr -d ' \n')" = "$(seq -s '' 15)" ] || return 1
    for letter in a b c d; do
        [ "$(key | grep -c "| $letter |")" -ge 3 ] || { echo "# $letter is right too rarely"; return 1; }
    done
}
check "fifteen questions have fifteen answers, in another file" fifteen

taught() { # by a part of a lab that has a place in the half day
    local lab part
    while read -r lab part; do
        grep '^| [0-9]:[0-9]' "$page" | grep -q "[ ,]$lab[ ,]" && [ "$(grep -c '^## ' "labs/$lab/lab.md")" -ge "$part" ] ||
            { echo "# $lab $part is not in the half day"; return 1; }
    done < <(key | grep -oE '[a-z][a-z0-9-]+ [0-9]+')
}
check "each question is taught in the half day" taught
finish
