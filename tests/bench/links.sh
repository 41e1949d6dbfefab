#!/bin/bash
# links.sh DSFLOW [RATE...] - two nodes that are network namespaces, of one core
# each, joined by a cable of a RATE as tc(8) has them (1gbit 100mbit; "none": as
# fast as it goes; "shm": two processes of one node, by shared memory):
#
#   messages of dsflow bench link / the same by MPI alone, one way and both;
#   a step as it was predicted with these links / as it was measured, for GPT-2 of
#   25 M parameters with two replicas: within 0.87 and 1.15 is as predicted.
#
# It needs root, mpicc and the kernel's sch_tbf. See common.sh for the rest.
set -euo pipefail
bench=$(dirname -- "$(realpath -- "$0")")
. "$bench/common.sh"

find_dsflow "${1:-}"
shift
(($# > 0)) || set -- shm 1gbit 100mbit
here=$work source=$(realpath "$bench/../..")
. "$source/tests/lib/nodes.sh"
unset STARPU_WORKERS_NOBIND
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

make_job 16x256/4
sed -i 's/^layers.*/layers = 8/; s/^heads.*/heads = 8/; s/^width.*/width = 512/; s/^vocab.*/vocab = 256/' \
    "$work/job.toml"
mpicc -O2 -o "$work/mpi_speed" "$bench/mpi_speed.c"
# The machine as it was measured before, without its links.
mkdir -p "$work/cache/dsflow"
"$dsflow" plan "$work/job.toml" -q > /dev/null
cp "${XDG_CACHE_HOME:-$HOME/.cache}"/dsflow/*.toml "$work/cache/dsflow"
export XDG_CACHE_HOME=$work/cache

# by_link COMMAND...: as a user of the first node, or of the only one; $where has
# the flags for dsflow, $hosts those for mpirun.
by_link()
{
    if [[ $rate = shm ]]; then "$@"; else at_nodea "$@"; fi
}

# What the prediction is worth without any messages.
predicted_and_measured()
{
    predicted=$(python3 -c '
import json, sys
print(json.load(open(sys.argv[1]))["predicted"]["step_seconds"])' "$run/plan.json")
    seconds=$(step_seconds)
    echo "predicted $predicted s, measured $seconds s, ratio $(ratio "$predicted" "$seconds")"
}

run_dsflow "$work/job.toml" --set mesh.data=2 --set machine.workers=2
echo "one process: $(predicted_and_measured)"

for rate; do
    if [[ $rate = shm ]]; then
        where=(-n 2) hosts=(-n 2 --oversubscribe)
    else
        make_nodes || die "no nodes"
        where=(--hosts nodea,nodeb) hosts=(-host nodea,nodeb)
        for n in a b; do
            [[ $rate = none ]] ||
                tc -n "$spaces$n" qdisc add dev cable root tbf rate "$rate" burst 256kb latency 50ms
        done
    fi
    for ((i = 1; i <= PAIRS; i++)); do
        read -r one both < <(by_link mpirun "${hosts[@]}" --bind-to none "$work/mpi_speed")
        read -r out each < <(by_link "$dsflow" bench link "${where[@]}" |
            awk '/ idle / { print $(NF - 3), $(NF - 1) }')
        echo "$rate: one way $out MB/s, MPI $one, ratio $(ratio "$out" "$one");" \
            "each of both $each, MPI $both, ratio $(ratio "$each" "$both");" \
            "bytes/s that take a core: $(sed -n '/^\[link\]/,/^$/s/^core = //p; /^\[network\]/,/^$/s/^core = //p' \
                "$XDG_CACHE_HOME/dsflow/machine.toml" | tr '\n' ' ')"
    done
    [[ $rate = shm ]] && workers=2 || workers=1
    for ((i = 1; i <= PAIRS; i++)); do
        nruns=$((nruns + 1)) run=$work/run$nruns
        by_link "$dsflow" run "$work/job.toml" "${where[@]}" --set mesh.data=2 \
            --set machine.workers=$workers --set job.output="$run" \
            --set checkpoint.at_end=false > /dev/null 2> "$work/log" ||
            { cat "$work/log" >&2; die "dsflow run: exit status $?"; }
        echo "$rate: $(predicted_and_measured);" \
            "$(grep -o '[0-9.]* % hidden behind compute' "$work/log" || true)"
    done
    [[ $rate = shm ]] || drop_nodes || true
done
