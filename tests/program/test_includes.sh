#!/bin/bash
# Rules about the source that can be read off it: every #include is an edge of tests/include_edges, and only stage_rules.c knows the
# stages of ZeRO by their number.
. "$(dirname "$0")/../support/tap.sh"
cd "$root" || exit 1

# forbidden TABLE ROOT: prints "file:line: why" for each forbidden include of the tree at ROOT.
forbidden() {
    (cd "$2" && find engine kernels tui -name '*.[ch]' -o -name '*.def' -o -name '*.cu' -o -name '*.cuh' 2>/dev/null | sort |
        xargs -r grep -nE '^[[:space:]]*#[[:space:]]*include' /dev/null) | awk -v root="$2" '
        function folder(path) { sub("/[^/]*$", "", path); return path }
        function is_there(path,    line, got) { got = (getline line < path) >= 0; close(path); return got }
        function permitted(from, to,    n, list, i) {
            if (from == to) return 1
            n = split(edges[from], list, " ")
            for (i = 1; i <= n; i++) if (list[i] == to) return 1
            return 0
        }
        FNR == NR {
            if ($0 ~ /^#/ || NF == 0) next
            name = $1; sub(":$", "", name)
            $1 = ""
            if (name ~ /^</) only[substr(name, 2)] = $0; else edges[name] = $0
            next
        }
        {
            split($0, at, ":"); file = at[1]; from = folder(file)
            text = $0; sub("^[^:]*:[^:]*:", "", text)
            if (match(text, /"[^"]*"/)) {
                path = substr(text, RSTART + 1, RLENGTH - 2)
                if (path !~ "/") print file ":" at[2] ": \"" path "\" is not written from the root"
                else if (!is_there(root "/" path)) print file ":" at[2] ": \"" path "\" does not exist"
                else if (!(from in edges)) print file ":" at[2] ": " from " is not in tests/include_edges"
                else if (!permitted(from, folder(path))) print file ":" at[2] ": " from " may not include " folder(path)
            } else if (match(text, /<[^>]*>/)) {
                header = substr(text, RSTART + 1, RLENGTH - 2)
                for (prefix in only)
                    if (index(header, prefix) == 1 && index(only[prefix] " ", " " from " ") == 0) print file ":" at[2] ": <" header "> belongs to" only[prefix]
            }
        }' "$1" -
}

# unused TABLE ROOT: prints each edge that no #include of the tree at ROOT needs.
unused() {
    (cd "$2" && find engine kernels tui -name '*.[ch]' -o -name '*.def' -o -name '*.cu' -o -name '*.cuh' 2>/dev/null |
        xargs -r grep -oE '^[[:space:]]*#[[:space:]]*include "[^"]*' /dev/null) | awk '
        function folder(path) { sub("/[^/]*$", "", path); return path }
        FNR == NR {
            if ($0 ~ /^[#<]/ || NF == 0) next
            sub(":$", "", $1)
            for (i = 2; i <= NF; i++) edge[$1 " includes " $i]
            next
        }
        { split($0, at, ":[[:space:]]*#[^\"]*\""); delete edge[folder(at[1]) " includes " folder(at[2])] }
        END { for (e in edge) print "no file of " e }' "$1" -
}

# Streams filter what is printed (engine/base/printable.h). What goes past them, in files that are not named here, but for a fixed text
# that plan.c writes in a signal handler:
past_the_filter() {
    local raw='(^|[^_a-z])(dprintf|perror|psignal|fdopen|putp)[(]|write[(](STDOUT_FILENO|STDERR_FILENO|[12]),|"/dev/(tty|std)'
    cd "$1" || return
    grep -rnE --include='*.[ch]' "$raw" engine tui kernels |
        grep -vE '^(tui/term/(term|restore)|engine/base/file)[.]c:|^engine/cli/plan[.]c:[0-9]+: +if \(write\(STDERR_FILENO, note, '
    grep -rnE --include='*.[ch]' 'printable_below[(]|front_(open|write)[(].*, true,' engine tui kernels |
        grep -vE '^(engine/base/printable\.[ch]|engine/(cli|doctor)/(analyze|data|doctor_storage|front|headless|look)\.c|engine/cli/progress\.h|tui/term/term\.c):'
}

silent() { [ -z "$1" ] || { echo "$1"; return 1; }; }
result() { check "$1" silent "$2"; } # NAME, then what was found wrong (nothing: good)

result includes_point_one_way "$(forbidden tests/include_edges .)"
result every_edge_is_in_use "$(unused tests/include_edges .)"
result all_printing_goes_through_the_filter "$(past_the_filter .)"

# The check itself must be able to fail: a small tree with one fault of each kind, next to allowed edges.
tree=$work/tree
mkdir -p "$tree"/engine/{base,config,zero,odd} "$tree"/tui/{draw,views,term}
echo '#include <stdint.h>' >"$tree/engine/base/error.h"
echo '#include "engine/base/error.h"' >"$tree/engine/config/config.h"
printf '#include "engine/config/config.h"\n' >"$tree/engine/zero/zero.h"
printf '#include "tui/draw/draw.h"\n#include "engine/base/error.h"\n' >"$tree/tui/views/good.c"
printf '#include <ncurses.h>\n' >"$tree/tui/term/good.c"
: >"$tree/tui/draw/draw.h"
result allowed_edges_pass "$(forbidden tests/include_edges "$tree")"

result unused_edges_fail "$([ "$(unused <(printf 'engine/config: engine/base\nengine/zero: engine/config engine/base\n') "$tree")" = \
    'no file of engine/zero includes engine/base' ] || echo 'not found')"

expect() { # NAME, FILE, INCLUDE, WORDS: this one line must be refused with these words
    echo "$3" >"$tree/$2"
    found=$(forbidden tests/include_edges "$tree")
    rm "$tree/$2"
    case "$found" in
        "$2:1: "*"$4"*) result "$1" "" ;;
        *) result "$1" "found: ${found:-nothing}" ;;
    esac
}
expect upward_edge_fails engine/base/bad.c '#include "engine/config/config.h"' 'may not include engine/config'
expect engine_inside_tui_fails tui/views/bad.c '#include "engine/zero/zero.h"' 'may not include engine/zero'
expect draw_over_views_fails tui/draw/bad.c '#  include "tui/views/good.c"' 'may not include tui/views'
expect curses_outside_term_fails tui/views/bad.c '#include <ncursesw/ncurses.h>' 'belongs to tui/term'
expect path_not_from_root_fails engine/base/bad.c '#include "error.h"' 'not written from the root'
expect missing_file_fails engine/base/bad.c '#include "engine/base/none.h"' 'does not exist'
expect unknown_folder_fails engine/odd/bad.c '#include "engine/base/error.h"' 'not in tests/include_edges'
refuse() { # NAME, FILE, LINE: it prints past the filter
    mkdir -p "$tree"/{kernels,engine/cli} && echo "$3" >"$tree/$2"
    [ -n "$(past_the_filter "$tree")" ]
    result "$1" "$([ $? -eq 0 ] || echo "found nothing")"
    rm "$tree/$2"
}
refuse a_raw_write_fails engine/zero/bad.c '    dprintf(STDERR_FILENO, "%s", name);'
refuse a_new_stream_fails engine/cli/bad.c '    FILE *out = fopen("/dev/tty", "w");'
refuse a_file_that_takes_the_raw_stream_fails engine/cli/bad.c '    fputs(name, printable_below(stdout));'

# stages ROOT: prints "file:line:text" for each place of the engine, from the plan down, that compares the stage with a number. The
# checker has its own statement of what must hold.
stages() {
    (cd "$1" && grep -rnE 'stage *(==|!=|<=|>=|<|>) *[0-9]|[^_a-z.>]([0-9]) *(==|!=|<=|>=|<|>) *[a-z_.>-]*stage\b|switch \(.*stage\)|\[[a-z_.>-]*stage\]' \
        engine/plan engine/memory engine/comm engine/gpt engine/optim engine/data engine/zero kernels --include='*.[ch]' --include='*.cu' 2>/dev/null |
        grep -vE "^engine/plan/(stage_rules|checker_coverage)\.c:")
}
result only_stage_rules_know_stages "$(stages .)"
result checker_has_its_own_rules "$(grep -ln 'stage_rules' engine/plan/checker*)"
mkdir -p "$tree/engine/plan"
echo 'if (schedule->stage >= 2) reduce();' >"$tree/engine/plan/bad.c"
result a_comparison_fails "$([ "$(stages "$tree" | wc -l)" -eq 1 ] || echo 'not found')"

# named ROOT: prints "file:line:text" for each place that names a kind of unit, tensor or saved part of one architecture, outside of the
# files of that architecture: its row, its arithmetic, other programs' files of its weights, its formulas, its profile.
named() {
    (cd "$1" && grep -rnE '\b(USE_(EMBED|EMBNORM|BLOCK|MLP|NORM|HEAD|ATTENTION)|PART_(ATTENTION|MLP|NORM|HEAD|HIDDEN)|TENSOR_[A-Z0-9_]+|gpt2_uses|(OP|UNIT)_(EMBED|BLOCK|MLP|NORM|HEAD|ATTENTION)(_[A-Z]+)?)\b' \
        engine kernels tui --include='*.[ch]' --include='*.def' 2>/dev/null |
        grep -vE '^engine/(plan/(gpt2|formula)\.[ch]|gpt/|checkpoint/(weights|safetensors|llmc)|advise/logs_flops\.c)')
}
result only_its_files_name_what_an_architecture_has "$(named .)"
echo 'if (op->use == &gpt2_uses[USE_HEAD]) leave();' >"$tree/engine/plan/bad.c"
result a_name_of_a_use_fails "$([ "$(named "$tree" | wc -l)" -eq 1 ] || echo 'not found')"
finish
