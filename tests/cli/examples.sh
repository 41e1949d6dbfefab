# examples.sh - examples/plugins from an installed dsflow, in another folder, with
# nothing but pkg-config: built, checked, trained with, resumed, on a mesh.
. "${srcdir:-.}/tests/cli/lib.sh"
build=$OLDPWD
source=$(cd "$build" && cd "${srcdir:-.}" && pwd)

# As `make install` leaves it, under a folder of this test.
MAKEFLAGS= MAKELEVEL= make -C "$build" -s install DESTDIR="$here/root" \
    > log 2>&1 || { cat log; exit 1; }
pc=$(find root -name dsflow.pc)
[ -n "$pc" ] || { echo "no dsflow.pc in $(find root | head)"; exit 1; }
prefix=$(sed -n 's/^prefix=//p' "$pc")
PKG_CONFIG_PATH=$here/$(dirname "$pc")
PKG_CONFIG_LIBDIR=$PKG_CONFIG_PATH
PKG_CONFIG_SYSROOT_DIR=$here/root
export PKG_CONFIG_PATH PKG_CONFIG_LIBDIR PKG_CONFIG_SYSROOT_DIR
dsflow=$here/root$prefix/bin/dsflow
[ -x "$dsflow" ] || { echo "no $dsflow"; exit 1; }
# Whoever starts it: nothing is looked for in the folder of who built it.
for file in "$dsflow" "$here/root$prefix"/lib/libdsflow.so; do
    readelf -d "$file" | grep -E 'R(UN)?PATH' && fault "$file has a path"
done

mkdir plugins
cp "$source"/examples/plugins/* plugins && chmod -R u+w plugins
cd plugins || exit 99
MAKEFLAGS= MAKELEVEL= make CC=gcc CFLAGS="-O2 -Wall -Wextra -Werror \
    -Wno-unused-parameter -Wno-sign-compare \
    -Wno-missing-field-initializers" > log 2>&1 ||
    { cat log; exit 1; }
for c in *.c; do
    [ "$(wc -l < "$c")" -lt 170 ] || fault "$c has $(wc -l < "$c") lines"
done

for name in clip attention gated_norm muon schedule average; do
    "$dsflow" codelet check ./lib$name.so --cases 12 > log 2>&1 ||
        fault "codelet check of $name: $(cat log)"
    grep -q "  ok" log || fault "$name: nothing was checked: $(cat log)"
done

# With nvcc, the CUDA side is in it: tests/gpu/codelet.sh tries it.
if command -v nvcc > /dev/null; then
    "$dsflow" list codelets ./libclip.so | grep -q '^unit_clip .*cpu cuda' ||
        fault "clip has no CUDA side: $("$dsflow" list codelets ./libclip.so)"
fi

# train JOB OUTPUT ARGS...: six steps of an example.
train() {
    job=$1 out=$2
    shift 2
    "$dsflow" run "$job.toml" --set job.output="$out" --set job.steps=6 \
        --set data.train=../text.txt --set job.log_every=1 "$@" > log 2>&1 ||
        { fault "dsflow run $job.toml $*: $(cat log)"; exit 1; }
}

# losses RUN: the loss of each step.
losses() {
    sed -n 's/.*"loss": *\([0-9.e+-]*\).*/\1/p' "$1/metrics.jsonl"
}

# The tutorial's program: its pieces in their order, the last of them, a policy,
# before the object that lists them; and its job.
awk '/^```c$/ { n++; on = 1; next } /^```/ { on = 0 } on { print > "piece" n }' \
    "$source/docs/writing-a-codelet.md"
sed 's/^    .codelets = codelets,$/&\n    .policies = policies,/' piece4 > piece6
cat piece1 piece2 piece3 piece5 piece6 > centralize.c
awk '/^```toml$/ { on = 1; next } /^```/ { on = 0 } on' \
    "$source/docs/writing-a-codelet.md" > centralize.toml
gcc -O2 -Wall -shared -fPIC -o libcentralize.so centralize.c \
    $(pkg-config --cflags dsflow) || fault "the tutorial's program"
"$dsflow" codelet check libcentralize.so > log 2>&1 &&
    grep -q "^policy centralize  *3  ok" log || fault "tutorial: $(cat log)"

# One that needs no plug-in, to compare with.
grep -v plain attention.toml | sed '/^\[codelets\]/,+1d' > plain.toml
train plain plain

# A task: it is in the graph, and clipping that bites changes the numbers.
train clip clip
"$dsflow" plan clip.toml --set data.train=../text.txt --dot > clip.dot
grep -q unit_clip clip.dot || fault "clip: no such task in the graph"
train clip loose --set unit_clip.norm=1000000
train plain free --set optimizer.clip=0
same loose free
train clip tight --set unit_clip.norm=0.001
losses tight > a
losses free > b
cmp -s a b && fault "clip: clips nothing"

train centralize centralize
losses centralize > a
losses plain > b
cmp -s a b && fault "the tutorial's task does nothing"

# A segment: the same loss as that of the built-in one.
train attention attention
losses attention > a
losses plain > b
[ "$(grep -c . a)" -ge 6 ] || fault "attention: $(cat a)"
paste a b | awk '($1 - $2) ^ 2 > 1e-10 * $2 ^ 2 { bad = 1; print } END { exit bad }' ||
    fault "attention: other losses than the built-in one"
"$dsflow" checkpoint export attention attention-hf > log 2>&1 &&
    grep -q 'cannot say model.attention = "plain"' log ||
    fault "attention: export says nothing: $(cat log)"
"$dsflow" plan attention.toml --set data.train=../text.txt --dot > log
grep -q plain.backward_input log || fault "attention: is not in the graph"

# A segment of its own: the same bits with its layers in stages, recomputed and
# shared out; near them in parts. It generates, and goes on.
train gated_norm gated --set batch.groups=2
train gated_norm gated_shards --set batch.groups=2 --set mesh.data=2 \
    --set zero.stage=3 --set zero.keep=0 --set recompute.what=block
same gated gated_shards
train gated_norm gated_stages --set batch.groups=2 --set mesh.pipeline=2 \
    --set job.steps=3
train gated_norm gated_stages --set batch.groups=2 --resume
same gated gated_stages
train gated_norm gated_parts --set batch.groups=2 --set mesh.tensor=2
losses gated > a
losses gated_parts > b
paste a b | awk '($1 - $2) ^ 2 > 1e-10 * $2 ^ 2 { bad = 1; print } END { exit bad }' ||
    fault "gated_norm: other losses in parts"
"$dsflow" generate gated --prompt "a" --tokens 8 > log 2>&1 ||
    fault "gated_norm: generate: $(cat log)"
"$dsflow" checkpoint export gated hf > log 2>&1 &&
    grep -q "transformer.h.1.gated_norm.weight" hf/model.safetensors ||
    fault "gated_norm: export: $(cat log)"
grep -q "cannot say that layers are of qkv, attention, out, gated_norm, mlp" log ||
    fault "gated_norm: export says nothing: $(cat log)"
"$dsflow" plan gated_norm.toml --set data.train=../text.txt \
    --set activations.quantize=symmetric > log 2>&1 &&
    fault "gated_norm: its inputs are not rounded, and nobody says so"
grep -q 'activations: quantize: "symmetric": expected none with the segment "gated_norm" of a plug-in, whose inputs nobody rounds$' log ||
    fault "gated_norm: $(cat log)"
"$dsflow" run gated_norm.toml --set job.output=gated --resume --set job.steps=7 \
    --set data.train=../text.txt --set batch.groups=2 \
    --set 'model.segments=["qkv", "attention", "out", "mlp"]' > log 2>&1 &&
    fault "gated_norm: goes on without its segment"
grep -q "model.segments" log || fault "gated_norm: without it: $(cat log)"
train gated_norm from_gated --set model.init=gated
"$dsflow" run plain.toml --set job.output=left --set model.init=gated \
    --set data.train=../text.txt > log 2>&1 &&
    fault "gated_norm: its weights are left out"
grep -q "model: segments: .*: the layers of gated are qkv, attention, out, gated_norm, mlp" log ||
    fault "gated_norm: its weights are left out: $(cat log)"

# A program: every fifth step has tasks of its own, and no bit of the training
# depends on it, nor does the mesh make a difference.
# alike RUN RUN: the same parameters; of the states, the average is beside them.
alike() {
    cmp "$1/checkpoints/step-6/params.safetensors" \
        "$2/checkpoints/step-6/params.safetensors" ||
        fault "$1 and $2 have other parameters"
}
train average average --trace=all
train plain beside
alike beside average
train average often --set average.every=1 --executor serial
alike beside often
train average pieces --set job.steps=4
train average pieces --resume
same pieces average
train plain two --set mesh.data=2 --set batch.groups=2
train average shards --set mesh.data=2 --set batch.groups=2 --set zero.stage=2
alike two shards
train average tiers --set mesh.pipeline=2 --set offload.optimizer=cpu \
    --set offload.params=cpu
alike beside tiers
grep -q '"step":5,.*"program":"average"' pieces/metrics.jsonl ||
    fault "average: a run that goes on has no program average in step 5"
programs=$(sed -n 's/^{"step":\([0-9]*\),"loss".*"program":"\(.*\)".*/\1 \2/p' \
    average/metrics.jsonl)
[ "$programs" = "5 average" ] || fault "average: metrics.jsonl has '$programs'"
grep -q '"program"' plain/metrics.jsonl && fault "a program in metrics.jsonl"
"$dsflow" plan average.toml --set data.train=../text.txt > log
grep -q "^average .* steps 5, 10, …$" log && grep -q "^step .* all other steps$" log &&
    grep -q "^eval .* validations$" log || fault "average: the plan says $(cat log)"
"$dsflow" trace average > log || fault "trace of average: $(cat log)"
grep -q "^1 step ran the program average: not counted here" log ||
    fault "average: the trace says $(head -8 log)"
"$dsflow" trace average --chrome - > log && grep -q '"step 5 (average)"' log &&
    grep -q '"name":"average' log || fault "average: no step 5 in the trace"
train average first --set mesh.data=2 --set batch.groups=2 --set zero.stage=3 \
    --set recompute.what=block
alike two first
# The average is kept: checkpoints have it, whatever the mesh, and a run goes on
# with it.
states=checkpoints/step-6/states.safetensors
train average mean_kept --set average.every=2 --set batch.groups=2
train average mean_parts --set average.every=2 --set mesh.data=2 \
    --set batch.groups=2 --set zero.stage=1 --set job.steps=4
train average mean_parts --set average.every=2 --set batch.groups=2 --resume
cmp mean_kept/$states mean_parts/$states || fault "average: it is lost"
grep -q "average.layer0.qkv" mean_kept/$states || fault "average: it is not saved"
train average mean_tensor --set mesh.tensor=2 --set average.every=1
grep -q "average.layer0.qkv" mean_tensor/$states || fault "average: in parts, lost"

# A schedule of its own: the same bits.
train plain ones --set batch.micro=1
train schedule schedule
same schedule ones
train schedule narrow --set waves.size=1
same narrow ones

# An optimizer: it trains, resumes, and is the same on any mesh.
train muon muon --set batch.groups=2
losses muon | awk 'NR == 1 { first = $1 } { last = $1 }
    END { exit !(last < first - 0.1) }' || fault "muon: $(losses muon)"
train muon parts --set batch.groups=2 --set job.steps=3
train muon parts --set batch.groups=2 --resume
same parts muon
train muon stages --set batch.groups=2 --set mesh.pipeline=2
same stages muon
train muon shared --set batch.groups=2 --set mesh.data=2 --set zero.stage=1
same shared muon
for python in python3 /usr/bin/python3; do
    $python -c 'import torch' 2> /dev/null || continue
    # In a program that is not dsflow, what a plug-in calls is in libdsflow. A
    # sanitizer's library is not for a program without it.
    gcc -O2 -shared -fPIC -o alone.so muon.c \
        $(pkg-config --cflags --libs dsflow) -lm || fault "muon with libdsflow"
    LD_LIBRARY_PATH=$here/root$prefix/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} \
        $python "$source/tests/cli/muon.py" ./alone.so > log 2>&1 ||
        grep -q "asan\|ubsan\|tsan\|ASan\|Sanitizer" log ||
        fault "muon beside PyTorch: $(cat log)"
    cat log
    break
done
finish
