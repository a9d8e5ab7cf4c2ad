#!/bin/bash
# Steps as HTML, asciicast and SVG on the command line: where they go, and what is refused. test_takeaway.c reads what is in them.
. "$(dirname "$0")/../support/tap.sh"
replay() { "$zerolab" replay "$root/docs/example.zlt" "$@"; }

# says STATUS LINE ARGS...: this line alone on standard error
says() {
    local want=$1 line=$2 status
    shift 2
    replay "$@" >out 2>err </dev/null
    status=$?
    [ $status -eq "$want" ] && [ ! -s out ] && [ "$(cat err)" = "zerolab: $line" ] && return
    sed "s/^/# status $status, said: /" err
    return 1
}

check "the last step as a page" eval 'replay --as html --view whiteboard -o page.html && [ "$(tail -n 1 page.html)" = "</html>" ]'
check "... without -o on standard output" eval 'replay --as html --view whiteboard | cmp - page.html'
check "... of 100x30, which is what --frame may say" eval 'replay --as html --view whiteboard --frame 100x30 | cmp - page.html'
check "... and of step 8" eval 'replay --as html --view whiteboard --steps 8 | cmp - page.html'
check "an asciicast" eval 'replay --as cast --frame 80x24 --steps 7:8 -o run.cast && head -n 1 run.cast | grep -q "\"version\": 2, \"width\": 80, \"height\": 24"'
check "an animated SVG" eval 'replay --as svg --steps 8 | grep -q "<animate id=\"time\""'
check "without steps an SVG is still, and --as needs no --frame" eval '! replay --as svg | grep -q "<animate"'
check "one screen as a page" eval '[ "$(replay --as html --at step:7 | grep -c "^\[0, ")" -eq 1 ]'
check "a terminal is not written full" eval 'script -qec "\"$zerolab\" replay \"$root/docs/example.zlt\" --as html" /dev/null </dev/null >said; grep -q "^zerolab: --as html is for a file, not for a terminal; add -o FILE" said'
check "steps without a form" says 2 "--view, --at, --steps and --output belong to --frame COLSxROWS or --as FORM" --steps 8
check "steps as text" says 2 "--steps 8: text shows one screen; add --as html, cast or svg" --steps 8 --frame 80x24
check "another form" says 2 "--as pdf: give text, ansi, svg, html or cast" --as pdf --steps 8
check "steps that the run does not have" says 2 "this run ends after step 8; there is no step 9" --as cast --steps 9
check "a folder that is not there" says 2 "cannot write absent/page.html: No such file or directory" --as html -o absent/page.html
check "a full disk" says 4 "cannot write /dev/full: No space left on device" --as html -o /dev/full
finish
