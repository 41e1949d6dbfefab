# compress.sh - what ranks send in fewer bytes: the numbers are others, and the
# same ones on any mesh, also after a stop, on another mesh from there on.
. "${srcdir:-.}/tests/cli/lib.sh"

four="--set batch.groups=4 --set compress.keep=0"
stop="--set job.steps=4 --set schedule.total=10"
run dense $four
for format in int8 int4; do
    coded="$four --set compress.gradients=$format --set compress.params=int8"
    run $format $coded --executor serial
    other $format dense
    run $format-4 $coded --set mesh.data=4 --set zero.stage=3
    same $format $format-4
    run $format-r $coded $stop
    run $format-r $coded --resume
    same $format $format-r
    run $format-m $coded --set mesh.data=2 --set zero.stage=3 $stop
    run $format-m $coded --set mesh.data=4 --set zero.stage=1 --resume
    same $format $format-m
done
other int8 int4

# Weights are exact in a checkpoint, so a run may go on with another format or
# other blocks, and is told what that means.
for key in gradients=bf16 params=none block=64 keep=1MiB; do
    cp -r int8-r copy
    run copy --set job.steps=11 $four --set compress.gradients=int8 \
        --set compress.params=int8 --set compress.$key --resume
    grep -q "warning: compress.${key%=*}: .* goes on from the fp32 weights" log ||
        fault "it goes on with another compress.$key: $(cat log)"
    rm -r copy
done

# What coding took from the gradients of a group is carried over, through a stop, a
# mesh of other ranks and memories, and errors of another type, which other bits
# follow from.
run g4 $four --set compress.gradients=int4
for error in fp32 int8; do
    coded="$four --set compress.gradients=int4 --set compress.error=$error"
    run e-$error $coded --executor serial
    other e-$error g4
    run e-$error-m $coded --set mesh.data=4 --set zero.stage=2 $stop
    run e-$error-m $coded --set mesh.data=2 --set zero.stage=3 \
        --set offload.gradients=cpu --resume
    same e-$error e-$error-m
done
other e-fp32 e-int8
cp -r e-fp32-m copy
run copy --set job.steps=11 $coded --resume
grep -q "warning: compress.error: fp32.* goes on from the fp32 weights" log ||
    fault "it goes on with errors in bytes: $(cat log)"
! grep -q "begin as zeroes" log || fault "errors are lost: $(cat log)"
rm -r copy
cp -r e-fp32-m copy
run copy --set job.steps=11 $coded --set batch.groups=2 --resume=changed
grep -q "has not all errors of 2 groups of micro-batches: they begin as zeroes" log ||
    fault "errors of other groups: $(cat log)"
rm -r copy
cp -r g4 copy
run copy --set job.steps=11 $coded --resume
grep -q "has not all errors of 4 groups of micro-batches: they begin as zeroes" log ||
    fault "errors that were not kept: $(cat log)"
rm -r copy

# On both levels: the error of a node's sum is with one rank, or two have halves.
coded="$four --set compress.gradients=int4 --set compress.error=int8"
run n $coded --set compress.node=2 --executor serial
other n e-int8
run n-m $coded --set compress.node=2 --set mesh.data=4 --set zero.stage=2 $stop
run n-m $coded --set compress.node=2 --set mesh.data=2 --set zero.stage=3 \
    --set offload.gradients=cpu --resume
same n n-m
cp -r e-int8-m copy
run copy --set job.steps=11 $coded --set compress.node=2 --resume
grep -q "has not all errors of sums of 2 nodes: they begin as zeroes" log ||
    fault "errors of sums that were not kept: $(cat log)"
! grep -q "has not all errors of 4 groups" log || fault "errors are lost: $(cat log)"
rm -r copy

# What a step sends, by kind of task and by wire, is the same to the byte in the
# plan, in a trace and in the metrics; and so is what it would be dense.
traffic() {
    tr -d ' \n' |
        grep -o '"[a-z_]*":{"\(inside\|between\)":{[^{}]*}\(,"between":{[^{}]*}\)\?}' |
        grep -v '^"traffic"' | sed 's/,"ratio":[^}]*//g' | sort
}

coded="$four --set mesh.data=4 --set zero.stage=2 --set compress.gradients=int8"
run traced $coded --set compress.params=int4 --trace
"$dsflow" plan job.toml $coded --set compress.params=int4 --json 2> log |
    traffic > planned
"$dsflow" trace traced --json 2> log | traffic > in-trace
grep '"traffic"' traced/metrics.jsonl | tail -n 1 | traffic > in-metrics
for kind in add_compressed decompress all; do
    grep -q "^\"$kind\":" planned || fault "no traffic of $kind: $(cat planned)"
done
cmp planned in-trace || fault "the trace says $(cat in-trace): $(cat planned)"
cmp planned in-metrics || fault "metrics say $(cat in-metrics): $(cat planned)"
# Its blocks of numbers are short, and its vectors many.
awk -F'[:,}]' '/add_compressed/ && !($6 / $4 > 2.5 && $6 / $4 < 4) {
        print "add_compressed: " $4 " bytes, dense " $6; wrong = 1 }
    END { exit wrong }' planned || fault "int8 is no quarter: $(cat planned)"

# A key that does nothing is warned of.
"$dsflow" plan job.toml --set compress.block=64 > /dev/null 2> err
grep -q "compress: block: has no effect" err || fault "no warning: $(cat err)"
finish
