# gpus.sh - [machine] gpus as a user types it, on GPUs that are not there: what is
# said of them, what runs, what is refused, and what a GPU that fails leaves.
module=$PWD/tests/gpu/.libs/dsflow-cuda-bare.so
top=$(cd "${srcdir:-.}" && pwd) || exit 99
. "${srcdir:-.}/tests/cli/lib.sh"

DSFLOW_CUDA=$module
DSFLOW_EMULATED_LATE=20
export DSFLOW_CUDA DSFLOW_EMULATED_LATE

# report PATTERN: is there one such line of `dsflow report`?
reports() {
    "$dsflow" report > log 2>&1 || fault "report: $(cat log)"
    [ "$(grep -Ec "$1" log)" -eq 1 ] || fault "no '$1' in: $(cat log)"
}
reports '^GPUs       2, CUDA [0-9.]* \(driver for [0-9.]*\), .*cuBLASLt.*$'
reports '^GPU 1      emulated GPU: 4.0 GiB, 4.0 GiB free, compute capability 9.0'
DSFLOW_EMULATED_GPUS=0 reports "^GPUs       none: NVIDIA's driver shows no GPU$"
DSFLOW_EMULATED_DRIVER=0 reports "^GPUs       none: NVIDIA's driver is not there$"
DSFLOW_EMULATED_DRIVER=10020 reports \
    '^GPUs       none: a driver for CUDA 10.2, and dsflow was built with .*$'
DSFLOW_CUDA=no reports '^GPUs       none: DSFLOW_CUDA=no$'
DSFLOW_CUDA=$here/none.so reports '^GPUs       none: .*none.so: .*No such file'

# wrong STATUS MESSAGE ARGS...: refused, in one line.
wrong() {
    status=$1
    message=$2
    shift 2
    "$dsflow" -q run job.toml --set job.output=wrong "$@" > log 2>&1
    got=$?
    [ $got -eq $status ] || fault "$*: the status is $got: $(cat log)"
    tail -n 1 log | grep -Eq "$message" || fault "$*: $(cat log)"
}
DSFLOW_CUDA=no wrong 2 'machine: gpus: 1: DSFLOW_CUDA=no$' \
    --set machine.gpus=1
wrong 2 'machine: gpus: 3: the driver shows 2$' --set machine.gpus=3
wrong 2 'machine: gpus: beside machine.virtual: expected one of them$' \
    --set machine.gpus=1 --set machine.virtual=1
DSFLOW_EMULATED_MEMORY=0x40000 wrong 2 \
    'memory: device: rank 0 needs .* and has 248.0 KiB; .*' --set machine.gpus=auto

# An executor that has no devices says that it leaves them out.
"$dsflow" run job.toml --set job.output=serial --set machine.gpus=2 \
    --executor serial > log 2>&1 || fault "serial: $(cat log)"
grep -q 'warning: .*machine: gpus: has no effect: the serial executor' log ||
    fault "serial: $(cat log)"

# Inputs are rounded from a step on, whatever ran before it.
later="--set activations.quantize=symmetric --set activations.group=16
       --set batch.groups=2"
# shellcheck disable=SC2086
{
    run rounded $later --set machine.gpus=2 --set mesh.data=2 --set zero.stage=2 \
        --set activations.quantize_from=5
    run exact --set batch.groups=2 --set machine.gpus=1 --set job.steps=5 \
        --set schedule.total=10
    run exact $later --set machine.gpus=1 --resume
    same rounded exact
}

# A checkpoint goes from cores to GPUs and back.
run cores
DSFLOW_EMULATED_GPUS=1 run gpus --set machine.gpus=auto
same cores gpus
run back --set job.steps=5
"$dsflow" run job.toml --set job.output=back --set machine.gpus=2 --resume \
    > log 2>&1 || fault "resume on GPUs: $(cat log)"
gpu='emulated GPU, CUDA [0-9.]* (driver for [0-9.]*), .*cuBLASLt.*'
grep -q "the run was on cores until now, and is on $gpu: last bits may differ" log ||
    fault "nothing is said of another machine: $(cat log)"
grep -q "\"on\": \"$gpu\"" back/plan.json || fault "no GPU in back/plan.json"
run there --set machine.gpus=1 --set job.steps=5
"$dsflow" -q run job.toml --set job.output=there --resume > log 2>&1 ||
    fault "resume on cores: $(cat log)"
same back there
DSFLOW_EMULATED_DRIVER=14000 "$dsflow" run job.toml --set job.output=gpus \
    --set job.steps=11 --set machine.gpus=1 --resume > log 2>&1 || fault "$(cat log)"
grep -q "the run was on $gpu until now, and is on .*driver for 14.0" log ||
    fault "nothing is said of another driver: $(cat log)"

# A GPU on which no rank is, is left alone.
DSFLOW_EMULATED_FULL=1 run first --set machine.gpus=auto --set job.steps=1

# What it makes of its GPUs is known where their peak is.
mfu() {
    grep -c '"mfu":[0-9.e-]*[1-9][0-9.e-]*[,}]' $1/metrics.jsonl
}
DSFLOW_EMULATED_NAME="NVIDIA H200" "$dsflow" run job.toml \
    --set job.output=mfu --set machine.gpus=2 > log 2>&1 || fault "$(cat log)"
[ "$(mfu mfu) $(mfu there)" = "10 0" ] ||
    fault "MFU of $(mfu mfu) steps, and of $(mfu there) where no peak is known"
grep -Eq '^MFU [0-9.e-]+ %: of what 1 such GPU is built for' log ||
    fault "nothing is said of it: $(cat log)"

# With tile = "auto" a GPU has whole micro-batches, and a core has not: that is
# named, and the run goes on.
run tiles --set batch.micro=4 --set job.steps=5
"$dsflow" run job.toml --set job.output=tiles --set batch.micro=4 \
    --set machine.gpus=1 --resume > log 2>&1 || fault "other tiles: $(cat log)"
grep -q 'batch.tile: 2 to a micro-batch in the run, now 1 to a micro-batch: it goes on' log ||
    fault "other tiles: $(cat log)"
"$dsflow" -q run job.toml --set job.output=tiles --set batch.micro=4 --resume \
    --set batch.tile=48 --set job.steps=11 > log 2>&1 && fault "a tile of the job: $(cat log)"

# What no GPU can do is done by cores, and said.
"$dsflow" run job.toml --set job.output=said --set machine.gpus=1 > log 2>&1 ||
    fault "$(cat log)"
grep -Eq 'on cores, as they have no CUDA side: .*adam.*: [0-9.]+ % of the time' log ||
    fault "nothing is said of cores: $(cat log)"
grep -Eq 'on 1 GPU: [0-9.]+ MiB, planned' log || fault "memory: $(cat log)"
grep -Eq 'tasks, kernels [0-9.]+ % of 1 GPU x ' log || fault "workers: $(cat log)"
DSFLOW_CUDA=no "$dsflow" run job.toml --set job.output=none \
    --set machine.gpus=auto > log 2>&1 || fault "auto without GPUs: $(cat log)"
[ "$(grep -c 'no GPU, so the job runs on cores: DSFLOW_CUDA=no' log)" -eq 1 ] ||
    fault "auto without GPUs says: $(cat log)"
same cores none

# A kernel or copy that meets a bad address: the last checkpoint stays.
DSFLOW_EMULATED_FAIL=4000 "$dsflow" run job.toml --set job.output=failed \
    --set checkpoint.every=2 --set machine.gpus=1 > log 2>&1
got=$?
[ $got -eq 1 ] || fault "the status is $got: $(cat log)"
tail -n 1 log | grep -Eq '^dsflow: at or after (the copy of|task) .*: GPU 0: an illegal memory access was encountered; the last checkpoint is of step [0-9]+, in failed$' ||
    fault "the message: $(tail -n 3 log)"
"$dsflow" checkpoint verify failed > log 2>&1 || fault "$(cat log)"

# Times of GPUs that nobody measured are not made up.
"$dsflow" plan job.toml --set machine.gpus=1 > log 2>&1 || fault "$(cat log)"
grep -q '^beside devices ' log || fault "plan, of main memory: $(cat log)"
grep -q 'times are those of cores' log || fault "plan: $(cat log)"

# Nor are those of cores said of a run: here they are of slow ones. What is chosen by
# them is named.
grep -q step_seconds said/plan.json && fault "a time of cores is in plan.json"
cache=${XDG_CACHE_HOME:-$HOME/.cache}/dsflow/machine.toml
mkdir -p slow/dsflow
sed 's/^"adam" = .*/"adam" = [9.0, 0.0, 1e-3]/' "$cache" > slow/dsflow/machine.toml
XDG_CACHE_HOME=$here/slow "$dsflow" run job.toml --set job.output=slow-cores \
    --set job.steps=8 > cores.log 2>&1 || fault "slow cores: $(cat cores.log)"
grep -q 'takes about .* (predicted)' cores.log || fault "slow cores: $(cat cores.log)"
XDG_CACHE_HOME=$here/slow "$dsflow" run job.toml --set job.output=slow-gpu \
    --set job.steps=8 --set machine.gpus=1 --set offload.optimizer=cpu \
    --set offload.share=auto > log 2>&1 || fault "beside slow cores: $(cat log)"
grep -q predicted log && fault "beside slow cores: $(cat log)"
grep -q 'what is "auto" is chosen by times of cores' log || fault "auto: $(cat log)"

# A large model in tasks of whole micro-batches, on a described GPU.
"$dsflow" plan "$top/examples/plans/gpt2-1.5b.toml" --machine "$top/examples/machines/h200-8.toml" \
    --set mesh.data=1 --set batch.sequences=128 --set batch.micro=16 --set batch.tile=auto \
    --set zero.stage=0 --set zero.reduce=step --set memory.device=141GB > log 2>&1 || fault "plan: $(cat log)"
total=$(sed -n 's/^total  *\([0-9]*\)  .*/\1/p' log)
[ "$((total / 8))" -le 620 ] || fault "$total tasks for 8 micro-batches"
finish
