# processes.sh - the same bits in several processes that mpirun starts: here, and on
# two nodes (tests/lib/nodes.sh) with a short cable and with a long one, of 5 ms each
# way, which loses 5 frames of 1000. MESHES=60 SEED=1 draws so many meshes for each
# number of processes and cable, and counts those with the bits of one rank.
. "${srcdir:-.}/tests/lib/mpi.sh"
by_mpirun
cpu="offload.optimizer=cpu offload.params=cpu offload.gradients=cpu
     offload.activations=cpu"
nvme="offload.optimizer=nvme offload.params=nvme offload.gradients=nvme
      offload.activations=nvme"
bf16="precision.compute=bf16"
failed=0

export DSFLOW_MPI="$PWD/.libs/dsflow-mpi.so"

# judge N STATUS: of in_processes. All of them are to say so.
judge() {
    [ "$2" -eq 0 ] && [ "$(grep -c '^\[  PASSED  \]' processes.log)" -eq "$1" ] || {
        echo "in $1 processes: status $2"
        cat processes.log
        failed=1
    }
    passed=$(sed -n 's/^\[  PASSED  \] \([0-9]*\) test.*/\1/p' processes.log | sort -n | head -n 1)
    rm -f processes.log
}

# in_processes N TRIAL...: each in N processes.
in_processes() {
    n=$1
    shift
    timeout -k 5 200 mpirun -n $n ./tests/same/test_meshes "$@" \
        > processes.log 2>&1
    judge $n $?
}

# on_nodes N CABLE: random meshes in N processes on two nodes.
on_nodes() {
    at_nodea timeout -k 5 "${LIMIT:-200}" mpirun -n $1 \
        -host nodea:$((($1 + 1) / 2)),nodeb:$(($1 / 2)) \
        -x DSFLOW_MPI -x TRIALS -x SEED -x STARPU_NCPU -x STARPU_SILENT \
        -x STARPU_WORKERS_NOBIND -x XDG_CACHE_HOME \
        -x HWLOC_COMPONENTS ./tests/same/test_meshes > processes.log 2>&1
    judge $1 $?
    echo "$2 cable, $1 processes, seed $SEED: ${passed:-0} of $TRIALS meshes have the bits of one rank"
}

# random MESHES N...: over both cables, so many meshes for each number of processes.
random() {
    TRIALS=$1 SEED=${SEED:-$$}
    export TRIALS SEED
    shift
    here=$(mktemp -d "${TMPDIR:-/tmp}/dsflow-test.XXXXXX") source=$(cd "${srcdir:-.}" && pwd)
    . "$source/tests/lib/nodes.sh"
    make_nodes || return 0
    for n; do
        on_nodes $n "short"
    done
    drop_nodes
    make_nodes 5000 5000 || return 0
    for n; do
        on_nodes $n "long"
    done
}

if [ "${MESHES:-0}" -gt 0 ]; then
    LIMIT=3000
    random "$MESHES" 2 4 8
    exit $failed
fi

# trial KEYS...: in a line.
trial() {
    # shellcheck disable=SC2086 # words are what separates keys
    echo $*
}

in_processes 2 \
    "gpt2 mesh.data=2" \
    "gpt2 mesh.data=2 zero.stage=2 zero.reduce=micro batch.groups=4" \
    "$(trial gpt2 mesh.data=2 zero.stage=3 zero.keep=0 $nvme $bf16)" \
    "$(trial llama mesh.pipeline=2 pipeline.schedule=zero_bubble $cpu)" \
    "$(trial llama mesh.tensor=2 recompute.what=block $bf16)" \
    "gpt2 mesh.data=11 zero.stage=3 zero.keep=0 batch.sequences=22" \
    "$(trial gpt2 mesh.data=16 batch.sequences=16 zero.stage=3 zero.keep=0 \
        compress.keep=0 compress.params=int8 compress.secondary=4 job.steps=2)"
in_processes 3 \
    "$(trial gpt2 mesh.data=2 mesh.pipeline=2 zero.stage=1 \
        pipeline.schedule=interleaved)" \
    "llama mesh.pipeline=6 pipeline.schedule=gpipe"
in_processes 4 \
    "$(trial gpt2 mesh.tensor=2 mesh.data=2 mesh.pipeline=2 zero.stage=3 \
        zero.keep=0 precision.gradients=bf16 $bf16)" \
    "$(trial llama mesh.data=4 zero.stage=2 precision.states=int8 \
        offload.optimizer=nvme offload.piece=4KiB)"
random 2 2 4
exit $failed
