#!/usr/bin/env bash
# What the documents point at is there: tests that docs/KNOBS.md and docs/SECURITY.md name, files that pages link to, and paths, files
# and functions of the source that they name. The worked step of docs/ARCHITECTURE.md is the schedule that the program prints.
. "$(dirname "$0")/../support/tap.sh"
cd "$root" || exit 1

named_tests() { # in the tables of KNOBS.md
    local name missing=0
    for name in $(grep '^|' docs/KNOBS.md | grep -o '`test_[a-z0-9_]*`' | tr -d '`' | sort -u); do
        compgen -G "tests/*/$name.*" >/dev/null || grep -qE "cmocka_unit_test\\($name\\)" tests/*/test_*.c && continue
        echo "# no test is called $name"
        missing=1
    done
    return $missing
}
check "every test that KNOBS.md names is run" named_tests

rows_have_tests() { # every row but the headings, above the table of differences
    ! sed '/^<!-- engine/,$d' docs/KNOBS.md | grep '^| `' | grep -v '`test_' | sed 's/^/# no test: /' | grep .
}
check "every row of it names one" rows_have_tests

tests_of_security() {
    local name missing=0
    for name in $(grep -oE '`(test_[a-z0-9_]*(\.sh)?|[a-z]*\.sh)`' docs/SECURITY.md | tr -d '`' | sort -u); do
        compgen -G "tests/*/$name" >/dev/null || compgen -G "tests/*/$name.c" >/dev/null && continue
        echo "# no test is called $name"
        missing=1
    done
    return $missing
}
check "every test that SECURITY.md names is there" tests_of_security

pages="README.md CONTRIBUTING.md configs/README.md $(echo docs/*.md docs/design/*.md)"
links() {
    local page target missing=0
    for page in $pages; do
        for target in $(grep -oE '\]\([^)#: ]+' "$page" | cut -c3-); do
            [ -e "$(dirname "$page")/$target" ] && continue
            echo "# $page links to $target"
            missing=1
        done
    done
    return $missing
}
check "pages link to files that are there" links

# A name without its ending is a program, one with a star is files. The source of build/release/tests/NAME is in a folder of tests/.
paths() {
    local page path
    ! grep -oE '(build/[a-z]*/)?\b(engine|kernels|tui|docs|tests|tools)/[A-Za-z0-9_./*-]*[A-Za-z0-9_*]' $pages | grep -v NAME |
        sed 's|:build/[a-z]*/tests/|:tests/*/|' | sort -u | while IFS=: read -r page path; do
            compgen -G "$path" >/dev/null || compgen -G "$path.[cs]*" >/dev/null || echo "# $page names $path"
        done | grep .
}
check "every path that pages name is there" paths

design="docs/ARCHITECTURE.md $(echo docs/design/*.md)"
missing() { # WHAT, those that are named, those that there are; one a line, sorted
    ! comm -23 "$2" "$3" | sed "s/^/# no $1 is called /" | grep .
}
named() { # PATTERN: what stands so between backquotes
    grep -ohE "\`$1\`" $design | tr -d '\`()' | sort -u
}
check "every file that design pages name is there" \
    missing file <(named '[a-z0-9_]+\.(c|h|def|cu|cuh|cc|sh)') <(find engine kernels tui tests tools -type f -printf '%f\n' | sort -u)
check "every function that they name is there" \
    missing function <(named '[a-z0-9_]+\(\)') <(grep -rohE '[a-z0-9_]+\(' engine kernels tui | tr -d '(' | sort -u)

# "`write_norm()`, `step_end.c`", "`rank_run()` (`engine/train/rank.c`)", "`find_room()` in `apply_command.c`".
in_their_files() {
    local name file
    ! grep -ohzE '`[a-z0-9_]+\(\)`,?[[:space:]]+(in[[:space:]]+)?\(?`[a-z0-9_/]+\.(c|h)`' $design | tr '\n\0' ' \n' | sort -u |
        sed -E 's/`([a-z0-9_]+)\(\)`.*`(.*)`/\1 \2/' | while read -r name file; do
        grep -qE "\b$name\(" /dev/null $(find engine kernels tui -path "*/$file" -o -path "$file") || echo "# $name() is not in $file"
    done | grep .
}
check "a function that they name with a file is there" in_their_files

# Rows of the worked step begin with a line of the schedule.
worked_step() {
    local command
    command=$(grep -oE '^    zerolab plan .*--schedule$' docs/ARCHITECTURE.md) || return 1
    eval "\"$zerolab\" ${command#*zerolab }" | sed '1,/^ *op  lane/d' | tr -s ' ' | sed 's/^ //; s/ $//' >"$work/step.txt"
    grep -oE '^\| `[0-9]+ [^`]*' docs/ARCHITECTURE.md | cut -c4- | diff "$work/step.txt" - | sed 's/^/# /'
    [ "${PIPESTATUS[2]}" -eq 0 ] && [ -s "$work/step.txt" ]
}
check "the worked step is what the program prints" worked_step

# Recordings of machines that are not here to record again.
recordings() {
    local file
    for file in docs/*.zlt; do
        "$zerolab" check "$file" | grep -q '; the run ended: finished$' && "$zerolab" replay "$file" --frame 80x24 --at end >/dev/null || { echo "# $file"; return 1; }
    done
}
check "the recordings are whole, and are shown" recordings

check "the glossary has fifteen words at most" test "$(grep -c '^| [a-z]' docs/GLOSSARY.md)" -le 16
finish
