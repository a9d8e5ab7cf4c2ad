#!/usr/bin/env bash
# What the documents point at is there: tests that docs/KNOBS.md and docs/SECURITY.md name, and files that pages link to.
. "$(dirname "$0")/tap.sh"
cd "$root" || exit 1

named_tests() { # in the tables of KNOBS.md
    local name missing=0
    for name in $(grep '^|' docs/KNOBS.md | grep -o '`test_[a-z0-9_]*`' | tr -d '`' | sort -u); do
        [ -e tests/$name.c ] || [ -e tests/$name.sh ] || grep -qE "cmocka_unit_test\\($name\\)" tests/test_*.c && continue
        echo "# no test is called $name"
        missing=1
    done
    return $missing
}
check "every test that KNOBS.md names is run" named_tests

rows_have_tests() { # every row but the headings
    ! grep '^| `' docs/KNOBS.md | grep -v '`test_' | sed 's/^/# no test: /' | grep .
}
check "every row of it names one" rows_have_tests

tests_of_security() {
    local name missing=0
    for name in $(grep -oE '`(test_[a-z0-9_]*(\.sh)?|[a-z]*\.sh)`' docs/SECURITY.md | tr -d '`' | sort -u); do
        [ -e tests/$name ] || [ -e tests/$name.c ] && continue
        echo "# no test is called $name"
        missing=1
    done
    return $missing
}
check "every test that SECURITY.md names is there" tests_of_security

links() {
    local page target missing=0
    for page in README.md docs/*.md configs/README.md; do
        for target in $(grep -oE '\]\([^)#: ]+' "$page" | cut -c3-); do
            [ -e "$(dirname "$page")/$target" ] && continue
            echo "# $page links to $target"
            missing=1
        done
    done
    return $missing
}
check "pages link to files that are there" links
finish
