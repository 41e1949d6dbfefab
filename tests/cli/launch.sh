# launch.sh - `dsflow run -n`: processes that dsflow starts by mpirun, their
# output, signals and ends.
. "${srcdir:-.}/tests/lib/mpi.sh"
. "${srcdir:-.}/tests/cli/lib.sh"
job | sed 's/^steps = .*/steps = 1500/; s/^log_every.*/log_every = 1/' > long.toml
mesh="--set mesh.data=2 --set mesh.pipeline=2"

# start OUTPUT ARGS...: two processes in the background, which say into
# OUTPUT.log; pid is that of the launcher.
start() {
    out=$1
    shift
    # shellcheck disable=SC2086
    "$dsflow" run long.toml $mesh --set job.output="$out" "$@" \
        > "$out.out" 2> "$out.log" &
    pid=$!
}

# ended STATUS: how the launcher ended; nothing of it is left.
ended() {
    timeout 120 tail --pid=$pid -f /dev/null || fault "$out: it does not end"
    wait $pid
    status=$?
    [ $status -eq "$1" ] || { fault "$out: status $status, not $1"; cat "$out.log"; }
    gone
}

# processes: the pids of mpirun and of those that it launched into $out.
processes() {
    for p in /proc/[0-9]*; do
        { tr '\0' ' ' < "$p/cmdline"; } 2> /dev/null |
            grep -q "dsflow run .*--set=job.output=$out .*-- long.toml $" &&
            echo "${p#/proc/}"
    done
}

# children PID...: of these.
children() {
    for p in "$@"; do
        cat "/proc/$p/task/$p/children" 2> /dev/null
    done
}

# rank N: the pid of the process N.
rank() {
    # shellcheck disable=SC2046
    for p in $(children $(children $pid)); do
        { tr '\0' '\n' < "/proc/$p/environ"; } 2> /dev/null |
            grep -q "^OMPI_COMM_WORLD_RANK=$1$" && echo "$p"
    done
}

# gone: no process of it is there.
gone() {
    until_none "$out" processes
}

# says PATTERN: exactly one line of what the run said.
says() {
    n=$(grep -c -e "$1" "$out.log")
    [ "$n" -eq 1 ] || { fault "$out: '$1' is in $n lines"; cat "$out.log"; }
}

# saved_once: one checkpoint, of the step that was announced.
saved_once() {
    step=$(sed -n 's/^stopped after step \([0-9]*\), which is saved.*/\1/p' "$out.log")
    [ "$(ls "$out/checkpoints")" = "$(printf 'latest\nstep-%s' "$step")" ] ||
        { fault "$out: checkpoints: $(ls "$out/checkpoints")"; cat "$out.log"; }
    tail -n 1 "$out/metrics.jsonl" | grep -q "^{\"step\":$step,\"ended\":\"stopped\"}" ||
        fault "$out: metrics.jsonl ends with $(tail -n 1 "$out/metrics.jsonl")"
}

# refused TEXT ARGS...: with status 2, in one line that has TEXT.
refused() {
    text=$1
    shift
    "$dsflow" run job.toml --set job.output=none "$@" > refused.log 2>&1
    status=$?
    [ $status -eq 2 ] || fault "$*: status $status, not 2"
    [ "$(wc -l < refused.log)" -eq 1 ] && grep -qF -e "$text" refused.log ||
        { fault "$*: not in a line: $text"; cat refused.log; }
}

# The same bytes as one process, in as many as are asked for.
# shellcheck disable=SC2086
for np in 2 4; do
    run one$np $mesh --set mesh.data=$np --set validation.every=5
    "$dsflow" run job.toml -n $np $mesh --set mesh.data=$np \
        --set validation.every=5 --set job.output=n$np > n$np.out 2> n$np.log ||
        { fault "-n $np: $?"; cat n$np.log; }
    same one$np n$np
    out=n$np
    says "^in $np processes (Open MPI"
    says "^step 10/10"
    [ "$(grep -c "validation loss" n$np.out)" -eq 2 ] || fault "-n $np: $(cat n$np.out)"
    grep -e mpirun -e "$(printf '\036')" -e '<std' n$np.log n$np.out &&
        fault "-n $np: not for people"
done

# Text of a model may have any character, those too with which messages to the
# launcher begin, and what mpirun puts before each line.
for text in 'a\u001eended 3\nb' '[[\u001e\u001ea[1,0]<stdout>:b' '[1,1]<stdout>:\u001eended 3\n[1,'; do
    for n in "" "-n 2"; do
        # shellcheck disable=SC2086
        "$dsflow" run job.toml $n $mesh --set job.output=any --overwrite --set job.steps=1 --set schedule.total=10 \
            --set "sample.prompt=\"$text\"" --set sample.tokens=4 > "any$n.out" 2> log ||
            { fault "text of any characters: $?"; cat log; }
    done
    cmp any.out "any-n 2.out" || fault "text of any characters: $(cat -v "any-n 2.out")"
done

# A bar has the width of the terminal.
if has_terminal; then
    TERM=xterm script -qec "stty cols 60 rows 20; exec '$dsflow' run job.toml -n 2 $mesh \
        --set job.output=bar" bar.log > /dev/null 2>&1 < /dev/null ||
        { fault "on a terminal: $?"; cat bar.log; }
    grep -q "$(printf '\r\033\\[K10/10  ')" bar.log || fault "no bar: $(cat -v bar.log)"
    tr '\r' '\n' < bar.log | sed 's/\x1b\[[0-9;]*[mK]//g' | grep "^[0-9]*/10 " | {
        LC_ALL=C.UTF-8
        while read -r line; do [ ${#line} -lt 60 ] || echo "$line"; done
    } > wide
    [ -s wide ] && fault "bars are too wide: $(cat wide)"
fi

# Signals to any process: saved once, and all stop.
for signal in launcher:INT:130 launcher:TERM:143 launcher:HUP:129 0:INT:130 1:TERM:143; do
    out=$(echo $signal | tr : -)
    # What goes on later is as long as what it is compared with.
    [ $out = launcher-INT ] && steps=1500 || steps=100000
    start "$out" -n 2 --set job.steps=$steps
    until_line '"loss"' "$out/metrics.jsonl"
    whom=${signal%%:*} name=${signal#*:}
    [ "$whom" = launcher ] && whom=$pid || whom=$(rank "$whom")
    kill -"${name%:*}" "$whom"
    ended "${signal##*:}"
    says "^finishing step .*, then saving; "
    saved_once
done
# UCX would take SIGHUP for itself.
if has_ucx; then
    over_ucx
    start ucx -n 2 --set job.steps=100000
    until_line '"loss"' ucx/metrics.jsonl
    kill -HUP "$(rank 0)"
    ended 129
    not_over_ucx
    says "^finishing step .*, then saving; "
    saved_once
fi
# So does one that comes to all of them and mpirun at once, as from systemd(1).
for signal in TERM:143 HUP:129; do
    start "all-${signal%:*}" -n 2 --set job.steps=100000
    until_line '"loss"' "$out/metrics.jsonl"
    # shellcheck disable=SC2046
    kill -"${signal%:*}" $pid $(processes)
    ended "${signal#*:}"
    says "^finishing step .*, then saving; "
    says "^stopped after step "
    saved_once
done
out=launcher-INT
# shellcheck disable=SC2086
"$dsflow" run long.toml -n 2 --resume $mesh --set job.output=$out > go.log 2>&1 ||
    { fault "--resume after a signal: $?"; cat go.log; }
"$dsflow" run long.toml $mesh --set job.output=long > go.log 2>&1 || fault "long: $?"
same long launcher-INT

# A second one, more than a second later, ends it at once. Process 0 is held in
# between, as no event says that the second is over.
start later -n 2 --set batch.sequences=2560 --set batch.micro=4
until_line '"loss"' later/metrics.jsonl
first=$(rank 0)
kill -INT $pid
until_line "^finishing step" later.log
kill -STOP "$first"
sleep 1.2
kill -INT $pid
kill -CONT "$first"
ended 130
says "^stopped without saving; there is no checkpoint$"

# Nothing outlives the launcher; what processes share has no name any more.
mkdir tmp
TMPDIR=$here/tmp start killed -n 2 --set job.steps=100000
until_line '"loss"' killed/metrics.jsonl
grep -e "/vader_segment" -e "/sm_segment" "/proc/$(rank 1)/maps" | grep -v "(deleted)" &&
    fault "shared memory has a name"
kill -KILL $pid
ended 137
folders() {
    find tmp -name "pid.*"
}
until_none "killed: folders of mpirun" folders

# One dies: it is named, by the others or, where mpirun is faster, by the launcher,
# and all end.
start dead -n 2 --set job.steps=100000
until_line '"loss"' dead/metrics.jsonl
second=$(rank 1)
kill -KILL "$second"
ended 1
says "^dsflow: process 1 (.*) \(died in step\|was killed by signal 9\)"
grep -qv -e "^dsflow: " -e "^step " -e "^tiny: " -e "^in 2 processes" dead.log &&
    { fault "it says more than that:"; cat dead.log; }

# With --restarts it goes on from the last checkpoint, to the same bytes.
start again -n 2 --restarts 2 --set checkpoint.every=20
until_line '"step":4[0-9],' again/metrics.jsonl
second=$(rank 1)
kill -KILL "$second"
ended 0
says "warning: process 1 (.*) \(died in step\|was killed by signal 9\).*: restart 1 of 2$"
says "^goes on from again/checkpoints/step-"
same long again
grep -q '"restart":1,"why":"process 1 (.*) \(died in step\|was killed by signal 9\)' \
    again/metrics.jsonl || fault "no restart in the metrics"
[ "$(grep -o '^{"step":[0-9]*,"loss"' again/metrics.jsonl | sort | uniq -d)" = "" ] ||
    fault "steps stand twice in the metrics"
timeout 60 "$dsflow" watch again > watch.out 2>&1 && grep -q finished watch.out ||
    fault "watch: $(cat watch.out)"

# What cannot be is refused in a line, and nobody waits.
refused "--processes: 0: expected a whole number" -n 0
refused "--processes: expected N" -n
refused "--hosts: a:x: expected HOST[:N],…" --hosts a:x
refused "--hosts: a,,b: expected" --hosts a,,b
refused "-n: 3: --hosts has room for 2" --hosts a,b -n 3
refused "expected one of them" --hosts a --hostfile job.toml
refused "--hostfile: nowhere: No such file" --hostfile nowhere
refused "expected -n, --hosts or --hostfile" --restarts 2
# hostfile TEXT LINES: is refused so, before mpirun is started.
hostfile() {
    printf %b "$2" > hosts
    refused "--hostfile: hosts$1" --hostfile hosts
}
hostfile ": no host: expected" ''
hostfile ": no host: expected" '# a slots=2\n\n \r\n'
for slots in slots=x slots= slots=0 slots=-1 slots=99999 slot=1 slots=1x 'slots=1 max_slots=2'; do
    hostfile ":2: b $slots: expected HOST slots=N" "a slots=1\n b $slots\n"
done
hostfile ":1: me@a: expected HOST" 'me@a\n'
hostfile ":1: ::1 slots=1: expected HOST" '::1 slots=1'
hostfile ":3: a: expected each host once" 'ab\na slots=1\na slots=1\n'
hostfile ": has a byte 0: expected text" 'a slots=1\n\0000b slots=1\n'
refused "--hosts: me@a: expected HOST[:N],…" --hosts me@a
printf '\357\273\277# two\r\na slots = 2\t# first\r\n\r\nb' > hosts
refused "-n: 4: hosts has room for 3" --hostfile hosts -n 4
refused "2 ranks: expected one at least for each of 3" --hostfile hosts --set mesh.data=2
refused "2 ranks: expected one at least for each of 3" -n 3 --set mesh.data=2
mkdir bin
printf '#!/bin/sh\necho "mpirun was started"\nexit 1\n' > bin/mpirun
chmod +x bin/mpirun
PATH=$here/bin:$PATH refused "1 rank: expected one at least for each of 4000" -n 4000

# An mpirun whose ssh to nodeb ends, or its daemon there: not the process is named
# that it ended for that.
cat > bin/mpirun <<'END'
#!/bin/sh
exec >&2
printf '[1,0]<stderr>:\036begins 11 nodea\n[1,1]<stderr>:\036begins 12 nodeb\n'
printf '[1,0]<stderr>:\036join\n[1,0]<stderr>:\036told\n'
printf '[1,1]<stderr>:\036found process 0 (rank 0, host nodea) died in step 5\n'
echo "[1,1]<stderr>:[nodeb:12] Read -1, expected 4096, errno = 3"
cat words
exit 255
END
for words in "was unable to reliably start one or more daemons." \
    "has lost communication with a remote daemon."; do
    echo "ORTE $words" > words
    PATH=$here/bin:$PATH start lost -n 2
    ended 1
    says "^dsflow: mpirun lost its connection to host nodeb, "
    says .
done
# One that waits for ever for a host, when all is done, as its ssh does.
cat > bin/mpirun <<'END'
#!/bin/sh
timeout 1000 sleep 1000 & # in a group of its own
echo $! > ssh.pid
exec >&2
printf '[1,0]<stderr>:\036begins 11 nodea\n[1,0]<stderr>:\036join\n[1,0]<stderr>:\036ended 0\n'
exec sleep 1000
END
PATH=$here/bin:$PATH start waits -n 2
ended 0
ssh_left() {
    tr '\0' ' ' < "/proc/$(cat ssh.pid)/cmdline"
} 2> /dev/null
until_none "waits: its ssh" ssh_left
refused "mesh: dada: unknown key" -n 2 --set mesh.dada=2
cat > no-ssh <<'END'
#!/bin/sh
echo "ssh: Could not resolve hostname $1: Name or service not known" >&2
exit 255
END
chmod +x no-ssh
OMPI_MCA_plm_rsh_agent=$here/no-ssh refused "Could not resolve hostname" \
    --hosts nowhere:2 --set mesh.data=2
mkdir empty
case $dsflow in
*/*) here_dsflow=$dsflow ;;
*) here_dsflow=$(command -v "$dsflow") ;;
esac
PATH=$here/empty "$here_dsflow" run job.toml -n 2 > refused.log 2>&1
[ $? -eq 2 ] && grep -q "no mpirun in PATH" refused.log ||
    fault "without mpirun: $(cat refused.log)"
SLURM_STEP_NUM_TASKS=2 "$dsflow" run job.toml > refused.log 2>&1
[ $? -eq 2 ] && grep -q "expected srun --mpi=pmix" refused.log ||
    fault "srun without PMIx: $(cat refused.log)"
# What cannot be written is told at the end, as by one process.
"$dsflow" run job.toml -n 2 $mesh --set job.output=unwritten > /dev/full 2> refused.log
[ $? -eq 1 ] && [ -e unwritten/checkpoints/step-10 ] &&
    [ "$(tail -n 1 refused.log)" = "dsflow: standard output cannot be written" ] ||
    fault "to a full disk: $(cat refused.log)"
OMPI_COMM_WORLD_SIZE=1 refused "mpirun or srun started this process" -n 2
finish
