# hosts.sh - `dsflow run --hosts` and `--hostfile` on two nodes, which are network
# namespaces with a stand-in for ssh between them: the bytes of one process, and a
# line for what one of the nodes lacks or has otherwise.
. "${srcdir:-.}/tests/lib/mpi.sh"
source=$(cd "${srcdir:-.}" && pwd)
built=$PWD
. "${srcdir:-.}/tests/cli/lib.sh"
. "$source/tests/lib/nodes.sh"
make_nodes || exit 77
case $dsflow in
*/*) ;;
*) dsflow=$(command -v "$dsflow") ;;
esac
mesh="--set mesh.data=2 --set mesh.pipeline=2 --set zero.stage=3 --set zero.keep=0"
printf 'nodea slots=1\nnodeb slots=1\n' > hostfile

# on_nodes STATUS ARGS...: a user at nodea runs it.
on_nodes() {
    expected=$1
    shift
    # shellcheck disable=SC2086
    at_nodea timeout -k 5 100 "$dsflow" run job.toml $mesh "$@" > log 2>&1
    status=$?
    [ $status -eq "$expected" ] ||
        { fault "$*: status $status, not $expected"; cat log; }
}

# refused TEXT ARGS...: with status 2, before the first step, in one line.
refused() {
    text=$1
    shift
    on_nodes 2 --hosts nodea,nodeb --set job.output=none "$@"
    grep -v "measuring the machine" log > said
    [ "$(grep -c "^dsflow: " said)" -eq 1 ] && grep -q -e "^dsflow: $text" said &&
        ! grep -q "^step " said || { fault "not in a line: $text"; cat log; }
    rm -rf none
}

# alone: nothing runs on the nodes any more.
alone() {
    until_none "$1" left_on_nodes
}

# The same bytes; ten steps on four processes and ten on two, too.
keys="--set job.steps=20 --set checkpoint.every=10 --set checkpoint.keep=2"
# shellcheck disable=SC2086
{
    run one $mesh $keys
    on_nodes 0 --hosts nodea:2,nodeb:2 $keys --set job.output=four --trace=all
    same one four
    grep -q "^in 4 processes" log || { fault "not four"; cat log; }
    ! unshare --time true 2> /dev/null || grep -q "are known to" log ||
        { fault "nothing of two clocks"; cat log; }
    echo step-10 > four/checkpoints/latest
    rm -r four/checkpoints/step-20
    on_nodes 0 --hostfile hostfile $keys --set job.output=four --resume
    grep -q "^in 2 processes" log || { fault "not two"; cat log; }
    same one four
}
# Two emulated GPUs on each: ranks 2 and 3 are on the second node's.
gpus=$built/tests/gpu/.libs/dsflow-cuda-emulated.so
if [ -e "$gpus" ]; then
    DSFLOW_CUDA=$gpus DSFLOW_NCCL=no DSFLOW_EMULATED_LATE=50 DSFLOW_EMULATED_GUARD=0
    export DSFLOW_CUDA DSFLOW_NCCL DSFLOW_EMULATED_LATE DSFLOW_EMULATED_GUARD
    # shellcheck disable=SC2086
    DSFLOW_EMULATED_GPUS=4 run gpus $mesh --set machine.gpus=4 --set job.steps=3
    export DSFLOW_EMULATED_GPUS=2
    on_nodes 0 --hosts nodea,nodeb --set machine.gpus=2 --set job.steps=3 --set job.output=far
    same gpus far
    grep -q "^on 4 GPUs: " log || { fault "not four GPUs"; cat log; }
    unset DSFLOW_CUDA DSFLOW_NCCL DSFLOW_EMULATED_GPUS DSFLOW_EMULATED_LATE DSFLOW_EMULATED_GUARD
fi
bytes=$(ip -n "${spaces}b" -s link show cable | awk '/RX:/ { getline; print $1 }')
[ "$bytes" -gt 1000000 ] || fault "only $bytes bytes went to the other node"
alone "runs that ended"

# What the other node has not, or has otherwise.
hide() {
    echo "mkdir -p $here/empty && mount --bind $here/empty $1" > nodeb.sh
}
refused "run: mpirun could not start the processes: .*nodec .*No route to host" \
    --hosts nodea,nodec
mkdir -p none && hide "$here/none"
refused "process 1 (host nodeb): job.toml: job: output: none: .*that all hosts share"
sed s/number/figure/ text.txt > other.txt
echo "mount --bind $here/other.txt $here/text.txt" > nodeb.sh
refused "process 1 (host nodeb): job.toml: data: the text is another"
echo "mount --bind /dev/null $here/text.txt" > nodeb.sh
refused "process 1 (host nodeb): .*text.txt"
echo "export DSFLOW_ISA=portable" > nodeb.sh
refused "process 1 (host nodeb): its kernels are those for portable: expected"
hide "$(dirname "$dsflow")"
refused "run: mpirun could not start the processes: .*executable: .*Node: nodeb"
rm nodeb.sh

# begin OUTPUT: two processes in the background; $pid is the shell's, $launcher of
# dsflow at nodea.
begin() {
    out=$1
    shift
    rm -f at-nodea
    # shellcheck disable=SC2086
    at_nodea "$dsflow" run job.toml $mesh --hosts nodea,nodeb --set job.steps=100000 \
        --set job.output="$out" --set job.log_every=1 --set run.patience=2 "$@" \
        > "$out.log" 2>&1 &
    pid=$!
    until_line '"loss"' "$out/metrics.jsonl" || { fault "$out: no step"; cat "$out.log"; }
    launcher=$(cat at-nodea)
}

# ended STATUS TEXT: so, with one line that says that; nothing is left.
ended() {
    timeout 60 tail --pid=$pid -f /dev/null || fault "$out: it does not end"
    wait $pid
    status=$?
    [ $status -eq "$1" ] && [ "$(grep -cE -e "$2" "$out.log")" -eq 1 ] ||
        { fault "$out: status $status, not $1, or not once: $2"; cat "$out.log"; }
    alone "$out"
}

# A signal to the launcher saves once; a death on the other node and a cable that
# is cut are named.
begin stopped
kill -TERM "$launcher"
ended 143 "^stopped after step [0-9]*, which is saved"
begin dead
for p in $(ip netns pids "${spaces}b"); do
    [ "$(cat "/proc/$p/comm")" = "$(basename "$dsflow")" ] && kill -KILL "$p"
done
ended 1 "^dsflow: process 1 \(.*nodeb.*\) (died in step|was killed by signal 9)"

# In an allocation of Slurm, whose srun has a stand-in, SIGTERM to all of it saves,
# too: that to the daemon of the other node is left to the launcher.
mkdir slurm
cat > slurm/srun <<END
#!/bin/sh
while case \$1 in -*) true ;; *) false ;; esac; do shift; done
SLURM_NODEID=0 TMPDIR=$here/nodeb
export SLURM_NODEID TMPDIR
exec ip netns exec ${spaces}b unshare -u -m sh $here/enter nodeb "\$@"
END
chmod +x slurm/srun
(
    PATH=$here/slurm:$PATH
    SLURM_JOB_ID=1 SLURM_JOBID=1 SLURM_NODELIST=nodea,nodeb SLURM_TASKS_PER_NODE="1(x2)"
    export PATH SLURM_JOB_ID SLURM_JOBID SLURM_NODELIST SLURM_TASKS_PER_NODE
    begin allocated
    # shellcheck disable=SC2046
    kill -TERM $(ip netns pids "${spaces}a") $(ip netns pids "${spaces}b")
    ended 143 "^stopped after step [0-9]*, which is saved"
    ! grep "^dsflow: " allocated.log && ls allocated/checkpoints/step-* > log
) || { fault "SIGTERM to an allocation"; cat allocated.log; }

# A host that stays away is left out of a restart, with the same bytes.
keys="--set job.steps=400 --set checkpoint.every=20 --set checkpoint.keep=1"
# shellcheck disable=SC2086
run long $mesh $keys
begin away $keys --restarts 1
until [ -e away/checkpoints/latest ]; do sleep 0.05; done
touch nodeb.away
for p in $(ip netns pids "${spaces}b"); do
    [ "$(cat "/proc/$p/comm")" = "$(basename "$dsflow")" ] && kill -KILL "$p"
done
ended 0 "nodeb cannot be reached: it goes on without"
grep -q "restart 1 of 1" away.log || { fault "no restart"; cat away.log; }
same long away
rm nodeb.away
begin cut
ip -n "${spaces}b" link set cable down
ended 1 "^dsflow: .*process 1 \(.*nodeb.*\).* last heard"
finish
