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

# Ranks that share sequences, for equal groups of tokens.
tokens="mesh.sequence=4 batch.groups=1 batch.sequence_groups=4"
on tokens "--executor serial" batch.groups=1 batch.sequence_groups=4
for sets in "$tokens mesh.sequence_kind=keys" \
    "$tokens mesh.sequence_kind=heads zero.stage=3 zero.keep=0 recompute.what=block" \
    "$tokens mesh.sequence_kind=heads mesh.pipeline=2 zero.stage=1"; do
    n=$((n + 1))
    # shellcheck disable=SC2086
    on mesh-$n "" $sets
    same tokens mesh-$n
done

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

on ring "" batch.groups=1 batch.sequence_groups=4 job.steps=3 schedule.total=10
on ring --resume $tokens mesh.sequence_kind=keys zero.stage=2 job.steps=7 \
    schedule.total=10
on ring --resume $tokens mesh.sequence_kind=heads zero.stage=2 job.steps=9 \
    schedule.total=10
on ring "--resume --executor serial" batch.groups=1
same tokens ring

# Which of the two it is, and why.
shared() {
    kind=$1
    shift
    "$dsflow" plan job.toml --set mesh.sequence=4 "$@" > out 2> /dev/null ||
        fault "no plan by $kind: $(cat out)"
    grep -q "$kind" out || fault "by $kind: $(grep stretch out)"
}
shared "keys of other ranks [0-9]* tiles at a time; so a rank receives [0-9.]* [KM]iB, by heads [0-9.]* [KM]iB" \
    --set mesh.sequence_kind=keys
shared "attention by heads" --set mesh.sequence_kind=heads
shared "attention by heads: a rank has up to 1.50 times an even share" \
    --set mesh.sequence=3 --set batch.sequence=48 --set mesh.sequence_kind=heads
shared "by heads a rank would have up to 1.50 times an even share" \
    --set mesh.sequence=3 --set batch.sequence=48 --set mesh.sequence_kind=keys
"$dsflow" plan job.toml --set mesh.sequence=4 --json 2> /dev/null |
    grep -Eq '"kind": "(keys|heads)"' || fault "no kind in the plan as JSON"
shared "mesh.sequence_kind=[a-z]*: the fastest of 2 that fit"

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

# Whole gradients that ZeRO 2 and 3 leave on each rank are said, with what the
# other way would need; nothing where they pass by.
grads() {
    "$dsflow" plan job.toml --json "$@" 2> /dev/null |
        sed -n 's/.*"grads": *\([0-9]*\).*/\1/p' | sort -n | tail -n 1 |
        awk '{ if ($1 >= 1048576) printf "%.1f MiB", $1 / 1048576; else printf "%.1f KiB", $1 / 1024 }'
}
for sizes in "--set model.layers=8 --set model.width=64" ""; do
    shared="--set mesh.data=2 --set zero.stage=2 $sizes"
    step=$(grads $shared) micro=$(grads $shared --set zero.reduce=micro)
    more="more, "
    [ -n "$sizes" ] && more=
    text="zero.stage = 2 with zero.reduce = \"step\": each rank keeps whole gradients, up to $step, until the end of the step; zero.reduce = \"micro\", which regroups the sums, would need $more$micro"
    "$dsflow" plan job.toml $shared > out 2>&1
    grep -qxF "$text" out || fault "whole gradients: expected '$text': $(tail -n 1 out)"
done
"$dsflow" run job.toml $shared --set job.output=whole --set job.steps=1 > log 2>&1
grep -qxF "$text" log || fault "whole gradients of a run: $(cat log)"
for sets in zero.stage=1 zero.reduce=micro batch.order=layer_major batch.micro=2; do
    "$dsflow" plan job.toml $shared --set $sets > out 2>&1
    grep -q "whole gradients" out && fault "whole gradients with $sets: $(cat out)"
done
finish
