#!/bin/bash
# What tests/run-tests and .ci/run say when something fails: a line for each failed test, and for each program or part that fails
# without one. In a tree of its own, whose tests and whose make are made up.
. "$(dirname "$0")/../support/tap.sh"
case $zerolab in *release*) ;; *) echo "1..0 # SKIP this is the same script in every build"; exit 0 ;; esac

program() { # PATH: a script from the input
    mkdir -p "$(dirname "$1")"
    { echo '#!/bin/sh' && cat; } >"$1" && chmod +x "$1"
}
mkdir -p tree/.ci tree/tests/program tree/configs tree/build/release/tests
cp "$root/tests/run-tests" tree/tests/ && cp "$root/.ci/run" tree/.ci/
program tree/tests/program/test_good.sh <<<'echo "ok 1 - fine"'
program tree/tests/program/test_two.sh <<<'printf "ok 1 - fine\nnot ok 2 - live: f\nnot ok 3 - replay: v\n"; exit 1'
program tree/tests/program/test_dies.sh <<<'echo "ok 1 - fine"; exit 7'
program tree/tests/program/test_hangs.sh <<<'echo "ok 1 - fine"; exec sleep 100'
program tree/build/release/tests/test_c <<<'echo "ok 1 - fine"; echo "a.c:3: runtime error: shift exponent 40 is too large"; exit 1'

run() { # NAME...
    LIMIT=1 tree/tests/run-tests build/release "$@" >said 2>&1
}
run
check "tests that fail are a failure" [ $? -ne 0 ]
cat >wanted <<'END'
not ok - test_c: exit status 1, runtime error: shift exponent 40 is too large
not ok - test_dies.sh: exit status 7
not ok - test_hangs.sh: no end after 1 s
not ok - test_two.sh: live: f
not ok - test_two.sh: replay: v
END
check "... of which each has a line at the end" diff wanted <(tail -n 6 said | head -n 5 | sort)
check "... before the numbers" [ "$(tail -n 1 said)" = "5 passed, 5 failed" ]
run test_good && ! grep -q "not ok" said
ok "where nothing fails there is no such line" $?

# Of more than ten programs, what fails beside others is tried again.
for i in 1 2 3 4 5 6 7 8 9; do program tree/tests/program/test_good$i.sh <<<'echo "ok 1 - fine"'; done
program tree/tests/program/test_late.sh <<<'[ -e late ] && echo "ok 1 - in time" && exit; touch late; echo "not ok 1 - in time"; exit 1'
run test_two test_late test_good{1..9}
check "what fails twice is a failure" [ $? -ne 0 ]
check "... that has its line" grep -qx "not ok - test_two.sh: live: f" said
check "what passes when it is tried again is unsteady" grep -qx "unsteady - test_late.sh: in time" said
check "... and passed" [ "$(tail -n 1 said)" = "11 passed, 2 failed" ]
run test_late test_c test_good{1..9}
check "what a sanitizer reports is not tried again" grep -qx "not ok - test_c: exit status 1, runtime error: .*" said

# Of CI every part fails: its make says what one of run-tests says, and nothing else is there.
program bin/make <<<'printf "not ok - test_keys.sh: live: f\n3 passed, 1 failed\n"; exit 1'
program bin/timeout <<<'exit 124'
program tree/tests/bench/live_tiny.sh <<<'printf "ok 1 - a live screen\nnot ok 2 - ... and is not cut off\n"; exit 1'
program tree/tests/bench/kills.sh <<<'echo "nobody to kill" >&2; exit 3'
touch tree/configs/nano.json
PATH=$work/bin:$PATH tree/.ci/run >said 2>&1
check "parts that fail are a failure" [ $? -ne 0 ]
sed '/^took /,$d' said | tac | sed '/^not ok - /!Q' >failures
for line in "make test: test_keys.sh: live: f" "a fast run on a terminal: ... and is not cut off" "ten kills: exit status 3: nobody to kill" \
    "configs/nano.json: no end in time"; do
    check "... with a line at the end: $line" grep -qF "not ok - $line" failures
done
finish
