#!/bin/sh
# A folder with the program and the libraries that it is linked to, for a machine with another system (as new as this one, or newer)
# and without them, as a rented machine with a GPU may be. tools/program.sh PROGRAM FOLDER
#
# CUDA's own are not among them: the runtime is part of the program, cuBLASLt comes with the toolkit or the driver's machine.
set -eu
program=${1:?usage: tools/program.sh PROGRAM FOLDER} folder=${2:?usage: tools/program.sh PROGRAM FOLDER}
rm -rf "$folder"
mkdir -p "$folder/lib"
# libc and its kind belong to the system that the program will run on, as its loader does.
ldd "$program" | sed -n 's/.* => \(\/[^ ]*\) .*/\1/p' | grep -vE '/(libc|libm|libdl|librt|libpthread|ld-linux[^/]*)\.so' |
    while read -r library; do cp -L "$library" "$folder/lib/"; done
strip -o "$folder/zerolab.bin" "$program"
cat >"$folder/zerolab" <<'END'
#!/bin/sh
folder=$(dirname "$(realpath "$0")")
LD_LIBRARY_PATH=$folder/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} exec "$folder/zerolab.bin" "$@"
END
chmod +x "$folder/zerolab"
"$folder/zerolab" --version >/dev/null
echo "$folder: $(du -sm "$folder" | cut -f 1) MiB. There: ZEROLAB=$folder/zerolab make test-gpu"
