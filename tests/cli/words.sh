# words.sh - what a run and its trace say at their end, for people: each figure
# has a unit, and a prediction stands beside what was measured.
machines=$(cd "${srcdir:-.}/examples/machines" && pwd)
. "${srcdir:-.}/tests/cli/lib.sh"

# has FILE PATTERN: a line of it is of that form.
has() {
    grep -Eq "$2" "$1" || { fault "no line like '$2'"; cat "$1"; }
}

time='[0-9.]+ (s|ms|us)'
size='[0-9.]+ ([KMGT]i)?B'
beside='([0-9.]+ x (slower|faster) than|as) predicted'

run run --trace --set machine.workers=2
has log "^step $time \(median\), predicted $time: $beside\$"
has log "^efficiency [0-9.]+ %( of $time on average)?: with tasks like these no order takes less than $time\$"
has log "^peak memory $size: $size tensors, $size the program and its libraries; planned $size\$"
grep -q "of it" log && fault "a ratio without words: $(grep 'of it' log)"

# The two parts of the peak are all of it.
sed -n 's/^peak memory \([^:]*\): \(.*\) tensors, \(.*\) the program.*/\1 \2 \3/p' log |
    awk '
        function bytes(n, unit) {
            return n * (unit == "GiB" ? 1024 : unit == "MiB" ? 1 : 1 / 1024)
        }
        { d = bytes($1, $2) - bytes($3, $4) - bytes($5, $6) }
        END { exit !(NR == 1 && d < 0.2 && d > -0.2) }' ||
    fault "the parts are not the whole: $(grep peak log)"

"$dsflow" trace run > out || fault "trace"
has out "^step $time, predicted $time: $beside\$"

# A graph that Graphviz would not draw in minutes: its standard output is whole,
# and the smaller job that is named works and is small.
large="--machine $machines/laptop.toml --set model.layers=40 --set batch.sequences=48
    --set mesh.data=2 --set mesh.pipeline=2 --set pipeline.schedule=interleaved"
"$dsflow" plan job.toml $large --dot > large.dot 2> err || fault "--dot: $(cat err)"
has err "^dsflow: warning: the graph has [0-9]* tasks, .*--until .* makes a small job"
[ "$(said | grep -vc "^dsflow: building the graph")" -eq 1 ] ||
    fault "more than a line: $(cat err)"
smaller=$(sed -n 's/.*; \(--set .*\) makes a small job.*/\1/p' err)
"$dsflow" plan job.toml $large $smaller --dot > small.dot 2> err ||
    fault "--dot $smaller: $(cat err)"
[ -s err ] && fault "the smaller job is warned of: $(cat err)"
[ "$(wc -l < small.dot)" -lt "$(($(wc -l < large.dot) / 4))" ] ||
    fault "$smaller is not smaller"
tail -n 1 large.dot | grep -qx '}' || fault "the graph is not whole"

# The serial executor is not what was predicted.
run serial --executor serial
has log "^step $time \(median\)\$"
finish
