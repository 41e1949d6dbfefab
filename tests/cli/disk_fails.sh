# disk_fails.sh - a disk that fails in the middle of a run: one line, and the
# last checkpoint is whole.
. "${srcdir:-.}/tests/cli/lib.sh"

[ -d /proc/self/fd ] || exit 77
job | sed 's/steps = 10/steps = 100000/' > job.toml
cat >> job.toml <<'EOF'
total = 20
[checkpoint]
every = 2
[offload]
optimizer = "nvme"
params = "nvme"
gradients = "nvme"
activations = "nvme"
[memory.nvme]
path = "disk"
verify = true
EOF
mkdir disk

# The files of the process $1, which have no name, lose what is in them. What
# is written later makes them long again, so that only checksums tell for sure.
cut_files() {
    n=0
    for fd in /proc/"$1"/fd/*; do
        case $(readlink "$fd") in
        "$here"/disk/*)
            : > "$fd"
            n=$((n + 1))
            ;;
        esac
    done
    [ $n -gt 0 ] || fault "process $1 has no files in the folder"
}

# fails OUTPUT ARGS...: a run whose files are cut once it has a checkpoint.
fails() {
    out=$1
    shift
    "$dsflow" run job.toml --set job.output="$out" "$@" > log 2>&1 &
    pid=$!
    until_line step "$out/checkpoints/latest" || fault "$*: no checkpoint"
    cut_files $pid
    wait $pid
    status=$?
    [ $status -eq 1 ] || fault "$*: the status is $status, not 1: $(tail -3 log)"
    # The last line, and one: what went before took long, or is a warning.
    [ "$(grep -c "; the last checkpoint is of step" log)" -eq 1 ] &&
        tail -n 1 log | grep -q "^dsflow: " || fault "$*: not one line: $(cat log)"
    step=$(sed -n 's/step-//p' "$out/checkpoints/latest")
    grep -q "^dsflow: .*disk: read of [0-9]* bytes at [0-9]*: .*; the last checkpoint is of step $step, in [^ ]*\$" log ||
        fault "$*: the message: $(tail -3 log)"
    "$dsflow" checkpoint verify "$out" > log 2>&1 || fault "$*: $(cat log)"
    [ -z "$(ls -A disk)" ] || fault "there is something left: $(ls -A disk)"
    run "$out" --set job.steps=$((step + 1)) --resume
}
fails starpu
fails serial --executor serial
fails validation --set validation.every=1
fails saved --set checkpoint.every=1

[ $faults -eq 0 ]
