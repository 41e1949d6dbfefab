# tiers.sh - what plan and run say of larger memories, and when a disk is
# measured.
machines=$(cd "${srcdir:-.}/examples/machines" && pwd)
. "${srcdir:-.}/tests/cli/lib.sh"
job > job.toml
nvme="--set offload.optimizer=nvme --set memory.nvme.path=."
export XDG_CACHE_HOME="$here/cache"

# disks N: so many were measured so far.
disks() {
    [ "$(find cache -name 'disk-*.toml' | wc -l)" -eq "$1" ] ||
        fault "$(find cache -name 'disk-*.toml' | wc -l) disks are kept, not $1"
}

# plan ARGS...: out and err.
plan() {
    "$dsflow" plan job.toml "$@" > out 2> err || fault "plan $*: $(cat err)"
}

# A job without data on NVMe touches no disk, nor does a described machine.
plan
disks 0
grep -q nvme out && fault "a plan without offload speaks of nvme"
plan --set offload.optimizer=cpu
disks 0
plan $nvme --machine "$machines/laptop.toml"
disks 0
sed '/^\[disk\]/,$d' "$machines/laptop.toml" > no-disk.toml
"$dsflow" plan job.toml $nvme --machine no-disk.toml > out 2> err
[ $? -eq 2 ] && [ "$(said | wc -l)" -eq 1 ] && grep -q 'dsflow: no-disk.toml: \[disk\]: is missing: expected read and write' err ||
    fault "a machine without a disk: $(cat err)"

# Once for a disk and how it is used.
plan $nvme
grep -q "measuring the disk" err || fault "no disk was measured"
disks 1
plan $nvme
[ -s err ] && fault "measured again: $(cat err)"
plan $nvme --set memory.nvme.depth=2
disks 2
"$dsflow" plan job.toml $nvme --set memory.nvme.path=none > out 2> err
[ $? -eq 2 ] && grep -q 'path: none: No such file' err ||
    fault "a folder that is not there: $(cat err)"

# What is where, and what moves.
plan $nvme --set memory.host=1GiB
grep -Eq '^states +0 B +[0-9.]+ KiB +[0-9.]+ KiB$' out || fault "$(cat out)"
grep -Eq '^budget of a rank .* 1.0 GiB +-$' out || fault "no budget: $(cat out)"
grep -Eq '^nvme +[0-9.]+ KiB +[0-9.]+ KiB$' out || fault "no traffic: $(cat out)"
grep -Eq '^reading and writing nvme .* hidden behind compute$' out ||
    fault "nothing of the disk's time: $(cat out)"
plan $nvme --json
for key in device cpu nvme budget_bytes tiers read_bytes written_bytes swap_in \
    swap_out io_seconds io_hidden bound; do
    grep -q "\"$key\":" out || fault "plan.json has no $key"
done

# A run says what there was of it; of a model with some milliseconds a step, so
# that transfers do not end before the step that they are of has begun.
"$dsflow" run job.toml $nvme --set model.width=256 --overwrite > out 2> err || fault "$(cat err)"
grep -Eq '^offloaded to nvme: .* planned ' err || fault "no tier: $(cat err)"
grep -Eq '^disk: .* read, .* written a step; busy .* hidden behind compute$' err ||
    fault "no disk: $(cat err)"
grep '"loss"' run/metrics.jsonl | tail -n 1 > last
grep -q '"nvme":[1-9][0-9]*.*"swap_in":[1-9]' last &&
    grep -Eq '"io_seconds":[0-9.e-]+,"io_hidden":([0-9.e-]+|null)}' last ||
    fault "$(cat last)"
grep -Eq '"io_seconds":[0-9.e-]*[1-9][0-9.e-]*,"io_hidden":[0-9]' \
    run/metrics.jsonl || fault "no step has I/O: $(cat run/metrics.jsonl)"
finish
