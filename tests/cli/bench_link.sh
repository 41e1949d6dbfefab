# bench_link.sh - messages between processes are measured, printed and kept.
. "${srcdir:-.}/tests/lib/mpi.sh"
. "${srcdir:-.}/tests/cli/lib.sh"

# expect STATUS TEXT ARGS...: the command ends so, and says so somewhere.
expect() {
    status=$1 text=$2
    shift 2
    timeout -k 5 200 "$dsflow" "$@" > out 2> err
    got=$?
    [ $got -eq $status ] || { fault "dsflow $*: status $got, not $status"; cat err; }
    grep -qF -e "$text" out err || { fault "dsflow $*: does not say '$text'"; cat out err; }
}

# table NAME FILE: that table of a machine file.
table() {
    sed -n "/^\\[$1\\]/,/^$/p" "$2"
}

# What a link is like that somebody has described stays where it is not measured.
expect 0 "written to before.toml" bench link --output before.toml
sed -i '/^\[network\]/,/^$/s/^bandwidth.*/bandwidth = 1.250000e+08/' before.toml
mkdir -p cache/dsflow
cp before.toml cache/dsflow/machine.toml
XDG_CACHE_HOME=$here/cache
export XDG_CACHE_HOME

expect 0 "written to m.toml" bench link -n 3 --quick --output m.toml
for cores in idle compute; do
    for to in 1 2; do
        grep -Eq "^0 and $to, on [^ ]+ +$cores +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9]+$" out ||
            fault "no line of processes 0 and $to, $cores: $(cat out)"
    done
done
[ "$(wc -l < out)" -eq 7 ] || fault "more is said: $(cat out)"
grep -q "^nodes = 1$" m.toml || fault "two hosts of one: $(cat m.toml)"
table network before.toml > a
table network m.toml > b
cmp a b || fault "what is between hosts has changed"
table link m.toml | grep -Eq '^duplex = (true|false)$' || fault "no duplex: $(table link m.toml)"
# The slower one of the two, which computed; one that is duplex, both ways at once.
slowest=$(awk '/ compute / { m = $8 < $9 ? $8 : $9
    if ($10 > 0.7 * m && $10 < m) m = $10
    if (l == "" || m < l) l = m } END { print l }' out)
table link m.toml | awk -v l="$slowest" '/^bandwidth/ { exit !($3 / 1e6 > l - 0.1 && $3 / 1e6 < l + 0.1) }' ||
    fault "not the slowest, $slowest MB/s: $(table link m.toml)"
for t in machine kinds; do
    table $t before.toml > a
    table $t m.toml > b
    cmp a b || fault "[$t] has changed"
done
expect 0 "predicted step" plan job.toml --machine m.toml

# In processes that are there already, and into the cache.
OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout -k 5 200 \
    mpirun --oversubscribe --bind-to none -n 2 "$dsflow" bench link --quick > out 2> err ||
    fault "in mpirun: $? $(cat err)"
grep -q "^written to $here/cache/dsflow/machine.toml$" out || fault "in mpirun: $(cat out err)"

# What is wrong is named, and nothing is begun.
expect 2 "bench: -n, --hosts, --hostfile: expected with link alone" bench memory -n 2
expect 2 "bench: -n, --hosts, --hostfile: expected with link alone" bench -n 2
expect 2 "bench: memory: expected nothing behind link" bench link memory -n 2
expect 2 "--processes: 1: expected a whole number, 2 to 65536" bench link -n 1
expect 2 "bench: --hosts: a:x: expected HOST[:N]" bench link --hosts a:x
expect 2 "bench: --size: not of links" bench link -n 2 --size 1GiB
expect 2 "unknown option" bench link -n 2 --restarts 1
expect 2 "/dev/null/m.toml" bench link -n 2 --output /dev/null/m.toml
finish
