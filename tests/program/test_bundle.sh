#!/bin/bash
# `make bundle`: the archive holds all that a build needs, and what it builds runs. The sources in it are the same as here, so
# objects that were made of these are taken over and only linked; FULL=1 compiles every one of them.
. "$(dirname "$0")/../support/tap.sh"
build=$(dirname "$zerolab")
kind=$(basename "$build")
compiler=$(sed 's/ -std=c17.*//' "$build/flags")
quiet_make() { env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS make -j2 --no-print-directory CC="$compiler" "$@"; }
how=() # as this build was made
[ "$kind" = release ] || how+=("SAN=$kind")
grep -q nvcc "$build/flags" || how+=(CUDA=0)

quiet_make -C "$root" bundle BUNDLE="$work/zerolab.tar.gz" >said
ok "a bundle is made" $?
grep -q 'tar xf zerolab.tar.gz && cd zerolab-[0-9.]* && make run' said
ok "... and says what to do with it" $?
mkdir empty && tar -xf zerolab.tar.gz -C empty
place=$(echo "$work"/empty/zerolab-*)
[ -d "$place" ] && [ "$(ls empty | wc -l)" -eq 1 ]
ok "it unpacks into one folder" $?
[ ! -e "$place/build" ] && [ ! -e "$place/.git" ] && [ -e "$place/labs/tour/lab.md" ] && [ -e "$place/configs/teach.json" ] && [ -e "$place/docs/LABS.md" ]
ok "sources, labs, configurations and documents, and nothing that was built" $?
diff -rq "$root" "$place" | grep -vxE "Only in $root: (build|\.git|shared|.*\.zlt)|Only in $place: PACKAGES" | sed 's/^/# /' | grep . && same=1 || same=0
ok "... all of them, as they are here" $same
"$root/tools/bootstrap.sh" --packages | cmp -s - "$place/PACKAGES" && [ "$(grep -cE '^[a-z0-9.+-]+$' "$place/PACKAGES")" -ge 13 ]
ok "PACKAGES lists what is to be installed" $?

# Nothing is missing here, so nothing may be asked for: commands that would go to the network are not to be found.
mkdir offline
for tool in apt-get curl wget sudo; do
    printf '#!/bin/sh\necho "%s $*" >>%s/asked\nexit 1\n' "$tool" "$work" >offline/$tool && chmod +x offline/$tool
done
PATH=$work/offline:$PATH "$place/tools/bootstrap.sh" >bootstrap.out 2>&1 && [ ! -s bootstrap.out ] && [ ! -e asked ]
ok "where all packages are, setting up is silent and asks no network" $?

if [ -z "${FULL:-}" ]; then
    mkdir -p "$place/build/$kind"
    tar -C "$build" --exclude=./tests --exclude=./zerolab --exclude='*.a' -c . | tar -C "$place/build/$kind" -x
    find "$place/build" -name '*.o' -exec touch {} +
fi
PATH=$work/offline:$PATH quiet_make -C "$place" "${how[@]}" all >built 2>&1
status=$?
[ $status -eq 0 ] || tail -n 5 built | sed 's/^/# /'
ok "it builds" $status
[ ! -e asked ]
ok "... without a network" $?

cd "$work" || exit 1
mine=$place/build/$kind/zerolab
[ "$("$mine" --version)" = "$("$zerolab" --version)" ]
ok "the program says its version" $?
"$mine" train --headless --steps 2 >trained 2>&1 && grep -q 'after step 2' trained || { sed 's/^/# /' trained; false; }
ok "... trains two steps" $?
"$mine" lab list >list && [ "$(grep -c ' min ' list)" -eq "$(ls -d "$root"/labs/*/ | wc -l)" ]
ok "... has all labs" $?
(cd "$place" && rm -rf build && tools/bundle.sh "$work/again.tar.gz" >/dev/null)
[ "$(tar -tf again.tar.gz | sort | cksum)" = "$(tar -tf zerolab.tar.gz | sort | cksum)" ]
ok "a bundle of the bundle holds the same files" $?

# The other way to a machine without our libraries: the program and all of them.
if [ "$kind" = release ]; then
    "$root/tools/program.sh" "$work/program" "$zerolab" "$root/build/release/tests/truth" >said
    ok "a folder with the program and its libraries" $?
    LD_LIBRARY_PATH=program/lib ldd program/bin/zerolab | grep -q "libdnnl.* => program/lib/" && env -i PATH="$PATH" program/zerolab train --headless --steps 1 -n 1 >trained 2>&1
    ok "... which trains with these" $?
    [ "$(du -sm program | cut -f 1)" -lt 70 ] # oneDNN alone is 38 MiB in Debian 12 and 43 in Debian 13
    ok "... and is less than 70 MiB" $?
    [ -x program/truth ] && [ -x program/bin/truth ] && tar -tzf program.tar.gz | grep -qx program/bin/truth && grep -q 'program.tar.gz: [0-9]* MiB' said
    ok "... as its archive, with the other programs; it says its size" $?
    cp /bin/true zerolab
    ! LIMIT_MIB=0 "$root/tools/program.sh" "$work/small" "$work/zerolab" >/dev/null 2>said && grep -q 'larger than 0 MiB' said
    ok "... which is an error where a machine takes less" $?
fi
finish
