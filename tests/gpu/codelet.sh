# codelet.sh - `dsflow codelet check` tries CUDA sides, on GPUs that are not there.
DSFLOW_CUDA=$PWD/tests/gpu/.libs/dsflow-cuda-emulated.so
. "${srcdir:-.}/tests/cli/lib.sh"
DSFLOW_EMULATED_LATE=20
DSFLOW_EMULATED_GUARD=0
export DSFLOW_CUDA DSFLOW_EMULATED_LATE DSFLOW_EMULATED_GUARD

# says PATTERN: is there one such line?
says() {
    [ "$(grep -Ec "$1" out)" -eq 1 ] || fault "no '$1' in: $(cat out)"
}

"$dsflow" codelet check builtin adam mlp.hidden --cases 3 > out 2>&1 ||
    fault "built-in: $(cat out)"
says '^adam +[0-9]+  ok '
says '^CUDA adam +[0-9]+  ok; the bits of cores$'
says '^mlp.hidden +6  ok '
says '^CUDA mlp.hidden +6  ok; within 0.0001 of cores in fp32, 2\^-5 in bf16, 2\^-8 in fp16$'
[ "$(grep -c . out)" -eq 5 ] || fault "other lines: $(cat out)"
DSFLOW_EMULATED_GPUS=0 "$dsflow" codelet check builtin adam --cases 1 > out 2>&1 ||
    fault "without GPUs: $(cat out)"
says "^CUDA sides were not tried: NVIDIA's driver shows no GPU$"
finish
