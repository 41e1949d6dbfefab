# lib.sh - what the tests of the command share: a folder of their own, a tiny
# job in it, and comparisons that say what they saw.
set -u
dsflow=${DSFLOW:-dsflow}
here=$(mktemp -d "${TMPDIR:-/tmp}/dsflow-test.XXXXXX") || exit 99
trap 'rm -rf "$here"' EXIT
cd "$here" || exit 99
faults=0
DSFLOW_MEASURE_GPUS=no # but where a test asks for it
export DSFLOW_MEASURE_GPUS

fault() {
    echo "FAULT: $*"
    faults=$((faults + 1))
}

# Some English that the tests may always have: their own.
i=0
while [ $i -lt 400 ]; do
    echo "Line $i of a text that a small model can learn: the number is $((i * i))."
    i=$((i + 1))
done > text.txt

# A model of a few thousand parameters; extra lines come as arguments.
job() {
    cat <<EOF
[job]
name = "tiny"
steps = 10
output = "run"
log_every = 5
[model]
layers = 2
heads = 2
width = 32
context = 48
[data]
train = "text.txt"
[batch]
sequences = 4
micro = 1
sequence = 48
[optimizer]
lr = 1e-3
[schedule]
kind = "warmup_cosine"
warmup = 3
EOF
}
job > job.toml

# run OUTPUT ARGS...: train into a folder, quietly; shows what it said if not.
run() {
    out=$1
    shift
    "$dsflow" run job.toml --set job.output="$out" "$@" > log 2>&1 ||
        { fault "dsflow run into $out $* ended with $?"; cat log; }
}

# until_none WHAT COMMAND: until COMMAND, which prints the processes that are left of
# WHAT, prints nothing: one that was killed may take a moment.
until_none() {
    tenths=0
    while [ -n "$("$2")" ] && [ $tenths -lt 100 ]; do
        sleep 0.1
        tenths=$((tenths + 1))
    done
    [ -z "$("$2")" ] || fault "$1: left: $("$2")"
}

# until_line PATTERN FILE [PID]: until FILE, which may not be there as yet, has a
# line that matches. Not: the process ($pid where none is named) ended without
# one, or minutes went by. tail(1) is told of every write, and ends with its reader.
until_line() {
    timeout 300 tail -n +1 -s 0.01 -F --pid="${3:-$pid}" "$2" 2> /dev/null |
        grep -q -m 1 -e "$1"
}

# same A B: the newest checkpoints of two runs have the same bytes.
same() {
    a=$1/checkpoints/$(cat "$1/checkpoints/latest")
    b=$2/checkpoints/$(cat "$2/checkpoints/latest")
    for f in params.safetensors states.safetensors; do
        cmp "$a/$f" "$b/$f" || fault "$a/$f and $b/$f differ"
    done
}

# other A B: the newest checkpoints of two runs have other parameters.
other() {
    a=$1/checkpoints/$(cat "$1/checkpoints/latest")/params.safetensors
    b=$2/checkpoints/$(cat "$2/checkpoints/latest")/params.safetensors
    ! cmp -s "$a" "$b" || fault "$a and $b are the same"
}

# loss_of ARGS...: the loss that `dsflow eval` finds.
loss_of() {
    "$dsflow" eval "$@" --set job.name=eval > log 2> err ||
        fault "eval $*: $(cat err)"
    sed -n 's/^loss //p' log
}

# stop_at STEP: `part` is the run `all` as if it had been stopped behind that step.
stop_at() {
    mkdir -p part/checkpoints
    cp -r "all/checkpoints/step-$1" part/checkpoints
    echo "step-$1" > part/checkpoints/latest
}

# on_meshes KEYS MESH OTHER: a run one task after the other, one on a mesh, and one that
# goes on from step 5 of that on another mesh, have the same bytes.
on_meshes() {
    # shellcheck disable=SC2086 # words are what separates keys
    {
        run serial $1 --executor serial
        run all $1 $2 --set checkpoint.every=5 --set checkpoint.keep=20
        same serial all
        stop_at 5
        run part $1 $3 --resume
        same serial part
    }
    rm -r serial all part
}

# said: what is in `err`, but for words about the machine: it is busy when other
# tests run, and which command is the first to measure it is chance.
said() {
    grep -v -e "dsflow: measuring the machine, once" \
        -e "dsflow: warning: .* was disturbed while it was measured" err
}

# has_terminal: script(1) can make one: not in a chroot without /dev/pts.
has_terminal() {
    command -v script > /dev/null &&
        script -qec true /dev/null > /dev/null 2>&1 < /dev/null && return 0
    echo "no pseudo-terminal can be made here: what needs one is left out"
    return 1
}

finish() {
    [ $faults -eq 0 ] && exit 0
    echo "$faults faults"
    exit 1
}
