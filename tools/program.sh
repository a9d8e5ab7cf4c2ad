#!/bin/sh
# A folder with programs and the libraries that they are linked to, and an archive of it, for a machine with another system (as new as
# this one, or newer) and without them, as a rented machine with a GPU may be. tools/program.sh FOLDER PROGRAM...
#
# CUDA's own are not among them: the runtime is part of the programs, cuBLASLt comes with the toolkit or the driver's machine. Many a
# machine takes 64 MiB at most (LIMIT_MIB): more is an error.
set -eu
folder=${1:?usage: tools/program.sh FOLDER PROGRAM...}
shift
rm -rf "$folder" "$folder.tar.gz"
mkdir -p "$folder/lib" "$folder/bin"
for program in "$@"; do
    # libc and its kind belong to the system that the programs will run on, as its loader does.
    ldd "$program" | sed -n 's/.* => \(\/[^ ]*\) .*/\1/p' | grep -vE '/(libc|libm|libdl|librt|libpthread|ld-linux[^/]*)\.so' |
        while read -r library; do [ -e "$folder/lib/$(basename "$library")" ] || cp -L "$library" "$folder/lib/"; done
    name=$(basename "$program")
    strip -o "$folder/bin/$name" "$program"
    cat >"$folder/$name" <<'END'
#!/bin/sh
folder=$(dirname "$(realpath "$0")")
LD_LIBRARY_PATH=$folder/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} exec "$folder/bin/$(basename "$0")" "$@"
END
    chmod +x "$folder/$name"
done
"$folder/zerolab" --version
tar -C "$(dirname "$folder")" -cf - "$(basename "$folder")" | gzip -n >"$folder.tar.gz"
mib=$(($(wc -c <"$folder.tar.gz") / 1048576 + 1))
echo "$folder: $(du -sm "$folder" | cut -f 1) MiB; $folder.tar.gz: $mib MiB. There, unpacked: ZEROLAB=$folder/zerolab make test-gpu"
[ "$mib" -le "${LIMIT_MIB:-64}" ] || { echo "$folder.tar.gz is larger than ${LIMIT_MIB:-64} MiB; CUDA_ARCHS=90 builds for an H100 alone" >&2; exit 1; }
