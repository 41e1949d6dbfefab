#!/bin/sh
# nvcc.sh NVCC ARGS... - run nvcc, handing the -f flags to its host compiler. What
# each kernel takes of a GPU is printed, a line each: architecture, registers, bytes
# of shared memory, of stack, of spills.
nvcc=$1
shift
for arg; do
    shift
    case $arg in
    -f*) set -- "$@" -Xcompiler "$arg" ;;
    *) set -- "$@" "$arg" ;;
    esac
done
said=$("$nvcc" "$@" --resource-usage 2>&1)
status=$?
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
