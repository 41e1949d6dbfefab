# graphs.sh - what each policy does to a small graph, as graphs.list says, is
# what graphs/NAME.dot shows, in 40 lines at most. UPDATE=1 writes them anew; read
# the difference.
set -u
dsflow=${DSFLOW:-dsflow}
here=$(cd "${srcdir:-.}/tests/golden" && pwd) || exit 99
work=$(mktemp -d "${TMPDIR:-/tmp}/dsflow-golden.XXXXXX") || exit 99
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 99
faults=0

fault() {
    echo "FAULT: $*"
    faults=$((faults + 1))
}

${CC:-cc} -shared -fPIC -I"$here/../../include" -o libattention.so \
    "$here/../../examples/plugins/attention.c" -lm || exit 99

cat > job.toml << 'END'
[job]
steps = 1
[model]
layers = 1
heads = 2
width = 32
context = 32
vocab = 256
[data]
train = "none.txt"
[batch]
sequences = 1
micro = 1
tile = 32
[memory.nvme]
path = "/tmp"
size = "1GiB"
[machine]
workers = 1
END

# The policies in their order, each with the one before it.
"$dsflow" list policies | awk '$1 ~ /^[a-z_]+$/ { print before, $1; before = $1 }' > order

# graph UNTIL SETS...
graph() {
    until=$1
    shift
    "$dsflow" plan job.toml --until "$until" --dot "$@" 2> error ||
        fault "$name: $(cat error)"
}

while read -r name policy only keys; do
    case $name in '' | '#'*) continue ;; esac
    set --
    for key in $keys; do
        [ "$key" = - ] || set -- "$@" --set "$key"
    done
    several=$(echo "$keys" | grep -c batch.sequences)
    before=$(awk -v p="$policy" '$NF == p && NF == 2 { print $1 }' order)
    : > before
    [ -z "$before" ] || graph "$before" "$@" | awk -v several="$several" -f "$here/compact.awk" > before
    graph "$policy" "$@" | awk -v several="$several" -f "$here/compact.awk" > after
    {
        echo "// $policy: $keys"
        echo 'digraph step {'
        grep -vxFf before after | awk -v only="$only" '
            { task = $0; sub(/.*-> /, "", task) } task ~ only'
        echo '}'
    } > graph
    expected=$here/graphs/$name.dot
    [ "${UPDATE:-}" = 1 ] && cp graph "$expected"
    diff "$expected" graph || fault "$expected"
    [ "$(wc -l < graph)" -gt 3 ] || fault "$name: shows no task"
    [ "$(wc -l < graph)" -le 40 ] || fault "$name: $(wc -l < graph) lines: expected 40 at most"
done < "$here/graphs.list"

# Every policy has one, and nothing else is there.
while read -r line; do
    policy=${line##* }
    grep -qE "^[a-z][^ ]* +$policy " "$here/graphs.list" ||
        fault "graphs.list has nothing of the policy $policy"
done < order
for file in "$here"/graphs/*; do
    name=$(basename "$file" .dot)
    grep -q "^$name " "$here/graphs.list" || fault "$file: is not in graphs.list"
done
exit $((faults > 0))
