# watch.sh - a run is followed from outside: what it does, and how it ends.
. "${srcdir:-.}/tests/cli/lib.sh"

# says STATUS TEXT ARGS...: `dsflow watch ARGS` ends so, and says so.
says() {
    want=$1 text=$2
    shift 2
    timeout 60 "$dsflow" watch "$@" > out 2> err
    got=$?
    [ $got -eq "$want" ] || { fault "watch $*: status $got, not $want"; cat err; }
    grep -qF -e "$text" out err || { fault "watch $*: does not say '$text'"; cat out err; }
}

# begin OUTPUT ARGS...: a long run in the background, $pid, which has done steps.
begin() {
    out=$1
    shift
    "$dsflow" run job.toml --set job.output="$out" --set job.steps=1000000 "$@" \
        > log 2>&1 &
    pid=$!
    until_line '"loss"' "$out/metrics.jsonl" || fault "$out: no step: $(cat log)"
}

says 2 "nowhere: No such file" nowhere
[ "$(cat out err | wc -l)" -eq 1 ] || fault "more than a line: $(cat out err)"
says 2 "expected the folder of a run" job.toml

# A run that has not begun is waited for, and followed to its end.
mkdir run
timeout 120 "$dsflow" watch run > lines 2> waits &
watcher=$!
until_line "waits for a run to begin in run" waits $watcher ||
    fault "does not wait: $(cat waits)"
run run --set validation.every=5 --set checkpoint.at_end=false
wait $watcher || fault "watch of a run that finishes: status $?"
for text in "step 5/10  loss" "step 5: validation loss" "step 10/10  loss" \
    "tiny: finished after step 10"; do
    grep -qF "$text" lines || { fault "lines without '$text'"; cat lines; }
done
grep -q "step 7/10" lines && fault "lines of more steps than log_every asks for"
grep -q "$(printf '\033')" lines && fault "control sequences in a file"

# What there is, once, at every size.
says 0 "tiny: finished after step 10" run
for size in "80 24" "40 12" "20 5" "300 60" "1 1"; do
    COLUMNS=${size% *} LINES=${size#* } "$dsflow" watch run --once > out ||
        fault "--once at $size: status $?"
    grep -v ": finished" out | awk -v most="${size% *}" '
        { gsub(/[\200-\277]/, ""); if (length($0) >= most && most > 1) exit 1 }' ||
        { fault "--once at $size wraps"; cat out; }
done
"$dsflow" watch run --once > out
for text in "step 10/10" "validation" "tokens/s" "memory" "┤" "└"; do
    grep -qF "$text" out || { fault "--once without '$text'"; cat out; }
done
# A figure is whole, with its unit, or not there.
for columns in 28 30 34 36 38 40 44 48; do
    COLUMNS=$columns "$dsflow" watch run --once > out
    grep -E '^(step|loss|validation|speed|efficiency|memory) ' out |
        grep -Ev '^step 10/10(  [^ ]+)?  100 %$' |
        grep -Ev '^loss +[0-9.]+(  lr [0-9.e-]+(  gradient norm [0-9.e+-]+)?)?(  ◆ validation)?$' |
        grep -Ev '^validation +[0-9.]+( at step 10(  [0-9.]+ at step 5)?)?$' |
        grep -Ev '^speed +[0-9.]+[kM]? tokens/s(, [0-9.]+ [mu]?s a step)?$' |
        grep -Ev '^efficiency +[0-9]+ %( of what is possible)?$' |
        grep -Ev '^memory +[0-9.]+ [KMG]iB( at most)?$' &&
        fault "--once at $columns columns cuts a figure"
done
mkdir empty
says 0 "waits for a run" empty --once

# While it runs; one at a time has the folder.
begin live
says 0 "tiny: running" live --once
"$dsflow" run job.toml --set job.output=live --overwrite > out 2>&1
[ $? -eq 2 ] && grep -q "another run" out || fault "two runs in a folder: $(cat out)"

# on_terminal PATTERN SETTING...: `dsflow watch live` on one, with these variables,
# ended by Ctrl-C once it has shown the pattern; into the file terminal.
on_terminal() {
    want=$1
    shift
    rm -f terminal watched
    echo 'echo $$ > watched; exec "$@"' > watched.sh
    script -qefc "sh watched.sh env $* '$dsflow' watch live" terminal \
        > /dev/null < /dev/null &
    watcher=$!
    until_line "$want" terminal $watcher || fault "$*: no '$want': $(cat terminal)"
    kill -INT "$(cat watched)"
    wait $watcher
}

# On a terminal: the other screen, and back from it when Ctrl-C ends it.
if has_terminal; then
    for colour in "" NO_COLOR=1; do
        on_terminal "tokens/s" TERM=xterm $colour
        tr '\033' '!' < terminal > out
        grep -qF '![?1049h' out || fault "not drawn in place"
        tail -n 5 out | grep -q '!\[?25h!\[?1049l' || fault "the terminal is not left as it was"
    done
    for term in dumb ""; do
        on_terminal "loss" TERM=$term
        grep -q "$(printf '\033')" terminal && fault "TERM=$term gets control sequences"
    done
fi

# How it ends is told apart.
timeout 60 "$dsflow" watch live > lines 2>&1 &
watcher=$!
until_line "loss" lines $watcher || fault "watch shows no step: $(cat lines)"
kill -INT $pid
wait $watcher || fault "watch of a run that is stopped: status $?"
grep -q "tiny: stopped after step [0-9]*, which is saved: run --resume goes on" lines || { fault "stopped"; cat lines; }
wait $pid

begin killed
# Beyond the checkpoint of step 2 that is made up below.
until_line '"step":3,' killed/metrics.jsonl || fault "no step 3: $(cat log)"
kill -9 $pid
wait $pid 2> /dev/null
says 0 "tiny: killed or crashed after step" killed
says 0 ": there is no checkpoint, and run --resume starts from the beginning" killed
mkdir -p killed/checkpoints/step-2
says 0 ": run --resume goes on from step 2" killed

"$dsflow" run job.toml --set job.output=failed --set optimizer.kind=sgd --set optimizer.lr=1000 \
    --set schedule.kind=constant --set schedule.warmup=0 \
    --set optimizer.clip=0 --set job.steps=1000 \
    > log 2>&1 && fault "a loss of nothing is no failure"
says 0 "tiny: failed after step" failed
grep -q "the loss is" out || fault "does not say why: $(cat out)"

# Where the time goes, where that is known.
mkdir known
for step in 1 2 3; do
    cat <<EOF
{"step":$step,"loss":2.5,"tokens":10,"seconds":0.5,"efficiency":0.87,"share":{"forward":0.31,"backward":0.5,"update":0.06,"move":0.05,"idle":0.08}}
EOF
done > known/metrics.jsonl
says 0 "efficiency  87 %" known --once
for size in "26 24" "30 18" "60 16" "100 16"; do # as high as the terminal, and whole
    COLUMNS=${size% *} LINES=${size#* } "$dsflow" watch known --once > out
    [ "$(wc -l < out)" -eq "${size#* }" ] && grep -q "idle 8 %" out && grep -q "└" out ||
        fault "--once at $size: $(cat out)"
done
says 0 "# forward 31 %  = backward 50 %  + update 6 %  ~ moving 5 %  . idle 8 %" \
    known --once

# Anything may stand in the file.
mkdir odd
printf '{"step":1}\n\n[]\nnot JSON\n{"step":1,"loss":null}\n{"step":3,"loss":2}\n{"st' \
    > odd/metrics.jsonl
says 0 "odd: killed or crashed after step 3" odd
head -c 100000 /dev/urandom > odd/metrics.jsonl
says 0 "odd: killed or crashed" odd
finish
