# bash completion of zerolab: the program itself says what may follow.
_zerolab() {
    mapfile -t COMPREPLY < <("$1" --complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | cut -f 1)
}
complete -o default -F _zerolab zerolab
