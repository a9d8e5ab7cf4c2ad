#!/bin/bash
# `make install`, `make uninstall` and `make deb`: what they put where, that it works for another user, and that nothing is left.
. "$(dirname "$0")/../support/tap.sh"
[ "$(basename "$(dirname "$zerolab")")" = release ] || { echo "1..0 # SKIP of the release build"; exit 0; }
quiet_make() { env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS -u PREFIX -u DESTDIR make -C "$root" --no-print-directory CC="$(sed 's/ -std=c17.*//' "$(dirname "$zerolab")/flags")" "$@"; }

# Only the rules of installing run: the program is built already, and another make may be at work in its folder.
"$root/tools/install.sh" "$zerolab" "$work/stage/usr/local"
ok "it is installed" $?
(cd stage && find . -type f | sort) >files
printf './usr/local/%s\n' bin/zerolab share/bash-completion/completions/zerolab share/man/man1/zerolab.1 share/zsh/site-functions/_zerolab >wanted
check "... these files, and no others" diff wanted files
installed=$work/stage/usr/local

if [ "$(id -u)" -eq 0 ]; then
    chmod 755 "$work"
    mkdir -m 777 other
    (cd other && HOME=$work/other XDG_RUNTIME_DIR='' setpriv --reuid 65534 --regid 65534 --clear-groups \
        "$installed/bin/zerolab" train --headless --steps 1 --set topology.ranks_as=threads) >trained 2>&1
    ok "another user runs it, from another folder" $?
else
    skip "another user runs it, from another folder" "needs root"
fi

# The page and the completions know what --help knows.
"$zerolab" --help-reference | sed -n 's/^ .*--\([a-z-]*\).*/\1/p' | sort -u >options
man=$installed/share/man/man1/zerolab.1
missing() { while read -r option; do grep -q -- "--$option" <(sed 's/\\-/-/g' "$man") || echo "$option"; done <options; }
[ "$(wc -l <options)" -gt 40 ] && [ -z "$(missing)" ]
ok "the man page has every option" $?
if command -v nroff >/dev/null; then
    check "... and is roff without a warning" [ -z "$(nroff -man -ww "$man" 2>&1 >/dev/null)" ]
else
    skip "... and is roff without a warning" "no nroff"
fi

offered() { # WORD...: what bash offers for the last of them
    PATH=$installed/bin:$PATH bash -c '. "$1"; shift; COMP_WORDS=(zerolab "$@") COMP_CWORD=$#; _zerolab zerolab; echo "${COMPREPLY[*]}"' \
        - "$installed/share/bash-completion/completions/zerolab" "$@"
}
check "Tab: a command" [ "$(offered chec)" = "check checkpoint" ]
check "Tab: the second word of a command" [ "$(offered checkpoint c)" = convert ]
check "Tab: an option of that command alone" [ "$(offered plan --expl)$(offered check --expl)" = --explain ]
check "Tab: a key" [ "$(offered train --set zero_optimization.stage3_pre)" = zero_optimization.stage3_prefetch_bucket_size ]
check "Tab: one of several values" [ "$(offered replay --as s)" = svg ]
check "Tab: a lab" [ "$(offered lab print memory-w)" = memory-wall ]
check "Tab: files where nothing else is known" [ -z "$(offered check runs/)" ]

quiet_make uninstall DESTDIR="$work/stage" >/dev/null
ok "it is taken away" $?
check "... all of it" [ -z "$(find stage -type f)" ]

if ! command -v dpkg-shlibdeps >/dev/null; then
    skip "a Debian package" "no dpkg-dev"
else
    "$root/tools/deb.sh" "$zerolab" "$work" >made
    ok "a Debian package is made" $?
    package=$(echo "$work"/zerolab_*.deb)
    dpkg-deb --field "$package" Depends >depends
    check "... that depends on what the program is linked with" grep -q 'libncursesw6.*' depends
    dpkg-deb --contents "$package" | awk '{print $6}' >contents
    check "... and holds program, man page and completions" [ "$(grep -cE 'usr/(bin/zerolab|share/man/man1/zerolab.1.gz|share/bash-completion/completions/zerolab|share/zsh/vendor-completions/_zerolab)$' contents)" -eq 4 ]
fi
finish
