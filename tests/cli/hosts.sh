# hosts.sh - `dsflow run --hosts`: two nodes that are network namespaces, joined
# by a cable of their own, with a stand-in for ssh; the bytes of one process.
command -v mpirun > /dev/null && [ -e .libs/dsflow-mpi.so ] || exit 77
. "${srcdir:-.}/tests/cli/lib.sh"
tag=dsf$$
one=${tag}a two=${tag}b

# In another process, as a namespace may be refused in the middle.
make_nodes() {
    ip netns add $one && ip netns add $two &&
        ip link add ${tag}x netns $one type veth peer name ${tag}y netns $two &&
        ip -n $one addr add 10.213.7.1/24 dev ${tag}x &&
        ip -n $two addr add 10.213.7.2/24 dev ${tag}y &&
        ip -n $one link set ${tag}x up && ip -n $two link set ${tag}y up &&
        ip -n $one link set lo up && ip -n $two link set lo up &&
        ip netns exec $one unshare -u hostname nodea
}
trap 'ip netns del $one; ip netns del $two; rm -rf "$here"' EXIT
if ! make_nodes > made 2>&1; then
    echo "no network namespaces can be made here: $(cat made)"
    trap 'ip netns del $one 2> /dev/null; ip netns del $two 2> /dev/null; rm -rf "$here"' EXIT
    exit 77
fi

# on NODE COMMAND...: there, with a name and a folder for temporary files of its own.
cat > on <<END
#!/bin/sh
case \$1 in
10.213.7.1) name=$one ;;
10.213.7.2) name=$two ;;
*) echo "ssh: connect to host \$1 port 22: No route to host" >&2; exit 255 ;;
esac
shift
mkdir -p "$here/tmp-\$name"
exec ip netns exec \$name unshare -u sh -c "hostname \$name
TMPDIR=$here/tmp-\$name; export TMPDIR; exec \$*"
END
chmod +x on
OMPI_MCA_plm_rsh_agent=$here/on OMPI_MCA_btl=self,tcp ASAN_OPTIONS=detect_leaks=0
export OMPI_MCA_plm_rsh_agent OMPI_MCA_btl ASAN_OPTIONS

mesh="--set mesh.data=2 --set mesh.pipeline=2 --set zero.stage=3 --set zero.keep=0"
# shellcheck disable=SC2086
run one $mesh
timeout -k 5 100 ./on 10.213.7.1 \
    "'$dsflow' run job.toml --hosts 10.213.7.1:1,10.213.7.2:1 $mesh --set job.output=two" > log 2>&1 ||
    { fault "on two nodes: $?"; cat log; }
same one two
grep -q "^in 2 processes" log || { fault "it is one process"; cat log; }
bytes=$(ip -n $two -s link show ${tag}y | awk '/RX:/ { getline; print $1 }')
[ "$bytes" -gt 1000000 ] || fault "only $bytes bytes went to the other node"

# A node that cannot be reached, in a line.
timeout -k 5 100 ./on 10.213.7.1 \
    "'$dsflow' run job.toml --hosts 10.213.7.1,10.213.7.3 $mesh --set job.output=none" > log 2>&1
[ $? -eq 2 ] && [ "$(wc -l < log)" -eq 1 ] && grep -q "10.213.7.3 .*No route to host" log ||
    { fault "a node that is not there"; cat log; }
finish
