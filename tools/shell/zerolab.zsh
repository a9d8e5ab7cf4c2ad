#compdef zerolab
# zsh completion of zerolab: the program itself says what may follow.
_zerolab() {
    local -a found
    found=("${(@f)$($words[1] --complete "${(@)words[2,CURRENT]}" 2>/dev/null | sed 's/:/\\:/g; s/	/:/')}")
    if [[ -n $found ]]; then _describe zerolab found; else _files; fi
}
_zerolab "$@"
