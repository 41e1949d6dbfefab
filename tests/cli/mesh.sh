# mesh.sh - a run writes the same bytes on any mesh of ranks, and goes on from
# what another one wrote.
. "${srcdir:-.}/tests/cli/lib.sh"
job | sed 's/layers = 2/layers = 4/; s/heads = 2/heads = 4/' > job.toml

# on FOLDER FLAGS KEY=VALUE...: train there with these keys, in four groups.
on() {
    folder=$1 flags=$2
    shift 2
    for set in "$@"; do
        flags="$flags --set $set"
    done
    # shellcheck disable=SC2086
    run "$folder" --set batch.groups=4 --set machine.workers=2 $flags
}

on serial "--executor serial"
n=0
while read -r sets; do
    n=$((n + 1))
    # shellcheck disable=SC2086
    on mesh-$n "" $sets
    same serial mesh-$n
done << END
mesh.data=2
mesh.data=4 zero.stage=3 zero.keep=0
mesh.pipeline=2
mesh.pipeline=4 pipeline.schedule=zero_bubble recompute.what=block
mesh.data=2 mesh.pipeline=2 pipeline.schedule=interleaved zero.stage=2
mesh.data=2 batch.order=layer_major zero.stage=3 zero.keep=0
END

# What a rank holds is what was planned, to 2 %.
"$dsflow" run job.toml --set job.output=memory --set mesh.data=2 \
    --set zero.stage=3 --set model.width=256 --set job.steps=4 > out 2> log ||
    fault "does not run: $(tail -n 1 log)"
sed -n 's/.*tensors of rank [0-9]*, which has most: \([0-9.]*\) \([KMG]iB\), planned \([0-9.]*\) \([KMG]iB\).*/\1 \2 \3 \4/p' log |
    awk '{ d = ($1 - $3) / $3 } END {
        exit !(NR == 1 && $2 == $4 && d <= 0.02 && d >= -0.02)
    }' || fault "memory: $(grep tensors log)"

# One mesh after the other, each from the checkpoint of the one before.
on moved "" mesh.data=4 zero.stage=2 job.steps=3 schedule.total=10
on moved --resume mesh.pipeline=2 mesh.data=2 zero.stage=3 job.steps=7 \
    schedule.total=10
on moved "--resume --executor serial"
same serial moved

# Parts of tensors: other sums, so nearly the same loss, and the same bits for
# the same number of parts.
last_loss() {
    sed -n 's/.*"loss": *\([0-9.e+-]*\).*/\1/p' "$1/metrics.jsonl" | tail -n 1
}
on tensor "" mesh.tensor=2
on tensor-4 "" mesh.tensor=2 mesh.data=2 zero.stage=1
same tensor tensor-4
awk -v a="$(last_loss serial)" -v b="$(last_loss tensor)" 'BEGIN {
    d = a > b ? a - b : b - a
    exit !(a > 0 && d <= 1e-5 * a)
}' || fault "loss $(last_loss tensor) with tensor = 2, $(last_loss serial) without"
finish
