#!/bin/bash
# Kernels on AVX-512, on a machine that lacks it: boots Linux in Bochs, an emulator of processors, with the test programs NAME...
# (test_quantize, which runs every instruction set beside the others). Minutes. Bochs 2.7 does not round ties to even where it converts to
# fp16, with AVX2's instruction, too. So test_quantize compares only AVX2 and AVX-512 there (NO_HALVES), and test_kernels fails at fp16.
# Needs a build, and Debian's bochs, bochs-term, bochsbios, vgabios, busybox-static, grub-common, grub-pc-bin, xorriso, mtools, cpio.
# KERNEL: vmlinuz to boot; else Debian's newest for clouds is fetched with apt-get download.
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${BUILD:-build/release}")
[ $# -gt 0 ] || set -- test_quantize
folder=$(mktemp -d "${TMPDIR:-/tmp}/zerolab-avx512-XXXXXX")
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$folder"' EXIT
root=$folder/root
mkdir -p "$root"/{bin,proc,sys,dev,tmp,tests} "$folder/iso/boot/grub"

kernel=${KERNEL:-}
if [ -z "$kernel" ]; then
    package=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: //p') # its name has the version
    (cd "$folder" && apt-get download "$package" >/dev/null 2>&1 && dpkg-deb -x linux-image*.deb .) || { echo "no kernel: set KERNEL"; exit 1; }
    kernel=$(echo "$folder"/boot/vmlinuz*)
fi
cp "$kernel" "$folder/iso/boot/vmlinuz"

cp /bin/busybox "$root/bin"
for name in "$@"; do cp "$build/tests/$name" "$root/tests" || exit 1; done
ldd "$root"/tests/* | grep -oE '/[^ ]+\.so[^ ]*' | sort -u | while read -r library; do
    mkdir -p "$root/$(dirname "$library")"
    cp -L "$library" "$root/$library"
done
cat >"$root/init" <<INIT
#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc; mount -t devtmpfs dev /dev; mount -t sysfs sys /sys; mount -t tmpfs tmp /tmp
exec >/dev/ttyS0 2>&1
grep -m1 -q avx512bw /proc/cpuinfo || echo "no AVX-512"
cd /tests
export OMP_NUM_THREADS=1 SHORT=1 NO_HALVES=1
for name in $*; do echo "== \$name"; ./\$name; done
echo "== end"
sleep 3 # until the serial line has sent it
poweroff -f
INIT
chmod +x "$root/init"
(cd "$root" && find . | cpio -o -H newc 2>/dev/null | gzip -1) >"$folder/iso/boot/initrd.gz"
# The emulated processor states a size of its compacted state that Linux finds wrong, and then uses none of it.
cat >"$folder/iso/boot/grub/grub.cfg" <<'GRUB'
set timeout=0
linux /boot/vmlinuz console=ttyS0 quiet clearcpuid=xsaves,xsavec tsc=reliable no_timer_check mitigations=off
initrd /boot/initrd.gz
boot
GRUB
grub-mkrescue -o "$folder/boot.iso" "$folder/iso" >/dev/null 2>&1 || { echo "grub-mkrescue failed"; exit 1; }
cat >"$folder/bochsrc" <<BOCHS
display_library: term
cpu: model=corei7_skylake_x, count=1, ips=200000000
megs: 1024
romimage: file=/usr/share/bochs/BIOS-bochs-latest
vgaromimage: file=/usr/share/bochs/VGABIOS-lgpl-latest
ata0-master: type=cdrom, path=$folder/boot.iso, status=inserted
boot: cdrom
com1: enabled=1, mode=file, dev=$folder/serial
log: $folder/log
BOCHS
touch "$folder/serial"
script -qfc "echo c | TERM=xterm bochs -q -f $folder/bochsrc" /dev/null </dev/null >/dev/null 2>&1 & # it wants a terminal
until grep -qa '^== end' "$folder/serial" || [ $SECONDS -gt 7200 ]; do sleep 2; done
tr -d '\r' <"$folder/serial" | grep -aE '^(==|no AVX|\[ *(OK|FAILED|PASSED|ERROR) )'
! grep -qaE 'FAILED|no AVX' "$folder/serial" && grep -qa '^== end' "$folder/serial"
