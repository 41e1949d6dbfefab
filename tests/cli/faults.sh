# faults.sh - of several processes one dies, or is stopped: it is named, all end,
# nothing is left, and the run goes on to the bytes of an unbroken one.
. "${srcdir:-.}/tests/lib/mpi.sh"
. "${srcdir:-.}/tests/cli/lib.sh"
by_mpirun

keys="--set mesh.data=3 --set zero.stage=2 --set batch.sequences=6
      --set checkpoint.every=5 --set job.log_every=1 --set job.steps=150
      --set run.patience=2"

# Each process notes who it is.
cat > noted.sh <<'EOF'
echo "$PMIX_NAMESPACE" > pids/job
echo $$ > pids/$OMPI_COMM_WORLD_RANK
exec "$@"
EOF

# begin: the run in three processes, in the background: $pid.
begin() {
    rm -rf pids run && mkdir pids && : > log
    # shellcheck disable=SC2086
    timeout -k 5 200 mpirun -n 3 sh noted.sh "$dsflow" run job.toml $keys \
        > log 2>&1 &
    pid=$!
}

at_step() {
    until_line "step *$1/" log || { fault "step $1 was not seen"; cat log; }
}

# strike SIGNAL PROCESS.
strike() {
    kill -"$1" "$(cat pids/"$2")" 2> /dev/null
}

is_alive() {
    grep -s '^State:' "/proc/$1/status" | grep -qv Z
}

# ended NAME: the run failed, and left nothing. Processes that mpirun has been
# told to end may take some moments.
ended() {
    wait $pid && fault "$1: status 0"
    i=0
    for p in 0 1 2; do
        while [ -s pids/$p ] && is_alive "$(cat pids/$p)"; do
            i=$((i + 1))
            [ $i -lt 100 ] || { fault "$1: process $p lives"; break; }
            sleep 0.1
        done
    done
    [ -s pids/job ] && ls "/dev/shm/"*".$(printf %x "$(cat pids/job)")."* 2> /dev/null &&
        fault "$1: shared memory is left"
}

# named SIGNAL PROCESS: a line says so, once.
named() {
    case $1 in
        KILL) text="process $2 \(.*host .*\) died (in|before)" ;;
        *) text="process $2 \(.*host .*\),? (which )?was last heard .* ago" ;;
    esac
    [ "$(grep -cE -e "^dsflow: .*$text" log)" -eq 1 ]
}

# goes_on NAME: to the bytes of `whole`, in one process.
goes_on() {
    resume=--resume
    [ -e run/checkpoints/latest ] || resume=
    # shellcheck disable=SC2086
    "$dsflow" run job.toml $keys $resume > again 2>&1 ||
        { fault "$1: does not go on"; cat again; }
    same run whole
}

# shellcheck disable=SC2086
run whole $keys

# In the middle of steps and checkpoints, each of them.
for process in 1 2 0; do
    begin
    at_step $((10 + process))
    strike KILL $process
    ended "killed $process"
    named KILL $process || { fault "killed $process: not named"; cat log; }
done
goes_on "killed $process"
# Stopped.
for process in 1 0; do
    begin
    at_step 12
    strike STOP $process
    ended "stopped $process"
    named STOP $process || { fault "stopped $process: not named"; cat log; }
done
goes_on "stopped $process"

# Before all have met MPI's shared memory has names, which mpirun removes if it
# is there.
segments() {
    ls "/dev/shm/"*_segment.*".$(printf %x "$(cat pids/job)")."* 2> /dev/null
}
cat > waits.sh <<'EOF'
if [ "$OMPI_COMM_WORLD_RANK" -eq 2 ]; then exec sleep 100; fi
exec "$@"
EOF
rm -rf pids run && mkdir pids
# shellcheck disable=SC2086
mpirun -n 3 sh noted.sh sh waits.sh "$dsflow" run job.toml $keys > log 2>&1 &
pid=$!
for _ in $(seq 600); do
    [ -s pids/job ] && [ "$(segments | wc -l)" -eq 2 ] && break
    sleep 0.1
done
[ "$(segments | wc -l)" -eq 2 ] || fault "met: no shared memory was seen"
kill -KILL $pid "$(cat pids/0)" "$(cat pids/1)" "$(cat pids/2)"
for _ in $(seq 300); do
    segments > /dev/null || break
    sleep 0.1
done
segments && fault "killed before they met: shared memory is left"
wait $pid 2> /dev/null
finish
