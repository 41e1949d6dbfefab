# room.sh - a run that could not be saved is refused before its first step.
. "${srcdir:-.}/tests/cli/lib.sh"

# What a checkpoint takes is known to the byte before there is one.
for keys in "model.family=gpt2" "model.family=llama" "optimizer.kind=lion" \
    "optimizer.kind=sgd" "mesh.data=2"; do
    rm -rf exact
    "$dsflow" -v run job.toml --set job.output=exact --set job.steps=1 \
        --set schedule.kind=constant --set schedule.warmup=0 --set $keys \
        > log 2>&1 || { fault "$keys"; cat log; }
    is=$(cd exact/checkpoints/step-1 &&
        echo $(wc -c < params.safetensors) and $(wc -c < states.safetensors))
    grep -q "files of $is bytes" log ||
        fault "$keys: a checkpoint has $is bytes: $(grep 'files of' log)"
done

# refused WHAT: ended with 2, one line, and no graph, cache or step.
refused() {
    status=$?
    [ $status -eq 2 ] || fault "$1: ends with $status, not 2"
    [ "$(grep -c '^dsflow: ' log)" -eq 1 ] || fault "$1: $(cat log)"
    grep -q "step" log && fault "$1: there was a step: $(cat log)"
    [ ! -s small/metrics.jsonl ] || fault "$1: there are metrics"
}

# Files that may not be so large: 8 blocks of at most 1 KiB.
(ulimit -f 8 && exec "$dsflow" run job.toml --set job.output=small) > log 2>&1
refused "ulimit -f"
grep -q "small: a checkpoint has a file of .* KiB and files may have .* KiB here: raise the limit (ulimit -f)" log ||
    fault "ulimit -f: $(cat log)"

# That all are kept is said once.
run kept --set checkpoint.keep=0 --set 'checkpoint.every="30min"'
[ "$(grep -c "checkpoint.keep = 0 keeps every checkpoint" log)" -eq 1 ] || fault "keep = 0: $(cat log)"

# A file system with room for half a checkpoint, where one can be made.
cat > mounted.sh <<'EOF'
mount -t tmpfs -o size=$1 none small 2> /dev/null || exit 77
shift
exec "$@"
EOF
mkdir -p small
bytes=$(cat exact/checkpoints/step-1/*.safetensors | wc -c)
on() {
    size=$1
    shift
    unshare -rm sh mounted.sh $size "$dsflow" run job.toml "$@" \
        --set job.output=small/run > log 2>&1
}
if unshare -rm sh mounted.sh 1m true 2> /dev/null; then
    on $((bytes / 2))
    refused "half a checkpoint"
    grep -q "job: output: small/run: a checkpoint needs .* and .* are free there: set job.output" log ||
        fault "half a checkpoint: $(cat log)"
    on $((2 * bytes)) --set checkpoint.every=1
    refused "two checkpoints of three"
    grep -q "the checkpoints need .* (3 of .* at a time, with checkpoint.keep = 2) and .* are free there" log ||
        fault "two checkpoints of three: $(cat log)"
    on $((5 * bytes)) --set checkpoint.every=1 ||
        fault "room for five checkpoints: $(cat log)"
    on $((5 * bytes)) --set checkpoint.every=1 --set checkpoint.keep=0
    [ "$(grep -c "checkpoint.keep = 0 keeps all 10 checkpoints" log)" -eq 1 ] ||
        fault "room for half of them: $(cat log)"
else
    echo "no file system can be mounted here"
fi

# A long job that saves at its end only says so at the start.
long() {
    "$dsflow" run job.toml --set job.output=long --set job.steps=1000000000 \
        --set schedule.total=20 --overwrite "$@" > log 2>&1 &
    pid=$!
    until_line '"loss"' long/metrics.jsonl || fault "$*: no step: $(cat log)"
    kill -9 $pid
    wait $pid 2> /dev/null
    rm -rf long
}
long
grep -q "job.toml: checkpoint: every: the run takes about .* (predicted) and nothing is saved before its end: a time such as \"30min\" saves more often" log ||
    fault "a long job that is saved at its end only: $(cat log)"
long --set checkpoint.every=900000000
grep -q "checkpoint: every: the first checkpoint takes about" log ||
    fault "a long job that is saved late: $(cat log)"
for every in 1000 30min; do
    long --set checkpoint.every=$every
    ! grep -q "checkpoint: every" log || fault "every $every: $(cat log)"
done
grep -q "checkpoint" log && fault "a job that is saved often: $(cat log)"
finish
