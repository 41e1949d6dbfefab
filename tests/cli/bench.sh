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

# Measured once, then kept.
expect 0 "measuring the machine" plan job.toml
expect 0 "predicted step" plan job.toml
grep -q measuring err && fault "the machine is measured again"
[ -s cache/dsflow/machine.toml ] || fault "nothing is kept: $(ls -R cache)"
"$dsflow" plan job.toml --json > a
"$dsflow" plan job.toml --json > b
cmp a b || fault "the same plan is predicted differently"

# What is measured again is written, the rest stays.
expect 0 "written to m.toml" bench memory --output m.toml
grep -v '^bandwidth' m.toml > a
grep -v '^bandwidth' cache/dsflow/machine.toml > b
cmp a b || fault "bench memory changes more than the bandwidth"
expect 0 "predicted step" plan job.toml --machine m.toml

# A file that is of another machine, or damaged, is not believed.
sed -i 's/^name = .*/name = "another"/' cache/dsflow/machine.toml
expect 0 "measuring the machine" plan job.toml
echo "[machine" > cache/dsflow/machine.toml
expect 0 "measured again" plan job.toml
XDG_CACHE_HOME=/dev/null expect 0 "is not kept" plan job.toml

# Described machines: the same prediction wherever it is made.
for m in laptop workstation-1gpu h200-8 h200-64-nodes; do
    expect 0 "predicted step" plan job.toml --machine "$machines/$m.toml"
done
expect 0 "8 H200" plan job.toml --json --machine "$machines/h200-8.toml"
expect 2 "expected at most the 1 GPUs of workstation" plan job.toml \
    --set mesh.data=2 --machine "$machines/workstation-1gpu.toml"

# What is wrong is named.
expect 2 "bench: io: expected gemm, memory, tasks or link" bench io
expect 2 "no.toml" plan job.toml --machine no.toml
echo "[machine]" > bad.toml
echo "fp32 = \"fast\"" >> bad.toml
expect 2 "bad.toml:2: machine: fp32" plan job.toml --machine bad.toml
expect 1 "/dev/null/m.toml" bench link --output /dev/null/m.toml
finish
