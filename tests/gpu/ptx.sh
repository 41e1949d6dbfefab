#!/bin/sh
# ptx.sh - the kernels that nvcc makes for GPUs, operation by operation on cores
# (tests/gpu/ptx): tests of emulated kernels run its PTX in the place of what the
# C++ compiler makes of the same files. Faults that are put into PTX alone are
# found, so that is what runs. DSFLOW_GPU_CASES=ALL: all cases of these tests.
tests=$PWD/tests/gpu
folders=$(echo "$PWD"/src/gpu/.libs/compute_*)
top=$(cd "${srcdir:-.}" && pwd) || exit 99
. "${srcdir:-.}/tests/cli/lib.sh"
wanted=${DSFLOW_GPU_CASES-}
unset DSFLOW_GPU_CASES

# with FOLDER CASES TEST ARGS...: does it pass?
with() {
    DSFLOW_EMULATED_PTX=$1
    DSFLOW_GPU_CASES=$2
    export DSFLOW_EMULATED_PTX DSFLOW_GPU_CASES
    [ "$wanted" != ALL ] || unset DSFLOW_GPU_CASES
    shift 2
    test=$1
    shift
    "$tests/$test" "$@" > log 2>&1
}

# passes CASES TEST ARGS...
passes() {
    with "$folder" "$@" ||
        fault "$* with ${folder##*/}: $(grep -v '^\[ *\(RUN\|OK\) ' log)"
}

[ -d "${folders%% *}" ] || fault "nvcc has left no PTX: $folders"
for folder in $folders; do
    passes 6 test_same_bits
    passes 2 test_sides
    passes 0 test_rows_cuda
    if [ "$wanted" = ALL ]; then
        passes 0 test_norm_cuda
        passes 0 test_loss_cuda
        passes 0 test_attention_cuda
    else
        passes 0 test_attention_cuda whole_sequences
        passes 0 test_attention_cuda heads_of_any_width
        passes 0 test_attention_cuda windows_in_layouts
    fi
done

# changed FILE EDIT: all of the PTX in faulty/, one file of it changed.
changed() {
    rm -rf faulty
    mkdir faulty
    cp "$folder"/*.ptx faulty
    sed "$2" "$folder/$1.ptx" > "faulty/$1.ptx"
    ! cmp -s "$folder/$1.ptx" "faulty/$1.ptx" || fault "$1.ptx has no $2"
    change="$2 in $1.ptx"
}
# finds TEST ARGS...: the test fails then.
finds() {
    ! with "$here/faulty" 6 "$@" || fault "$* does not find $change"
}

changed attention_forward 's/x4.trans.shared/x4.shared/'
finds test_attention_cuda heads_of_any_width
changed lamb_cuda '/bar.sync/d'
finds test_same_bits lamb
changed lamb_cuda 's/maxntid 256/maxntid 128/'
finds test_same_bits lamb
grep -q 'blocks of 256 threads: it is compiled for 128' log ||
    fault "more threads than a kernel is compiled for: $(cat log)"
# A sum is rounded apart from its product where both say so, and only there.
apart='{ .reg .f32 p; mul.rn.f32 p, \2, \3; add.rn.f32 \1, p, \4; }'
fma='fma.rn.f32\s*\(.*\), \(.*\), \(.*\), \(.*\);'
changed update_cuda "s/$fma/$apart/"
finds test_same_bits adam
changed update_cuda "s/$fma/$(printf '%s' "$apart" | sed 's/[.]rn[.]f32/.f32/g')/"
with "$here/faulty" 6 test_same_bits adam ||
    fault "sums are not joined with products: $(cat log)"

rm faulty/lamb_cuda.ptx
! with "$here/faulty" 1 test_same_bits lamb ||
    fault "what has no PTX is said to run"
grep -q 'faulty/lamb_cuda.ptx has no void (anonymous namespace)::update<' log ||
    fault "what has no PTX is not named: $(cat log)"
finish
