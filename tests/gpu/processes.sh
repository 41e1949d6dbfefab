# processes.sh - the same bits on GPUs that are not there, in several processes that
# mpirun starts: each has those of its ranks, and takes as much of them as its plan
# says; what goes between them is copied by way of main memory, beside kernels, or
# goes from GPU to GPU (tests/gpu/runtime/nccl.cpp).
. "${srcdir:-.}/tests/lib/mpi.sh"
by_mpirun
DSFLOW_CUDA=$PWD/tests/gpu/.libs/dsflow-cuda-emulated.so
DSFLOW_NCCL=$DSFLOW_CUDA
DSFLOW_MPI=$PWD/.libs/dsflow-mpi.so
DSFLOW_EMULATED_GPUS=4 DSFLOW_EMULATED_LATE=50 DSFLOW_EMULATED_GUARD=0
export DSFLOW_CUDA DSFLOW_NCCL DSFLOW_MPI DSFLOW_EMULATED_GPUS DSFLOW_EMULATED_LATE \
    DSFLOW_EMULATED_GUARD
small="model.layers=2 job.steps=2 batch.sequence=16"
meshes=$PWD/tests/same/test_meshes
begins=$PWD/tests/gpu/.libs/mpi-begins-cuda.so
. "${srcdir:-.}/tests/cli/lib.sh"

# in_processes N TRIAL...: each in N processes. They begin CUDA before they are
# several, so that dsflow cannot tell it how to load kernels.
in_processes() {
    n=$1
    shift
    CUDA_MODULE_LOADING=EAGER CUDA_DEVICE_MAX_CONNECTIONS=32 ON_GPUS=1 timeout -k 5 200 \
        mpirun -x ON_GPUS -x CUDA_MODULE_LOADING -x CUDA_DEVICE_MAX_CONNECTIONS \
        -n "$n" "$meshes" "$@" > log 2>&1
    status=$?
    # All of them say so.
    [ $status -eq 0 ] && [ "$(grep -c '^\[  PASSED  \]' log)" -eq "$n" ] || {
        fault "in $n processes: status $status"
        cat log
    }
}

# trial KEYS...: in a line.
trial() {
    # shellcheck disable=SC2086 # words are what separates keys
    echo $* $small
}

in_processes 2 \
    "$(trial gpt2 batch.sequences=2 machine.gpus=2 mesh.data=2 zero.stage=3 \
        zero.keep=0)" \
    "$(trial llama batch.sequences=3 machine.gpus=2 mesh.pipeline=2 \
        pipeline.schedule=zero_bubble)" \
    "$(trial gpt2 batch.sequences=2 machine.gpus=4 mesh.data=2 mesh.tensor=2 \
        zero.stage=1 precision.compute=bf16 precision.gradients=bf16 \
        offload.optimizer=cpu)"
in_processes 4 \
    "$(trial gpt2 batch.sequences=4 machine.gpus=4 mesh.data=2 mesh.pipeline=2 \
        precision.compute=bf16)" \
    "$(trial llama batch.sequences=4 machine.gpus=4 mesh.data=4 zero.stage=3 \
        zero.keep=0)" \
    "$(trial gpt2 batch.sequences=2 machine.gpus=2 mesh.data=2 \
        mesh.pipeline=2 zero.stage=2)"
# From GPU to GPU; processes of two GPUs, and of one.
small="$small mesh.transport=nccl machine.gpus=4"
in_processes 2 \
    "$(trial gpt2 batch.sequences=4 mesh.data=2 mesh.pipeline=2 zero.stage=1 \
        precision.compute=bf16)" \
    "$(trial llama batch.sequences=2 mesh.data=2 mesh.tensor=2 zero.stage=2 \
        zero.reduce=micro offload.gradients=cpu)" \
    "$(trial gpt2 batch.sequences=4 mesh.data=4 zero.stage=3 zero.keep=0 \
        offload.params=cpu)"
in_processes 4 \
    "$(trial llama batch.sequences=4 mesh.data=4 zero.stage=3 zero.keep=0)" \
    "$(trial gpt2 batch.sequences=4 mesh.data=2 mesh.pipeline=2 \
        pipeline.schedule=zero_bubble precision.compute=fp16)"

# sums OUTPUT: of its checkpoint.
sums() {
    cat "$1"/checkpoints/step-*/*.safetensors | cksum
}

job | sed 's/steps = 10/steps = 3/; s/48/24/' > job.toml
keys="--set model.vocab=301 --set machine.gpus=4 --set mesh.data=2
      --set mesh.pipeline=2 --set zero.stage=3
      --set checkpoint.every=2 --set checkpoint.keep=1"
# shellcheck disable=SC2086 # words
{
    run one $keys
    run two $keys -n 2
    run four $keys -n 4 --trace --set mesh.transport=mpi
    grep "messages go" log && fault "nobody asked"
    CUDA_MODULE_LOADING=LAZY CUDA_DEVICE_MAX_CONNECTIONS=1 CUDA_LAUNCH_BLOCKING=1 \
        NCCL_LAUNCH_ORDER_IMPLICIT=1 NCCL_COMM_BLOCKING=0 run direct $keys -n 4 --trace
    grep -q '^dsflow: messages go from GPU to GPU, by NCCL 2' log || fault "$(cat log)"
    REAL_MPI=$DSFLOW_MPI DSFLOW_MPI=$begins run begun $keys -n 4
    DSFLOW_EMULATED_LAZY=1 run lazy $keys -n 4
    DSFLOW_EMULATED_PEERS=0 run apart $keys -n 4
    DSFLOW_NCCL=no run without $keys -n 2
    grep -q '^dsflow: messages go by way of main memory, by MPI: ' log || fault "$(cat log)"
}
"$dsflow" trace four --chrome trace.json > log 2>&1 || fault "$(cat log)"
for gpu in 0 1 2 3; do
    grep -q "$gpu.*device $gpu\"" trace.json || fault "GPU $gpu is not used"
done
# What is copied for a checkpoint between two steps, which no message carries: by
# the first process and the last.
for data in m.layer0.mlp.s0 m.layer1.mlp.s1; do
    tr '{' '\n' < trace.json | grep -A 1 '"name":"transfer"' |
        grep -q "\"data\":\"$data\"" || fault "no copy of $data"
done
[ "$(sums one)" = "$(sums two)" ] || fault "two processes have other bytes"
[ "$(sums one)" = "$(sums four)" ] || fault "four processes have other bytes"
[ "$(sums one)" = "$(sums direct)" ] || fault "from GPU to GPU: other bytes"
[ "$(sums one)" = "$(sums lazy)" ] || fault "with kernels that are loaded late: other bytes"
[ "$(sums one)" = "$(sums apart)" ] || fault "where no GPU reaches another: other bytes"
[ "$(sums one)" = "$(sums begun)" ] || fault "with an MPI that knows CUDA: other bytes"
[ "$(sums one)" = "$(sums without)" ] || fault "without NCCL: other bytes"
# Less is copied to main memory and back.
copies() {
    "$dsflow" trace "$1" --chrome trace.json > log 2>&1 || fault "$(cat log)"
    tr '{' '\n' < trace.json | grep -c '"name":"transfer"'
}
[ "$(copies direct)" -lt "$(copies four)" ] ||
    fault "$(copies direct) copies, $(copies four) by way of main memory"

# Eight processes, where a GPU has queues for as many streams as there are, with
# NCCL's, and no more: of 22, which one communicator for each GPU would make, some
# would wait for each other.
wide="--set batch.sequences=8 --set job.steps=2 --set model.layers=1
      --set model.vocab=257 --set machine.gpus=8 --set mesh.data=8
      --set zero.stage=3"
DSFLOW_EMULATED_GPUS=8 DSFLOW_EMULATED_SEED=12 DSFLOW_EMULATED_QUEUES=16
export DSFLOW_EMULATED_SEED DSFLOW_EMULATED_QUEUES
# shellcheck disable=SC2086 # words
{
    run whole $wide
    run eight $wide -n 8
}
[ "$(sums whole)" = "$(sums eight)" ] || fault "eight processes have other bytes"
DSFLOW_EMULATED_GPUS=4
unset DSFLOW_EMULATED_SEED DSFLOW_EMULATED_QUEUES

# refused TEXT KEYS...: with this line, before anything runs.
refused() {
    text=$1
    shift
    # shellcheck disable=SC2086 # words
    "$dsflow" run job.toml $keys -n 4 --set mesh.transport=nccl --set job.output=few "$@" > log 2>&1
    [ $? -eq 2 ] && grep -q "^dsflow: --set: mesh: transport: nccl: $text" log ||
        fault "$*: $(cat log)"
}
refused "ranks 0 and 2 are on one GPU, in two processes" --set machine.gpus=2
refused "ranks are not on GPUs" --set machine.gpus=0
DSFLOW_NCCL=$PWD/none.so refused ".*none.so: "
# What NCCL takes of a GPU is known before the first step.
# shellcheck disable=SC2086 # words
DSFLOW_EMULATED_MEMORY=720000 "$dsflow" run job.toml $keys -n 4 --set job.output=few \
    > log 2>&1
[ $? -eq 2 ] && grep -q "memory: device: rank 0 needs" log || fault "$(cat log)"
# Where it takes more, the run says what CUDA said to it.
# shellcheck disable=SC2086 # words
DSFLOW_EMULATED_BUFFERS=2 "$dsflow" run job.toml $keys -n 4 --set job.output=few \
    > log 2>&1
[ $? -eq 1 ] && grep -q "GPU .: NCCL: unhandled cuda error: Cuda failure 'out of memory'" log ||
    fault "$(cat log)"
# A process that lacks a GPU says which, before the first step.
# shellcheck disable=SC2086 # words
DSFLOW_EMULATED_GPUS=2 "$dsflow" run job.toml $keys -n 2 --set job.output=few \
    > log 2>&1
[ $? -eq 2 ] || fault "two GPUs where four are wanted: $(cat log)"
grep -q 'machine: gpus: 4: the driver shows 2' log || fault "$(cat log)"

# in_two TEXT A B: processes 0 and 1 of a job by NCCL, each with its settings, end with
# this line before the first step, and say no other.
in_two() {
    keys="job.toml --set machine.gpus=2 --set mesh.data=2 --set zero.stage=3
          --set run.patience=2 --set job.output=few"
    rm -rf few
    # shellcheck disable=SC2086
    timeout -k 5 200 mpirun -n 1 env $2 "$dsflow" run $keys : \
        -n 1 env $3 "$dsflow" run $keys > log 2>&1
    got=$?
    grep "^dsflow: .*process" log > said
    [ $got -ne 0 ] && [ $got -ne 124 ] && [ "$(wc -l < said)" -eq 1 ] &&
        grep -q "^dsflow: .*$1" said && ! grep -q "^step " log ||
        fault "$2, $3: status $got: $(cat log)"
}
in_two "process 1 (host .*): job.toml: mesh: transport: no NCCL: expected 2.28.9" \
    A= DSFLOW_NCCL=no
in_two "process 1 (host .*): job.toml: mesh: transport: NCCL 2.27.3: expected 2.28.9" \
    A= DSFLOW_EMULATED_NCCL=22703
# Each waits for the other: either may be named.
in_two "has waited .* for .NCCL. of process" A= DSFLOW_EMULATED_ALONE=1
in_two "has waited .* for .NCCL. of process" DSFLOW_EMULATED_ALONE=2 A=

# fails_in PROCESS SETTING=N TRANSPORT: its N-th kernel or copy meets a bad address
# (FAIL), its N-th communicator cannot be joined (JOIN), its N-th message is lost
# (BREAK), or cannot be put into a stream (PUT). Both end, and the first says where it
# was. They have $gpus of the GPUs; the other process has the settings $other.
fails_in() {
    bad="env DSFLOW_EMULATED_$2"
    keys="job.toml --set job.steps=100 --set machine.gpus=$gpus --set mesh.data=$gpus
          --set zero.stage=3 --set run.patience=0 --set job.output=fails
          --set mesh.transport=$3"
    case $1 in
    0) a=$bad b=$other ;;
    1) a=$other b=$bad ;;
    both) a=$bad b=$bad ;;
    esac
    case $2 in
    FAIL=*) text='an illegal memory access was encountered; there is no checkpoint' on=' GPU 1:' ;;
    PUT=*) text='GPU .: NCCL: unhandled system error' on= ;;
    JOIN=* | BREAK=*) text='NCCL: unhandled system error' on= ;;
    esac
    rm -rf fails
    # shellcheck disable=SC2086 # words
    timeout -k 5 200 mpirun -n 1 $a "$dsflow" run $keys : \
        -n 1 $b "$dsflow" run $keys > log 2>&1
    got=$?
    [ $got -eq 1 ] || fault "process $1: $2: status $got: $(cat log)"
    grep "$text" log > said || fault "process $1: $2: $(cat log)"
    [ "$(wc -l < said)" -eq 1 ] || fault "process $1: $2: $(cat said)"
    [ "$1" != 1 ] || grep -q "^dsflow: process 1 (.*host .*):.*$on " said ||
        fault "process $1: $2: $(cat said)"
}

gpus=2 other=
fails_in both FAIL=300 mpi
fails_in 0 FAIL=1200 mpi
fails_in 1 FAIL=1200 mpi
fails_in 0 FAIL=1200 nccl
fails_in 0 FAIL=1100 nccl
fails_in 1 FAIL=731 nccl
fails_in 0 JOIN=1 nccl
fails_in 0 JOIN=2 nccl
fails_in 1 JOIN=1 nccl
fails_in 1 JOIN=2 nccl
fails_in both JOIN=2 nccl
fails_in 0 BREAK=100 nccl
fails_in 1 BREAK=101 nccl
# NCCL does not return from a call of the other's, and does not let go of it.
other="env DSFLOW_EMULATED_STUCK=100"
fails_in 0 BREAK=100 nccl
fails_in 1 BREAK=100 nccl
other=
gpus=4
fails_in 0 PUT=1 nccl
fails_in 1 PUT=1 nccl
finish
