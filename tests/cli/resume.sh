# resume.sh - a run that was interrupted, in any way, goes on bit for bit.
. "${srcdir:-.}/tests/cli/lib.sh"
job | sed 's/steps = 10/steps = 20/' > job.toml

run whole --set checkpoint.every=10 --set checkpoint.keep=0
[ -e whole/checkpoints/step-10/manifest.json ] || fault "no checkpoint of step 10"

# 10 steps, then 10 more. The schedule is made for 20 all the time.
run parts --set job.steps=10 --set schedule.total=20
run parts --resume
same whole parts
lines=$(grep -c '"loss"' parts/metrics.jsonl)
[ "$lines" -eq 20 ] || fault "metrics.jsonl has $lines lines of steps, not 20"

# A run that is done says so.
"$dsflow" run job.toml --set job.output=parts --resume > log 2>&1 &&
    grep -qx "all 20 steps of parts are done: --steps for more" log ||
    fault "a run that is done: $(cat log)"
same whole parts

# One that died between its last checkpoint and `latest` is done, too, and what
# asks for the latest has that one.
cp -r whole late
echo step-10 > late/checkpoints/latest
run late --resume=latest-good
grep -qx "all 20 steps of late are done: --steps for more" log || fault "a run that died late: $(cat log)"
same whole late

# Where the states and parameters are does not matter: ten steps with them on
# disks, ten with all in memory, and the other way round.
mkdir disk
nvme="--set memory.nvme.path=disk --set offload.optimizer=nvme --set offload.params=nvme \
    --set offload.piece=4KiB --set offload.read_ahead=0 --set offload.write_behind=0 \
    --set batch.order=micro_major"
"$dsflow" plan job.toml $nvme --json | grep -q '"nvme": [1-9]' ||
    fault "nothing is on the disk"
run down --set job.steps=10 --set schedule.total=20 $nvme
run down --resume
same whole down
run up --set job.steps=10 --set schedule.total=20
run up --resume $nvme
same whole up
# The same where units are in shards, which are in pieces.
mesh="--set mesh.data=2 --set zero.stage=3"
run shards $mesh
run down3 $mesh --set job.steps=10 --set schedule.total=20 $nvme
run down3 $mesh --resume --set offload.optimizer=cpu
same shards down3

# A time instead of steps: here it is over after every step. It changes no bit,
# and a long one adds nothing to what is saved at the end.
run timed --set checkpoint.every=1us --set checkpoint.keep=0
same whole timed
n=$(ls -d timed/checkpoints/step-* | wc -l)
[ "$n" -eq 20 ] || fault "$n checkpoints of 20 steps, each of which takes 1us"
run hourly --set checkpoint.every=1h --set checkpoint.keep=0
[ "$(ls hourly/checkpoints)" = "$(printf 'latest\nstep-20')" ] ||
    fault "checkpoints within the first hour: $(ls hourly/checkpoints)"
for every in 0s -1 1.5 30minutes true '[1, 2]'; do
    "$dsflow" plan job.toml --set "checkpoint.every=$every" > log 2>&1
    [ $? -eq 2 ] && grep -q 'checkpoint: every: .*: expected a whole number of steps, 0 to 1000000000, or a time such as "30min"' log ||
        fault "checkpoint.every = $every: $(cat log)"
done

# Without --resume nothing is lost.
"$dsflow" run job.toml --set job.output=parts > log 2>&1
[ $? -eq 2 ] || fault "a folder with checkpoints was accepted"
grep -q -e --resume log || fault "the message does not say --resume: $(cat log)"
same whole parts

# Ctrl-C: the step is finished, saved, and the run goes on from there.
for sig in INT TERM; do
    "$dsflow" run job.toml --set job.output=$sig --set job.steps=100000 \
        --set schedule.total=20 > log 2>&1 &
    pid=$!
    until_line '"loss"' $sig/metrics.jsonl || fault "$sig: no step: $(cat log)"
    kill -$sig $pid
    wait $pid
    status=$?
    want=$([ $sig = INT ] && echo 130 || echo 143)
    [ $status -eq "$want" ] || { fault "SIG$sig gives $status, not $want"; cat log; }
    "$dsflow" checkpoint verify $sig > log 2>&1 || { fault "SIG$sig: $(cat log)"; }
done

# kill -9 after any step: what --resume finds is whole, and the end is the same.
n=0
while [ $n -lt 6 ]; do
    "$dsflow" run job.toml --set job.output=killed --set checkpoint.every=1 \
        --resume > log 2>&1 &
    pid=$!
    until_line "\"step\":$((1 + 3 * n))," killed/metrics.jsonl
    kill -9 $pid 2> /dev/null
    wait $pid 2> /dev/null
    n=$((n + 1))
done
run killed --set checkpoint.every=1 --resume
same whole killed

# A damaged checkpoint is named, and an older one taken only when asked for.
cp -r whole damaged
printf x | dd of=damaged/checkpoints/step-20/params.safetensors bs=1 seek=5000 \
    conv=notrunc 2> /dev/null
"$dsflow" run job.toml --set job.output=damaged --resume > log 2>&1
[ $? -eq 1 ] || fault "a damaged checkpoint gives another status than 1"
grep -q "step-20/params.safetensors: damaged" log && grep -q latest-good log ||
    fault "the message about a damaged checkpoint: $(cat log)"
"$dsflow" checkpoint verify damaged > log 2>&1
[ $? -eq 1 ] || fault "verify accepts a damaged checkpoint"
run damaged --resume=latest-good
same whole damaged
finish
