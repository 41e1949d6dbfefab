#!/bin/bash
# io.sh DSFLOW [FOLDER...] - how fast the I/O engine is beside fio: libaio and
# O_DIRECT in both, the same files, block and depth. Prints the rates and their
# ratio of each turn, for reading, writing and both at once, and the medians.
#
# The block and the depth are those that dsflow bench io finds best. FOLDER is
# /tmp by default; several are one store. ROUNDS (8) are the turns, SIZE (2GiB)
# the files together, which are gone at the end.
set -euo pipefail
here=$(dirname -- "$(realpath -- "$0")")
. "$here/common.sh"

find_dsflow "${1:-}"
shift
(($# > 0)) || set -- /tmp
ROUNDS=${ROUNDS:-8}
SIZE=${SIZE:-2GiB}
command -v fio > /dev/null || die "needs fio"

# value KEY: of what bench io says a job should have.
value()
{
    sed -n "s/^$1 = //p" "$work/sweep" | tr -d '"' | head -n 1
}

"$dsflow" bench io "$@" --size "$SIZE" | tee "$work/sweep"
block=${BLOCK:-$(value block)} depth=${DEPTH:-$(value depth)}

echo
echo "block $block, depth $depth: read, write, both"
for ((i = 1; i <= ROUNDS; i++)); do
    "$dsflow" bench io "$@" --size "$SIZE" --block "$block" --depth "$depth" |
        grep -E '^(dsflow|fio|dsflow / fio) ' | tee "$work/turn"
    sed -n 's|^dsflow / fio *||p' "$work/turn" >> "$work/ratios"
done
for ((column = 1; column <= 3; column++)); do
    awk -v c=$column '{ print $c }' "$work/ratios" | median
done | paste -s -d ' ' | sed "s|^|median of $ROUNDS ratios: |"
