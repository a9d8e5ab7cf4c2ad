#!/bin/sh
# Installs the program, its man page and the completions of bash and zsh: tools/install.sh PROGRAM FOLDER
# The program is whole by itself (labs, the default configuration and text are assembled into it), so no other file is needed.
set -eu
program=${1:?usage: tools/install.sh PROGRAM FOLDER} to=${2:?usage: tools/install.sh PROGRAM FOLDER}
shell=$(dirname "$0")/shell
mkdir -p "$to/bin" "$to/share/man/man1" "$to/share/bash-completion/completions" "$to/share/zsh/site-functions"
install -m 755 "$program" "$to/bin/zerolab"
"$program" --help-manual >"$to/share/man/man1/zerolab.1"
install -m 644 "$shell/zerolab.bash" "$to/share/bash-completion/completions/zerolab"
install -m 644 "$shell/zerolab.zsh" "$to/share/zsh/site-functions/_zerolab"
chmod 644 "$to/share/man/man1/zerolab.1"
