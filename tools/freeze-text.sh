#!/bin/sh
# Makes data/default.txt, the text that zerolab trains on when it is given none, from the project's own tracked sources and
# documents, and writes its length and checksum into engine/data/corpus.h. Every loss, golden file and lab figure
# changes with it, so this runs once, not with every commit.
#
# Files are taken in the order of their names' checksums: sources, headers and documents are mixed, and the held-out end of
# the text looks like the rest. The text stops at the last whole line before 300,000 bytes.
set -eu
export LC_ALL=C
cd "$(dirname "$0")/.."

git ls-files '*.c' '*.h' '*.def' '*.md' | while read -r file; do
    printf '%s %s\n' "$(printf %s "$file" | md5sum | cut -c 1-32)" "$file"
done | sort | while read -r _ file; do
    cat "$file"
    echo
done | head -c 300000 | sed '$d' > data/default.txt.new
mv data/default.txt.new data/default.txt

bytes=$(wc -c < data/default.txt)
crc=$(gzip -c data/default.txt | tail -c 8 | od -A n -N 4 -t x4 --endian=little | tr -d ' ') # gzip ends with it
sed -i -e "s/^\(#define DEFAULT_TEXT_BYTES\) .*/\1 $bytes/" -e "s/^\(#define DEFAULT_TEXT_CRC32\) .*/\1 0x$crc/" engine/data/corpus.h
echo "data/default.txt: $bytes bytes, CRC-32 $crc"
