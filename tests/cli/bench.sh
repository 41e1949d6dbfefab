# bench.sh - the machine is measured, kept, described, and predicted with.
case ${srcdir:-.} in /*) ;; *) srcdir=$PWD/${srcdir:-.} ;; esac
. "$srcdir/tests/cli/lib.sh"
machines=$srcdir/examples/machines
XDG_CACHE_HOME=$here/cache
export XDG_CACHE_HOME

# expect STATUS TEXT ARGS...: the command ends so, and says so somewhere.
expect() {
    status=$1 text=$2
    shift 2
    "$dsflow" "$@" > out 2> err
    got=$?
    [ $got -eq $status ] || { fault "dsflow $*: status $got, not $status"; cat err; }
    grep -qF -e "$text" out err || { fault "dsflow $*: does not say '$text'"; cat out err; }
}

# begins TEXT ARGS...: the command says so and measures the machine, which is not
# waited for.
begins() {
    text=$1
    shift
    rm err
    "$dsflow" "$@" > out 2> err &
    pid=$!
    until_line "measuring the machine" err ||
        fault "dsflow $*: measures nothing: $(cat err)"
    kill -TERM $pid
    wait $pid
    grep -qF -e "$text" err || fault "dsflow $*: does not say '$text': $(cat err)"
}

# Measured once, then kept.
expect 0 "measuring the machine" plan job.toml
expect 0 "predicted step" plan job.toml
grep -q measuring err && fault "the machine is measured again"
[ -s cache/dsflow/machine.toml ] || fault "nothing is kept: $(ls -R cache)"
# What is free, and so a budget that is auto, is never the same twice.
for out in a b; do
    "$dsflow" plan job.toml --json --set memory.device=1GiB \
        --set memory.host=1GiB > $out
done
cmp a b || fault "the same plan is predicted differently"

# What is measured again is written, the rest stays.
expect 0 "written to m.toml" bench memory --output m.toml
grep -v '^bandwidth' m.toml > a
grep -v '^bandwidth' cache/dsflow/machine.toml > b
cmp a b || fault "bench memory changes more than the bandwidth"
expect 0 "predicted step" plan job.toml --machine m.toml

# How far apart what was measured several times was, in the tables and the file.
expect 0 "scatter" bench gemm link --output s.toml
grep -q '1 core, GFLOP/s .*scatter, %$' out && grep -q '1 core, GB/s .*scatter, %$' out &&
    [ "$(grep -Ec ' +[0-9.]+ +[0-9.]+ +[0-9]+$' out)" -eq 12 ] || fault "bench names no scatter: $(cat out)"
grep -Eq '^weight gradient +768 x 3072 x 256 bf16 +[0-9.]+ ' out || fault "bench gemm has no bf16: $(cat out)"
grep -Eq '^bf16 = [0-9.e+]+$' s.toml || fault "the file has no speed of bf16: $(cat s.toml)"
sed -n '/^\[scatter\]/,/^$/p' s.toml > scatter
grep -Eq '^fp32 = [0-9.]+$' scatter && grep -Eq '^link = [0-9.]+$' scatter ||
    fault "the file has no scatter of fp32 or link: $(cat s.toml)"

# A file that is of another machine, or damaged, is not believed.
sed -i 's/^name = .*/name = "another"/' cache/dsflow/machine.toml
begins "measuring the machine" plan job.toml
echo "[machine" > cache/dsflow/machine.toml
begins "measured again" plan job.toml
XDG_CACHE_HOME=/dev/null expect 0 "is not kept" plan job.toml

# Nor are figures that no machine has; they are refused where they are described.
for figure in 'overhead = "9h"' "bandwidth = inf" "bandwidth = 1e300" "fp32 = 0" "fp32 = -1e9" "fp32 = nan"; do
    key=${figure%% *}
    sed "0,/^$key = /s/^$key = .*/$figure/" m.toml > bad.toml
    expect 2 "bad.toml:" plan job.toml --machine bad.toml
    grep -Eq "^dsflow: bad.toml:[0-9]+: machine: $key: .*: expected a " err ||
        fault "a machine with $figure: $(cat err)"
done
mv bad.toml cache/dsflow/machine.toml
expect 0 "; the machine is measured again" plan job.toml
expect 0 "predicted step" plan job.toml
grep -q measure err && fault "the machine is measured a third time"
sed 's/^\("mlp.forward" =\).*/\1 [0, 0, 0]/' m.toml > zero.toml
expect 2 "kinds: mlp.forward: [0, 0, 0]: expected three or four numbers" plan job.toml --machine zero.toml

# The disk of a job is measured again where what was kept of it cannot be.
nvme="--set offload.optimizer=nvme --set memory.nvme.path=."
# shellcheck disable=SC2086 # words are what separates flags
set -- plan job.toml $nvme
expect 0 "measuring the disk" "$@"
kept=$(echo cache/dsflow/disk-*.toml)
for figure in "write = 0" "read = -1" "write = nan"; do
    sed -i "s/^${figure%% *} = .*/$figure/" "$kept"
    expect 0 "; the disk is measured again" "$@"
    expect 0 "predicted step" "$@"
    grep -q measure err && fault "the disk is measured again after $figure: $(cat err)"
done
sed -i '/^\[disk\]/,/^$/d' "$kept"
expect 0 "disk: is missing; the disk is measured again" "$@"
expect 2 "disk: write: is missing: expected a number" plan job.toml --machine /dev/stdin << EOF
[machine]
fp32 = 1e11
bandwidth = 1e10
[disk]
read = 1e9
EOF

# Described machines: the same prediction wherever it is made.
for m in laptop workstation-1gpu h200-8 h200-64-nodes; do
    expect 0 "predicted step" plan job.toml --machine "$machines/$m.toml"
done
expect 0 "8 H200" plan job.toml --json --machine "$machines/h200-8.toml"
expect 2 "--set: mesh: data: 2 ranks in all: expected at most the 1 GPU of " plan job.toml \
    --set mesh.data=2 --machine "$machines/workstation-1gpu.toml"

# Disks: every way once, the sections to paste, and nothing is left.
mkdir disk1 disk2
expect 0 "for job.toml" bench io disk1 disk2 --quick --size 64MiB --output disk.toml
for line in "256KiB +1 " "1MiB +4 " "4MiB +16 " "1 +2 " "2 +1 " ".*read, GB/s " "dsflow  *[0-9.]+  *[0-9.]+  *[0-9.]+( |$)"; do
    grep -Eq "^$line" out || fault "bench io has no line '$line': $(cat out)"
done
if command -v fio > /dev/null; then
    grep -Eq "^dsflow / fio +[0-9]+\.[0-9]+ +[0-9]+\.[0-9]+ +[0-9]+\.[0-9]+$" out ||
        fault "bench io has nothing beside fio: $(cat out)"
else
    grep -q "^fio .*not installed" out || fault "bench io does not miss fio: $(cat out)"
fi
rmdir disk1 disk2 || fault "bench io left files"
sed -n '/^\[memory.nvme\]/,/^$/p' out > nvme
sed -n '/^\[disk\]/,/^$/p' out > disk
sed -n '/^\[disk\]/,/^$/p' disk.toml > disk.written
cmp disk disk.written || fault "bench io --output writes another disk than it says"
{ job; cat nvme; } > pasted.toml
mkdir disk1 disk2
expect 0 "predicted step" plan pasted.toml --machine disk.toml

# By itself, and without fio.
mkdir bin
ln -s "$(command -v "$dsflow")" bin/dsflow
PATH=$here/bin "$dsflow" bench io disk1 --size 32MiB --block 64KiB --depth 3 --quick > out 2> err ||
    fault "bench io without fio: $(cat err)"
grep -q "fio  *fio is not installed" out || fault "bench io without fio: $(cat out)"
grep -q '^block = "64KiB"$' out || fault "bench io chose another block: $(cat out)"
grep -q '^depth = 3$' out || fault "bench io chose another depth: $(cat out)"

# Ended in the middle: nothing is left.
"$dsflow" bench io disk1 --size 256MiB > out 2> err &
pid=$!
until_line "^256KiB" out || fault "bench io measures nothing: $(cat err)"
kill -TERM $pid 2> /dev/null || fault "bench io ended at once: $(cat err)"
wait $pid
[ $? -eq 143 ] || fault "bench io did not end when it was told to"
rmdir disk1 disk2 || fault "bench io left files when it was ended"

# What is wrong is named.
expect 2 "bench io: expected the folders to measure" bench io
expect 2 "nowhere: No such file or directory: expected a folder" bench io nowhere
expect 2 "job.toml: Not a directory: expected a folder" bench io job.toml
expect 2 'bench io: --size: 0: expected a size such as "1GiB"' bench io . --size 0
expect 2 'bench io: --block: 5000: expected a size such as "1MiB"' bench io . --block 5000
expect 2 "bench io: --block: expected 4MiB or what it is a multiple of" bench io . --block 12KiB
expect 2 "--depth" bench io . --depth 17
expect 1 "no room on the disk: 512.0 TiB needed" bench io . --size 512TiB
expect 2 "bench: disk: expected gemm, memory, tasks, link, gpu alone, or io and folders" bench disk
expect 2 "bench: io: expected gemm, memory, tasks, link, gpu alone, or io and folders" bench link io
expect 2 "bench: --size: expected with io and folders only" bench link --size 1GiB
expect 2 "no.toml" plan job.toml --machine no.toml
echo "[machine]" > bad.toml
echo "fp32 = \"fast\"" >> bad.toml
expect 2 "bad.toml:2: machine: fp32" plan job.toml --machine bad.toml
expect 2 "bench: --quick: expected with gpu, link -n, or io and folders only" bench gemm --quick
# A file that cannot be written is said before anything is measured.
for what in link "io ." "link -n 2"; do
    # shellcheck disable=SC2086
    expect 2 "/dev/null/m.toml: Not a directory" bench $what --output /dev/null/m.toml
    [ -s out ] && fault "bench $what measures what it cannot write: $(cat out)"
done
finish
