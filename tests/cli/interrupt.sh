# interrupt.sh - a signal is answered at once, nothing is lost by it, and what it
# leaves goes on.
. "${srcdir:-.}/tests/cli/lib.sh"
job | sed 's/^steps = .*/steps = 300/; s/^log_every.*/log_every = 1/' > job.toml

# start OUTPUT ARGS...: a run in the background, which says into OUTPUT.log.
start() {
    out=$1
    shift
    "$dsflow" run job.toml --set job.output="$out" "$@" > "$out.out" 2> "$out.log" &
    pid=$!
}

# ended STATUS: how the run in the background ended.
ended() {
    wait $pid
    status=$?
    [ $status -eq "$1" ] || { fault "$out: status $status, not $1"; cat "$out.log"; }
}

# says PATTERN: exactly one line of what the run said.
says() {
    n=$(grep -c "$1" "$out.log")
    [ "$n" -eq 1 ] || { fault "$out: '$1' is in $n lines"; cat "$out.log"; }
}

# tidy: nothing half written is left.
tidy() {
    left=$(find "$here" -name '*.tmp*')
    [ -z "$left" ] || fault "$out: left behind: $left"
}

# saved_once: one checkpoint, of the step that was announced.
saved_once() {
    step=$(sed -n 's/^stopped after step \([0-9]*\), which is saved.*/\1/p' "$out.log")
    [ "$(ls "$out/checkpoints")" = "$(printf 'latest\nstep-%s' "$step")" ] ||
        { fault "$out: checkpoints: $(ls "$out/checkpoints")"; cat "$out.log"; }
    tail -n 1 "$out/metrics.jsonl" | grep -q "^{\"step\":$step,\"ended\":\"stopped\"}" ||
        fault "$out: metrics.jsonl ends with $(tail -n 1 "$out/metrics.jsonl")"
    tidy
}

# Before the first step there is nothing to lose: while the machine is measured.
out=cold-run
XDG_CACHE_HOME=$here/cold "$dsflow" run job.toml --set job.output=cold-run > cold-run.out 2> cold-run.log &
pid=$!
until_line "measuring the machine" cold-run.log
kill -INT $pid
ended 130
says "^stopped before the first step; nothing was saved$"
[ -d cold-run/checkpoints ] && fault "there is a checkpoint of nothing"
[ "$(cat cold-run/metrics.jsonl)" = '{"step":0,"ended":"stopped"}' ] ||
    fault "metrics.jsonl of a run that had no step: $(cat cold-run/metrics.jsonl)"
# A child of it, which measured, may have the file open for a moment more.
timeout 60 "$dsflow" watch cold-run > watch.out 2>&1
grep -q stopped watch.out || fault "watch does not say that it was stopped: $(cat watch.out)"
tidy
out=cold-plan
XDG_CACHE_HOME=$here/cold2 "$dsflow" plan job.toml > cold-plan.out 2> cold-plan.log &
pid=$!
until_line "measuring the machine" cold-plan.log
kill -TERM $pid
ended 143
tidy

# Nor is anything left of the files that StarPU reads when it starts.
mkdir tmp
for try in 1 2 3 4 5; do
    TMPDIR=$here/tmp start early$try
    until [ -n "$(ls tmp)" ] || [ -s "$out/metrics.jsonl" ]; do :; done
    kill -TERM $pid
    wait $pid
    [ -z "$(ls tmp)" ] || fault "$out: left behind: $(ls tmp)"
done

# In a step: it is finished, as was said at once, and saved; the end is as if
# there had been no signal.
run whole
for signal in INT:130 TERM:143 HUP:129; do
    start "${signal%:*}"
    until_line '"loss"' "$out/metrics.jsonl"
    kill -"${signal%:*}" $pid
    ended "${signal#*:}"
    says "^finishing step $(sed -n 's/^stopped after step \([0-9]*\).*/\1/p' "$out.log"), then saving; .* without saving$"
    saved_once
done
run INT --resume
same whole INT

# Two within a second are one.
start twice
until_line '"loss"' twice/metrics.jsonl
kill -INT $pid
kill -INT $pid
ended 130
says "^finishing step"
saved_once
run twice --resume
same whole twice

# A later one ends the run at once. It is held in the step for more than a second,
# by which dsflow tells the two apart: no event says that it is over.
long="--set batch.sequences=2560 --set batch.micro=4"
start later $long
until_line '"loss"' later/metrics.jsonl
kill -INT $pid
until_line "^finishing step" later.log
kill -STOP $pid
sleep 1.2
kill -INT $pid
kill -CONT $pid
ended 130
says "^finishing step .*; press again to stop without saving$"
says "^stopped without saving; there is no checkpoint$"
tail -n 1 later/metrics.jsonl | grep -q '"ended":"stopped"' ||
    fault "metrics.jsonl ends with $(tail -n 1 later/metrics.jsonl)"
tidy

# In a validation, which takes most of the time here.
start validating --set data.validation=0.5 --set validation.every=1
until_line '"validation_loss"' validating/metrics.jsonl
kill -TERM $pid
ended 143
grep -q "^ending the validation, then saving step" validating.log || says "^finishing step"
saved_once
# What it ended is made up for.
run validating --resume --set data.validation=0.5 --set validation.every=1 \
    --set job.steps=$((step + 1))
[ "$(grep -c '"validation_loss"' validating/metrics.jsonl)" -eq $((step + 1)) ] ||
    fault "a validation is missing: $(grep '"validation_loss"' validating/metrics.jsonl)"

# While a checkpoint is being written, of every step.
start saving --set checkpoint.every=1 --set checkpoint.keep=0
until_line '"loss"' saving/metrics.jsonl
until ls -d saving/checkpoints/*.tmp > /dev/null 2>&1 || ! kill -0 $pid; do :; done
kill -INT $pid
ended 130
says "^stopped after step"
tidy
run saving --resume
same whole saving

# After the last save: the sample ends, and nothing is done again.
start sampling --set job.steps=2 --set schedule.warmup=1 --set model.context=16384 \
    --set sample.tokens=16000 --set sample.temperature=1
until_line "^peak memory" sampling.log
kill -INT $pid
ended 130
says "^ending the sample; step 2 is saved$"
[ "$(ls sampling/checkpoints)" = "$(printf 'latest\nstep-2')" ] ||
    fault "checkpoints after the end: $(ls sampling/checkpoints)"
tail -n 1 sampling/metrics.jsonl | grep -q '"ended":"finished"' ||
    fault "metrics.jsonl ends with $(tail -n 1 sampling/metrics.jsonl)"
tidy

# nohup: SIGHUP stays ignored.
out=nohup
(
    trap '' HUP
    exec "$dsflow" run job.toml --set job.output=nohup > nohup.out 2> nohup.log
) &
pid=$!
until_line '"loss"' nohup/metrics.jsonl
kill -HUP $pid
ended 0
same whole nohup

# Who read the lines of a run is gone: tee(1) gets the Ctrl-C too.
"$dsflow" run job.toml --set job.output=unread 2>&1 | head -n 1 > /dev/null
same whole unread
finish
