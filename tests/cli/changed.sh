# changed.sh - a run whose job has changed: what differs is named, and it goes on
# where that makes sense.
. "${srcdir:-.}/tests/cli/lib.sh"
job | sed 's/steps = 10/steps = 20/' > job.toml
run whole
cp -r whole before

# Checkpoints of before have a hash of all of it and, the oldest, nothing else.
for optimizer in adamw:eb34d2608a72480a adam:3b3e4f6972c859de \
    sgd:99a8ab9e47b59717 lion:83e64708aea203be; do
    kind=${optimizer%:*}
    run of --set optimizer.kind=$kind --set job.steps=1 --set schedule.warmup=0
    sed -i "/\"of\": {/,/},/d; s/\"identity\": \"[^\"]*\"/\"identity\": \"${optimizer#*:}\"/" \
        of/checkpoints/step-1/manifest.json
    rm of/job.toml
    run of --set optimizer.kind=$kind --set job.steps=2 --set schedule.warmup=0 --resume
    grep -q "$(printf '"optimizer.kind": "%s"' $kind)" of/checkpoints/step-2/manifest.json ||
        fault "$kind: the checkpoint does not say what it is of"
    sed -i "s/\"identity\": \"[^\"]*\"/\"identity\": \"1234\"/; /\"of\": {/,/},/d" \
        of/checkpoints/step-2/manifest.json
    "$dsflow" run job.toml --set job.output=of --set optimizer.kind=$kind --set job.steps=3 --resume > log 2>&1 &&
        fault "$kind: a checkpoint of something else is accepted"
    rm -r of
done

# Nothing to go on from: said, and begun.
run nothing --resume --set job.steps=1 --set schedule.warmup=0
grep -q "^nothing has no checkpoint: starts from the beginning" log || fault "no checkpoint: $(cat log)"
for flags in "--resume=other" "--resume --overwrite"; do
    "$dsflow" run job.toml --set job.output=whole $flags > log 2>&1
    [ $? -eq 2 ] || fault "$flags is accepted"
done
"$dsflow" run job.toml --set job.output=whole --resume --set job.steps=7 > log 2>&1
[ $? -eq 2 ] && grep -q "job: steps: 7: whole/checkpoints/step-20 is of step 20 already" log ||
    fault "fewer steps than there are: $(cat log)"

# A key that nothing reads counts for nothing.
cp -r whole idle
run idle --resume --set model.rope_theta=5.0 --set model.rope_factor=2.0 --set optimizer.momentum=0.5
grep -q "in the run, now" log && fault "keys without an effect: $(cat log)"
same idle before

# Another job does not go on from these. Each key that differs is named, with
# both values, and what it does.
# refuses FORM KEY=VALUE...: into log.
refuses() {
    resume=$1
    shift
    "$dsflow" run job.toml --set job.output=whole $resume $(printf -- '--set %s ' "$@") > log 2>&1
    [ $? -eq 2 ] || fault "$resume: $* is accepted: $(cat log)"
    same whole before
}
says() {
    grep -q -e "^dsflow: $1" log || fault "not said: $1: $(cat log)"
}
refuses --resume model.width=64 optimizer.lr=3e-4 job.seed=3
says "warning: model.width: 32 in the run, now 64: its weights do not fit"
says "warning: job.seed: 1 in the run, now 3: the text would begin anew"
says "optimizer.lr: 0.001 in the run, now 0.0003: the checkpoint does not depend on it"
says "whole/checkpoints/step-20: cannot go on with another model.width: its weights do not fit"
[ "$(grep -c "in the run, now" log)" -eq 5 ] || fault "a width has a head and an MLP: $(cat log)"
while read -r key value line; do
    refuses --resume $key=$value
    says "warning: $key: $line"
    refuses --resume=changed $key=$value
    says "whole/checkpoints/step-20: cannot go on with another $key"
done << EOF
model.layers 3 2 in the run, now 3: its weights do not fit
model.heads 4 2 in the run, now 4: its weights do not fit
model.context 64 48 in the run, now 64: its weights do not fit
model.family llama gpt2 in the run, now llama: its weights do not fit
optimizer.kind lion adamw in the run, now lion: its states of the optimizer do not fit
EOF
while read -r key value line; do
    refuses --resume $key=$value
    says "warning: $key: $line"
    says "whole/checkpoints/step-20: the job has changed ($key): set it back, or go on with --resume=changed"
    rm -rf copy && cp -r whole copy
    run copy --set job.steps=21 --set $key=$value --resume=changed
    says "warning: $key: "
    says "warning: copy/checkpoints/step-20: goes on with the job as it is now, not bit for bit; the text"
    [ -e copy/checkpoints/step-21 ] || fault "$key: there is no step 21"
done << EOF
batch.sequences 8 4 in the run, now 8: the steps have another size
batch.micro 2 1 in the run, now 2: sums have another order
batch.groups 2 1 in the run, now 2: sums have another order
batch.tile 16 1 to a micro-batch in the run, now 3 to a micro-batch
batch.sequence 24 48 in the run, now 24: the text would begin anew
job.seed 9 1 in the run, now 9: the text would begin anew
data.shuffle false true in the run, now false: the text would begin anew
model.norm_eps 1e-6 1e-05 in the run, now 1e-06: the model computes something else
EOF
refuses --resume data.validation=0.1
says "warning: data.validation: 0.05 in the run, now 0.1: the text would begin anew"
sed 's/text.txt/other.txt/' job.toml > other.toml
sed 's/small/large/' text.txt > other.txt
"$dsflow" run other.toml --set job.output=whole --resume > log 2>&1
[ $? -eq 2 ] || fault "another text is accepted"
says "warning: data.train: the text is another than in the run"
cp text.txt same.txt
sed 's/text.txt/same.txt/' job.toml > other.toml
"$dsflow" run other.toml --set job.output=whole --resume > log 2>&1 || fault "the same text under another name: $(cat log)"
# What does not count is said, and no hindrance.
run whole --resume --set optimizer.lr=3e-4
says "optimizer.lr: 0.001 in the run, now 0.0003: the checkpoint does not depend on it"

# Of keys that say together how weights are rounded, one line tells.
rm -rf copy && cp -r whole copy
run copy --set job.steps=21 --resume --set weights.quantize=symmetric --set weights.bits=3 \
    --set weights.group=16
says "warning: weights.quantize: none in the run, now symmetric 3 to 3 bits, period 1000 in groups of 16 "
grep -q "weights\.[bg]" log && fault "said twice: $(cat log)"

# Where it has a list, that counts, and not the hash; a key more or fewer in it
# is no difference.
cp -r whole listed
sed -i 's/"identity": "[^"]*"/"identity": "1234"/; /"model.rope_factor"/d; s/"of": {/&"mine.key": "7",/' \
    listed/checkpoints/step-20/manifest.json
run listed --resume
sed -i 's/"batch.micro": "1"/"batch.micro": "2"/' listed/checkpoints/step-20/manifest.json
"$dsflow" run job.toml --set job.output=listed --resume > log 2>&1 && fault "another batch.micro is accepted"
says "warning: batch.micro: 2 in the run, now 1: sums have another order"

# A checkpoint of before, without the names of what it is of: the jobs are
# compared. What the contents of the text are it has with all else.
run old
sed -i '/"of": {/,/},/d' old/checkpoints/step-20/manifest.json
"$dsflow" checkpoint verify old > log 2>&1 || fault "a checkpoint of before: $(cat log)"
run old --resume
for set in model.layers=3 batch.micro=2 data.train=other.txt; do
    "$dsflow" run job.toml --set job.output=old --resume --set $set > log 2>&1
    [ $? -eq 2 ] || fault "an old checkpoint and $set: $(cat log)"
    says "warning: ${set%=*}: "
done
run old --resume=changed --set batch.micro=2 --set job.steps=21

# After a change of batch the text goes on where it was. Nothing is learnt here,
# so that a loss says which sequences it is of.
loss() {
    sed -n "s/^{\"step\": *$2, *\"loss\": *\([^,]*\),.*/\1/p" "$1/metrics.jsonl"
}
still="--set optimizer.lr=0 --set schedule.kind=constant --set schedule.warmup=0"
run eight $still --set job.steps=7 --set batch.sequences=8 --set batch.micro=1
run four $still --set job.steps=10
run four $still --set job.steps=12 --set batch.sequences=8 --resume=changed
run four $still --set job.steps=14 --set batch.sequences=4 --resume=changed
for steps in "11 6" "12 7"; do
    set -- $steps
    [ -n "$(loss four $1)" ] && [ "$(loss four $1)" = "$(loss eight $2)" ] ||
        fault "step $1 after 40 sequences has loss $(loss four $1), not $(loss eight $2)"
done
run straight $still --set job.steps=16
[ "$(loss four 13)" = "$(loss straight 15)" ] && [ "$(loss four 14)" = "$(loss straight 16)" ] ||
    fault "after 56 sequences: $(loss four 13), not $(loss straight 15)"
run four $still --set job.steps=16 --set batch.sequences=4 --resume
grep -q "goes on with the job as it is now" log && fault "the job has not changed again: $(cat log)"
run unmixed $still --set job.steps=2 --set data.shuffle=false
run four $still --set job.steps=18 --set data.shuffle=false --resume=changed
[ "$(loss four 17)" = "$(loss unmixed 1)" ] && [ "$(loss four 18)" = "$(loss unmixed 2)" ] ||
    fault "a text in another order does not begin anew"

# With groups = "auto" a run keeps the groups it began with, as long as its
# ranks can have them: no bit changes.
run four-ranks --set mesh.data=4
run fewer --set mesh.data=4 --set job.steps=10 --set schedule.total=20
run fewer --set mesh.data=2 --set job.steps=15 --set schedule.total=20 --resume
run fewer --resume
same four-ranks fewer
# One that began with fewer groups than there are ranks now cannot.
refuses --resume mesh.data=2 job.steps=30
says "warning: batch.groups: 1 in the run, now 2: sums have another order"
says "warning: batch.groups: \"auto\" is mesh.data; a run that has batch.groups = 2 from its start goes on bit for bit on 1 to 2 data ranks"
says "whole/checkpoints/step-20: the job has changed (batch.groups): set mesh.data back, or go on with --resume=changed"

# The same of ranks that share sequences.
run tokens --set mesh.sequence=4
run shorter --set mesh.sequence=4 --set job.steps=10 --set schedule.total=20
run shorter --set mesh.sequence=2 --set job.steps=15 --set schedule.total=20 --resume
run shorter --resume
same tokens shorter
refuses --resume mesh.sequence=2 job.steps=30
says "warning: batch.sequence_groups: 1 in the run, now 2: sums have another order"
says "warning: batch.sequence_groups: \"auto\" is mesh.sequence; a run that has batch.sequence_groups = 2 from its start goes on bit for bit on 1 to 2 ranks of a sequence"
says "whole/checkpoints/step-20: the job has changed (batch.sequence_groups): set mesh.sequence back, or go on with --resume=changed"
finish
