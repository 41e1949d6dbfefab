# metrics.sh - metrics.jsonl is whole on every line, whatever ended the run, and
# has every step once.
. "${srcdir:-.}/tests/cli/lib.sh"

# whole FILE: every line is an object of JSON, the last one too.
whole() {
    grep -vn '^{"step":[0-9]*,.*} *$' "$1" && fault "$2: lines of $1 that are not whole"
    [ ! -s "$1" ] || [ -z "$(tail -c 1 "$1")" ] || fault "$2: $1 ends in a line"
    if command -v python3 > /dev/null; then
        python3 -c 'import json, sys
for line in open(sys.argv[1]): json.loads(line)' "$1" || fault "$2: $1 is no JSON"
    fi
}

# steps FILE N: it has steps 1 to N, each once, in order.
steps() {
    sed -n 's/^{"step":\([0-9]*\),"loss".*/\1/p' "$1" > got
    i=0
    while [ $i -lt "$2" ]; do
        i=$((i + 1))
        echo $i
    done | cmp - got || fault "$1 has not steps 1 to $2 once"
}

run run --set validation.every=5
whole run/metrics.jsonl "a run"
steps run/metrics.jsonl 10
for key in step loss lr grad_norm loss_scale skipped tokens seconds \
    tokens_per_second efficiency share forward backward update move idle \
    peak_bytes device cpu nvme bytes gather reduce send swap_in swap_out \
    io_seconds io_hidden; do
    head -n 1 run/metrics.jsonl | grep -q "\"$key\":" || fault "no $key: $(head -n 1 run/metrics.jsonl)"
done
tail -n 1 run/metrics.jsonl | grep -q '"ended":"finished"' || fault "no last line"

# For TensorBoard too, unless that is not wanted.
ls run/tensorboard/events.out.tfevents.* > /dev/null || fault "no event file"
run plain --set trace.tensorboard=false
[ ! -e plain/tensorboard ] || fault "an event file that nobody wanted"

# Where standard files are closed, what is said goes into no file of the run.
"$dsflow" run job.toml --set job.output=closed 2>&- > log || fault "stderr is closed: $?"
whole closed/metrics.jsonl "stderr is closed"
rm -r closed
"$dsflow" run job.toml --set job.output=closed <&- >&- 2>&- || fault "all are closed: $?"
whole closed/metrics.jsonl "all are closed"
"$dsflow" checkpoint verify closed > log 2>&1 || fault "all are closed: $(cat log)"

# A run that is refused leaves those of the one before.
cp run/metrics.jsonl before
"$dsflow" run job.toml > log 2>&1 && fault "a folder with checkpoints was accepted"
cmp before run/metrics.jsonl || fault "a run that was refused changed metrics.jsonl"

# kill -9 in the middle of a step, each time of a later one, then on.
n=0
while [ $n -lt 12 ]; do
    "$dsflow" run job.toml --set job.output=killed --set job.steps=4000 \
        --set checkpoint.every=50 --resume > log 2>&1 &
    pid=$!
    until_line "\"step\":$((1 + 23 * n))," killed/metrics.jsonl ||
        fault "kill $n: the run ended by itself: $(cat log)"
    kill -9 $pid 2> /dev/null
    wait $pid 2> /dev/null
    [ ! -e killed/metrics.jsonl ] || whole killed/metrics.jsonl "kill $n"
    n=$((n + 1))
done
last=$(sed -n 's/^{"step":\([0-9]*\),"loss".*/\1/p' killed/metrics.jsonl | tail -n 1)
[ "${last:-0}" -gt 0 ] || fault "no run was killed while it made steps"
# What only a machine that crashes can leave.
printf '{"step":%d,"loss":1.2' $((last + 1)) >> killed/metrics.jsonl
run killed --set job.steps=$((last + 60)) --set schedule.total=4000 \
    --set checkpoint.every=50 --resume
whole killed/metrics.jsonl resumed
steps killed/metrics.jsonl $((last + 60))
[ "$(grep -c ended killed/metrics.jsonl)" -eq 1 ] || fault "more than one end"

# No room for a line: one message, and whole lines.
run full --set checkpoint.at_end=false
(ulimit -f 64 && "$dsflow" run job.toml --set job.output=full --set job.steps=4000 \
    --set checkpoint.at_end=false) > log 2>&1
[ $? -eq 1 ] || { fault "no room: status $?"; cat log; }
grep -q "^dsflow: full/metrics.jsonl: cannot be written: .*; there is no checkpoint yet$" log ||
    { fault "no room, and not said"; cat log; }
whole full/metrics.jsonl full

# With what there is to go on from.
run full --overwrite --set job.steps=1 --set schedule.warmup=0
(ulimit -f 64 && "$dsflow" run job.toml --set job.output=full --resume --set job.steps=4000 \
    --set schedule.warmup=0 --set checkpoint.at_end=false) > log 2>&1
[ $? -eq 1 ] && grep -q "^dsflow: full/metrics.jsonl: cannot be written: .*; the last checkpoint is of step 1, in full$" log ||
    fault "no room, and a checkpoint: $(cat log)"

# The tokens, which are mapped, are cut short under a run.
"$dsflow" run job.toml --set job.output=short --set job.steps=400000 \
    --set checkpoint.every=5 > log 2>&1 &
pid=$!
until_line '"step":7,' short/metrics.jsonl || fault "no steps: $(cat log)"
for cache in short/cache/tokens-*.bin; do : > "$cache"; done
wait $pid
[ $? -eq 1 ] || { fault "tokens that were cut short: status $?"; cat log; }
grep -q "^dsflow: bus error: a file that is mapped was cut short, or its disk failed or is full; the last checkpoint is of step [0-9]*$" log ||
    { fault "tokens were cut short, and not said"; cat log; }
whole short/metrics.jsonl short
finish
