#!/bin/sh
# nvcc.sh NVCC ARGS... -o OBJECT ... - run nvcc, handing the -f flags to its host
# compiler. What each kernel takes of a GPU is printed, a line each: architecture,
# registers, bytes of shared memory, of stack, of spills. The PTX of each
# architecture is kept beside the object, in a folder: compute_90/NAME.ptx.
nvcc=$1
shift
object=
last=
for arg; do
    shift
    [ "$last" != -o ] || object=$arg
    last=$arg
    case $arg in
    -f*) set -- "$@" -Xcompiler "$arg" ;;
    *) set -- "$@" "$arg" ;;
    esac
done
kept=$(mktemp -d) || exit 1
trap 'rm -rf "$kept"' EXIT
said=$("$nvcc" "$@" --resource-usage --keep --keep-dir "$kept" 2>&1)
status=$?
for ptx in "$kept"/*.compute_*.ptx; do
    [ -e "$ptx" ] || continue
    arch=${ptx##*.compute_}
    to=$(dirname "$object")/compute_${arch%.ptx}
    name=${ptx##*/}
    mkdir -p "$to" && mv "$ptx" "$to/${name%%.*}.ptx"
done
printf '%s\n' "$said" | awk '
/^ptxas info .*Compiling entry function/ {
    split($0, quoted, "\047")
    name = quoted[2]
    arch = quoted[4]
    next
}
/bytes stack frame/ {
    stack = $1
    spills = $5 + $9
    next
}
/^ptxas info .*Used [0-9]+ registers/ {
    shared = 0
    for (i = 1; i < NF; i++) {
        if ($(i + 1) ~ /^registers/)
            registers = $i
        if ($i == "bytes" && $(i + 1) ~ /^smem/)
            shared = $(i - 1)
    }
    printf "%s: %3d registers, %d shared, %d stack, %d spilled: %s\n",
        arch, registers, shared, stack, spills, name
    next
}
/^ptxas info/ || /^$/ { next }
{ print }' | { c++filt -p 2>/dev/null || cat; } >&2
exit $status
