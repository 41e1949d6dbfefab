# bench.sh - dsflow bench gpu on GPUs that are not there, and what plan and run then
# say of jobs on them. The figures are those of the emulation.
DSFLOW_CUDA=$PWD/tests/gpu/.libs/dsflow-cuda-emulated.so
. "${srcdir:-.}/tests/cli/lib.sh"
known=${XDG_CACHE_HOME:-${HOME:-/nowhere}/.cache}/dsflow/machine.toml
XDG_CACHE_HOME=$here/cache
DSFLOW_EMULATED_LATE=20
DSFLOW_EMULATED_GUARD=0
DSFLOW_EMULATED_MEMORY=0x8000000 # copies of 8 MiB
export DSFLOW_CUDA XDG_CACHE_HOME DSFLOW_EMULATED_LATE DSFLOW_EMULATED_GUARD \
    DSFLOW_EMULATED_MEMORY
mkdir -p cache/dsflow
[ -r "$known" ] && cp "$known" cache/dsflow # cores need not be measured again

# wrong MESSAGE ARGS...: status 2, in one line.
wrong() {
    message=$1
    shift
    "$dsflow" bench "$@" > log 2>&1
    got=$?
    [ $got -eq 2 ] || fault "bench $*: the status is $got"
    grep -q "$message" log || fault "bench $*: $(cat log)"
}
wrong 'bench: tasks: expected nothing after gpu' gpu tasks
wrong 'bench: --depth: expected with io and folders only' gpu --depth 3

# Times of GPUs that nobody measured are not made up.
"$dsflow" plan job.toml --set machine.gpus=1 > log 2>&1 || fault "$(cat log)"
grep -q 'times are those of cores: dsflow bench gpu' log || fault "plan: $(cat log)"

"$dsflow" bench gpu --quick > log 2>&1 || fault "bench: $(cat log)"
for link in 'main memory to a GPU' 'a GPU to main memory' 'both at once' \
    'from GPU to GPU'; do
    grep -q "^$link  *[0-9.]* GB/s$" log || fault "$link: $(cat log)"
done
for kind in qkv.forward 'qkv.forward bf16' 'head.backward_weight fp16' adam; do
    grep -q "^$kind  *[0-9.]* " log || fault "$kind: $(cat log)"
done
file=$(echo cache/dsflow/gpu-*.toml)
for line in 'kind = "gpu"' 'devices = 2' 'memory = 134217728' '\[kinds\]' \
    '\[kinds.host\]' '\[kinds.bf16\]' '\[kinds.fp16\]' 'host_link = ' \
    'name = "2 x emulated GPU, CUDA .*cuBLASLt'; do
    grep -q "^$line" "$file" || fault "$line: $(cat "$file")"
done

# With another driver it is not of this machine.
DSFLOW_EMULATED_DRIVER=99990 "$dsflow" plan job.toml --set machine.gpus=1 > log 2>&1 ||
    fault "another driver: $(cat log)"
grep -q 'times are those of cores: dsflow bench gpu' log ||
    fault "another driver: $(cat log)"

# It is found again, is a machine file as others are, and what ranks take turns at
# takes longer.
step() {
    "$dsflow" plan job.toml --json --set mesh.data=2 --set batch.groups=2 "$@" \
        2> log | sed -n 's/.*"step_seconds": *\([0-9.e-]*\).*/\1/p' | head -n 1
    [ -s log ] && fault "plan $*: $(cat log)" >&2
}
two=$(step --set machine.gpus=2)
one=$(step --set machine.gpus=1)
awk -v one="$one" -v two="$two" \
    'BEGIN { exit !(two > 0 && one > two) }' ||
    fault "predicted: $one on a GPU, $two on two"
"$dsflow" plan job.toml --machine "$file" > log 2>&1 || fault "--machine: $(cat log)"
grep -q '^machine 2 x emulated GPU' log || fault "--machine: $(cat log)"

"$dsflow" run job.toml --set machine.gpus=1 --set job.steps=5 \
    --set data.validation=0 --set 'trace.steps=[3, 4]' > log 2>&1 ||
    fault "run: $(cat log)"
grep -q '^step .* (median), predicted ' log || fault "run: $(cat log)"
"$dsflow" trace run > log 2>&1 || fault "trace: $(cat log)"
grep -q '^step .*, predicted ' log || fault "trace: $(cat log)"
finish
