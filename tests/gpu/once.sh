# once.sh - the first job on GPUs that are not there measures them, and says so; the
# next ones know them. Where it would be wrong, or is not wanted, nothing is measured.
DSFLOW_CUDA=$PWD/tests/gpu/.libs/dsflow-cuda-emulated.so
. "${srcdir:-.}/tests/cli/lib.sh"
known=${XDG_CACHE_HOME:-${HOME:-/nowhere}/.cache}/dsflow/machine.toml
XDG_CACHE_HOME=$here/cache
DSFLOW_EMULATED_GPUS=1
DSFLOW_EMULATED_GUARD=0
DSFLOW_EMULATED_MEMORY=0x8000000 # copies of 8 MiB
export DSFLOW_CUDA XDG_CACHE_HOME DSFLOW_EMULATED_GPUS DSFLOW_EMULATED_GUARD \
    DSFLOW_EMULATED_MEMORY
unset DSFLOW_MEASURE_GPUS
mkdir -p cache/dsflow
[ -r "$known" ] && cp "$known" cache/dsflow # cores need not be measured again

# ran OUTPUT ARGS...: on GPUs; the log stays.
ran() {
    out=$1
    shift
    "$dsflow" run job.toml --set job.output="$out" --set job.steps=3 \
        --set machine.gpus=auto "$@" > log 2>&1 || fault "run $out: $(cat log)"
}

# unmeasured OUTPUT ARGS...: nothing is measured, and nothing predicted.
unmeasured() {
    ran "$@"
    grep -q 'measuring the GPU' log && fault "run $*: $(cat log)"
    grep -q '(median), predicted ' log && fault "run $*: $(cat log)"
    ls cache/dsflow/gpu-*.toml > list 2>&1 && fault "run $*: there is $(cat list)"
}
DSFLOW_MEASURE_GPUS=no unmeasured forbidden --trace
"$dsflow" trace forbidden > log 2>&1 || fault "trace: $(cat log)"
grep -q 'does not say how fast its machine is' log || fault "trace: $(cat log)"
DSFLOW_EMULATED_GPUS=2 unmeasured one-of-two

ran first
grep -q 'measuring the GPU, once: this takes some seconds' log || fault "first: $(cat log)"
grep -q '^step .* (median), predicted ' log || fault "first: $(cat log)"
file=$(echo cache/dsflow/gpu-*.toml)
for line in 'kind = "gpu"' 'devices = 1' '\[kinds\]' '\[kinds.host\]'; do
    grep -q "^$line" "$file" || fault "$line: $(cat "$file")"
done
grep -q '^\[kinds.bf16\]' "$file" && fault "a type that nobody asked for: $(cat "$file")"

# A type is added when a job asks for it; what there was, stays.
sed -n '/^\[kinds\]/,/^$/p' "$file" > before
ran in-bf16 --set precision.compute=bf16
grep -q 'measuring the GPU in bf16, once' log || fault "bf16: $(cat log)"
grep -q '^\[kinds.bf16\]' "$file" || fault "bf16: $(cat "$file")"
grep '^"qkv' before > rates
[ -s rates ] || fault "no rates in fp32: $(cat before)"
grep -q -F -f rates "$file" || fault "other rates in fp32: $(cat "$file")"

# And from then on nothing is.
ran again --set precision.compute=bf16
grep -q measuring log && fault "measured again: $(cat log)"
grep -q '^step .* (median), predicted ' log || fault "again: $(cat log)"
"$dsflow" plan job.toml --set machine.gpus=auto > log 2>&1 || fault "plan: $(cat log)"
grep -q 'measuring\|times are those of cores' log && fault "plan: $(cat log)"

# What would make a step shorter is simulated with what was measured, also of
# ranks that share a GPU.
for keys in offload.optimizer=cpu mesh.data=2; do
    ran traced --overwrite --set $keys --trace
    "$dsflow" trace traced --json > trace.json || fault "trace: $?"
    grep -q '"missing": *null' trace.json || fault "$keys: $(cat trace.json)"
    grep -q '"reproduced": *[0-9]' trace.json || fault "$keys: $(cat trace.json)"
done
finish
