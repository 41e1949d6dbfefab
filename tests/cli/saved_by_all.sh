# saved_by_all.sh - several processes write a checkpoint together: it has the
# bytes of one process, or it is not there.
. "${srcdir:-.}/tests/lib/mpi.sh"
. "${srcdir:-.}/tests/cli/lib.sh"
by_mpirun

# in_processes N OUTPUT ARGS...: each leaves its number in OUTPUT.pid.RANK.
in_processes() {
    n=$1 out=$2
    shift 2
    # shellcheck disable=SC2016 # the variable is mpirun's
    timeout -k 5 200 mpirun -n "$n" sh -c '
        echo $$ > "$0.pid.$OMPI_COMM_WORLD_RANK"
        exec "$@"' "$out" "$dsflow" run job.toml --set job.output="$out" "$@" > log 2>&1
}

# whole OUTPUT: what `latest` names is, and what is under way goes with the next.
whole() {
    "$dsflow" checkpoint verify "$1/checkpoints/$(cat "$1/checkpoints/latest")" > verify.log 2>&1 ||
        fault "$1: $(cat verify.log)"
}

# mesh N KEYS...: N processes save what one does, and go on from it.
mesh() {
    n=$1
    shift
    rm -rf one all
    run one "$@"
    in_processes "$n" all "$@" --set job.steps=5 || { fault "in $n processes: $*"; cat log; }
    in_processes "$n" all "$@" --resume || { fault "on in $n processes: $*"; cat log; }
    cmp one/checkpoints/step-10/manifest.json all/checkpoints/step-10/manifest.json ||
        fault "in $n processes: $*"
    same one all
    whole all
}
sets() {
    for key; do echo "--set $key"; done
}
# shellcheck disable=SC2046
{
    sed -i 's/^steps = .*/steps = 10/; s/^kind = .*/&\ntotal = 10/' job.toml
    mesh 2 $(sets mesh.tensor=2)
    mesh 2 $(sets mesh.data=2 precision.compute=bf16)
    mesh 3 $(sets mesh.data=3 batch.sequences=6 zero.stage=1 precision.states=int8)
    mesh 4 $(sets mesh.tensor=2 mesh.data=2 zero.stage=2 model.family=llama precision.states=bf16)
    mesh 2 $(sets mesh.sequence=2 zero.stage=1)
    mkdir disk
    mesh 2 $(sets mesh.pipeline=2 offload.optimizer=nvme memory.nvme.path=disk)
}

# One that is killed while they save, at whatever moment, leaves what was saved.
keys="--set mesh.data=2 --set zero.stage=1 --set checkpoint.every=1 --set job.steps=30
      --set schedule.total=30"
# shellcheck disable=SC2086
{
    run unbroken $keys
    for wait in 0.02 0.11; do
        for rank in 0 1; do
            rm -rf broken broken.pid.*
            in_processes 2 broken $keys &
            pid=$!
            until_line step broken/checkpoints/latest || fault "$rank: no checkpoint"
            sleep $wait
            kill -9 "$(cat broken.pid.$rank)" 2> /dev/null
            wait $pid
            whole broken
            in_processes 2 broken $keys --resume || { fault "after process $rank: $?"; cat log; }
            same unbroken broken
            [ -z "$(find broken -name '*.tmp*' -o -name '*.old*')" ] ||
                fault "left: $(find broken)"
        done
    done
}

# A disk that is full for one of them: a line that says so, and nothing is lost.
keys="--set mesh.data=2 --set model.width=256 --set model.heads=2"
# shellcheck disable=SC2086
{
    run unbroken-full $keys
    run full $keys --set job.steps=5
    timeout -k 5 200 mpirun \
        -n 1 "$dsflow" run job.toml --set job.output=full $keys --resume : \
        -n 1 sh -c 'ulimit -f 12000; exec "$@"' sh "$dsflow" run job.toml > log 2>&1
    got=$?
    [ $got -eq 1 ] || fault "a full disk: status $got, not 1"
    grep -q "process 1 (host .*): .*safetensors: cannot be written: File too large" log ||
        { fault "a full disk is not named"; cat log; }
    [ "$(ls full/checkpoints)" = "$(printf 'latest\nstep-5')" ] ||
        fault "a full disk leaves $(ls full/checkpoints)"
    whole full
    in_processes 2 full $keys --resume || { fault "after a full disk: $?"; cat log; }
    same unbroken-full full
}
finish
