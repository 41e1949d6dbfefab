# same.sh - a run writes the same bytes whatever runs it.
. "${srcdir:-.}/tests/cli/lib.sh"

run serial --executor serial
for workers in 1 2 3; do
    run w$workers --set machine.workers=$workers
    same serial w$workers
done
schedulers=$("$dsflow" plan job.toml --set machine.scheduler=fifo 2>&1 | sed -n 's/.*one of //p' | tr -d ,)
for scheduler in $schedulers; do
    run s-$scheduler --set machine.workers=2 --set machine.scheduler=$scheduler
    same serial s-$scheduler
done

# More workers than cores: a warning that names the line, and the same bytes.
for scheduler in lws random; do
    run many-$scheduler --set machine.workers=120 --set machine.scheduler=$scheduler
    grep -Eq "^dsflow: warning: --set: machine: workers: 120: this machine has [0-9]+ cores?: " log ||
        fault "120 workers are not warned of: $(cat log)"
    same serial many-$scheduler
done
"$dsflow" plan job.toml > log 2>&1
grep -q "workers:" log && fault "workers that are auto are warned of: $(cat log)"

# A virtual device, under a scheduler that puts tasks anywhere, with what is kept
# in main memory, and with too little memory.
run virtual --set machine.workers=1 --set machine.virtual=1
same serial virtual
run random --set machine.workers=2 --set machine.virtual=1 \
    --set machine.scheduler=random --set offload.optimizer=cpu
same serial random
if "$dsflow" run job.toml --set job.output=small --set machine.virtual=1 \
    --set machine.virtual_memory=64KiB > log 2>&1; then
    fault "64 KiB are enough for a device"
fi
tail -n 1 log | grep -Eq "^dsflow: machine: virtual_memory: device 0: [0-9.]+ MiB for the tensors of rank 0: 64.0 KiB of 64.0 KiB are free$" ||
    fault "a device that is too small: $(tail -n 1 log)"

# How many micro-batches are kept, and the rings, change nothing either.
run flight --set batch.in_flight=1 --set machine.workers=2
same serial flight

# Another order of sums is another result: the comparison can fail.
run tile --set batch.tile=16 --executor serial
if cmp -s serial/checkpoints/step-10/params.safetensors \
    tile/checkpoints/step-10/params.safetensors; then
    fault "tiles of 16 give the bytes of tiles of 48"
fi
for kind in "batch.tile=16" "batch.groups=4" "model.family=llama" \
    "optimizer.kind=lion" "optimizer.kind=sgd" "optimizer.kind=adagrad" "optimizer.kind=lamb" \
    "optimizer.kind=muon" \
    "optimizer.clip=0.0"; do
    rm -rf a b
    run a --executor serial --set $kind
    run b --set machine.workers=2 --set $kind
    same a b
done
finish
