# codelet.sh - `dsflow codelet check` tries CUDA sides, on GPUs that are not there.
libs=$PWD/tests/gpu/.libs
DSFLOW_CUDA=$libs/dsflow-cuda-emulated.so
. "${srcdir:-.}/tests/cli/lib.sh"
source=$(cd "$OLDPWD" && cd "${srcdir:-.}" && pwd)
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
# With windows, layouts and keys of several tiles, too.
"$dsflow" codelet check builtin attention.forward attention.backward_input --cases 8 \
    > out 2>&1 || fault "attention: $(cat out)"
says '^CUDA attention.forward +16  ok; within '
says '^CUDA attention.backward_input +16  ok; within '
DSFLOW_EMULATED_GPUS=0 "$dsflow" codelet check builtin adam --cases 1 > out 2>&1 ||
    fault "without GPUs: $(cat out)"
says "^CUDA sides were not tried: NVIDIA's driver shows no GPU$"

# plugin NAME FILE: FILE.c with the kernels of FILE.cu, emulated.
plugin() {
    ${CXX:-c++} -x c++ -std=c++17 -O1 -ffp-contract=off -fPIC -c -o "$1.o" \
        -I "$source/tests/gpu/emulation/plugin" -I "$source/src" \
        -I "$source/tests/gpu/emulation" -I "$source/include" "$2.cu" &&
        ${CC:-cc} -DHAVE_CUDA -shared -fPIC -I "$source/include" -o "lib$1.so" \
            "$2.c" "$1.o" "$DSFLOW_CUDA" -Wl,-rpath,"$libs" -lm ||
        { echo "$2.cu: cannot be built"; exit 1; }
}

# Every fault of a CUDA side has a line, and the seed in it repeats it.
plugin bad "$source/tests/gpu/bad_cuda"
"$dsflow" codelet check ./libbad.so > out 2> err
[ $? -eq 1 ] || fault "faults: the status is not 1: $(cat err)"
says '^CUDA good +16  ok; '
says '^CUDA good_update +[0-9]+  ok; '
case_1='\(in 77 fp32, out 77 fp32, sum 1 fp32; --seed 1 --cases 1\)$'
says "^CUDA bad_row +0  FAULT   does not write port out, element 76 $case_1"
says "^CUDA bad_past +0  FAULT   writes 4 bytes past the end of port out $case_1"
says "^CUDA bad_before +0  FAULT   writes 4 bytes before the beginning of port out $case_1"
says "^CUDA bad_sum +0  FAULT   differs from its CPU side in port sum, element 0: .* $case_1"
says "^CUDA bad_order +[0-9]+  FAULT   (is not the same twice|differs from its CPU side|differs at other addresses).* --seed [0-9]+ --cases 1\)$"
says "^CUDA bad_barrier +0  FAULT   fails: .*bad_cuda.cu:[0-9]+: .*: waits at a barrier that 32 of 64 threads reach $case_1"
says "^CUDA bad_scratch +0  FAULT   writes 4 bytes past the end of its scratch $case_1"
says "^CUDA bad_launch +0  FAULT   fails: invalid configuration argument $case_1"
says "^CUDA bad_place +0  FAULT   fails: a kernel: main memory that is not pinned $case_1"
says "^CUDA bad_skip +0  FAULT   writes port param although the control says skip .*"
[ "$(grep -c FAULT out)" -eq 10 ] || fault "other faults: $(grep FAULT out)"
grep '^CUDA bad_order' out > expected
"$dsflow" codelet check ./libbad.so bad_order --cases 1 \
    --seed "$(sed 's/.*--seed \([0-9]*\) .*/\1/' expected)" | grep '^CUDA bad_order' > again
sed 's/.*FAULT//' expected > a
sed 's/.*FAULT//' again > b
cmp a b || fault "the seed does not repeat it: $(cat expected again)"
DSFLOW_CUDA=no "$dsflow" codelet check ./libbad.so > out 2>&1 || fault "on cores: $(cat out)"
says '^CUDA sides were not tried: DSFLOW_CUDA=no$'

# The tutorial's CUDA side, in its program (tests/cli/examples.sh has that without).
text=$source/docs/writing-a-codelet.md
awk '/^```c$/ { n++; on = 1; next } /^```/ { on = 0 } on { print > "piece" n }' "$text"
awk '/^```cuda$/ { on = 1; next } /^```/ { on = 0 } on' "$text" > centralize.cu
cat piece[1-4] | sed '/^static const struct dsflow_codelet codelet = {$/i \
const char *centralize_cuda(const struct dsflow_call *call, void *stream);
    s/^    .cpu = centralize,$/&\n    .cuda = centralize_cuda,/' > centralize.c
plugin centralize ./centralize
"$dsflow" codelet check ./libcentralize.so > out 2>&1 || fault "tutorial: $(cat out)"
says '^CUDA centralize +16  ok; '

# The example with a CUDA side: on GPUs with it and without it, the same run.
cp "$source"/examples/plugins/clip.* .
plugin clip ./clip
${CC:-cc} -shared -fPIC -I "$source/include" -o libcores.so clip.c -lm || exit 1
"$dsflow" codelet check ./libclip.so --cases 6 > out 2>&1 || fault "clip: $(cat out)"
says '^CUDA unit_clip +6  ok; '
clip="--set job.steps=2 --set batch.sequences=1 --set model.layers=1 --set data.validation=0 --set machine.gpus=1 --set unit_clip.norm=0.001"
# shellcheck disable=SC2086 # words
run cores --set 'codelets.load=["./libcores.so"]' $clip
grep -Eq 'on cores, as they have no CUDA side: unit_clip: ' log ||
    fault "without a CUDA side: $(cat log)"
# shellcheck disable=SC2086 # words
run gpu --set 'codelets.load=["./libclip.so"]' $clip
grep 'on cores' log && fault "with a CUDA side: cores do some of it"
same cores gpu
# shellcheck disable=SC2086 # words
run loose --set 'codelets.load=["./libclip.so"]' $clip --set unit_clip.norm=100
cmp -s gpu/checkpoints/step-2/params.safetensors \
    loose/checkpoints/step-2/params.safetensors && fault "nothing is clipped"
finish
