# moved.sh - a run that is moved, alone, is all that it takes to go on: what its
# model began with, and its tokenizer, need not be there.
. "${srcdir:-.}/tests/cli/lib.sh"
tiny=$(cd "$OLDPWD" && cd "${srcdir:-.}" && pwd)/tests/unit/text/tiny_tokenizer.json
sed 's/^steps.*/steps = 2/; s/^warmup.*/warmup = 0/' job.toml > one && mv one job.toml
sed '/^layers/d; /^heads/d; /^width/d; s/^\[model\]/&\ninit = "hf"/' job.toml > init.toml
cp "$tiny" tok.json

# ok COMMAND...: it succeeds.
ok() {
    timeout 60 "$dsflow" "$@" > out 2> err || fault "dsflow $*: status $?: $(cat err)"
}

# says PATTERN: the last command said it on standard error.
says() {
    grep -q -e "$1" err || fault "no '$1' in: $(cat err)"
}

# look FOLDER: what can be asked of run `mine` here, kept in that folder.
look() {
    mkdir "$1"
    ok generate mine --prompt "Line 7" --tokens 12 --seed 3
    mv out "$1/text"
    ok checkpoint export mine hf-of-mine
    mv hf-of-mine "$1"
    ok eval mine
    mv out "$1/loss"
}

for family in gpt2 llama; do
    rm -rf base hf mine far there
    run base --set model.family=$family --set data.tokenizer=tok.json
    ok checkpoint export base hf
    echo '{"temperature": 0.6}' > hf/generation_config.json
    sed -i 's/"bos_token_id": [0-9]*/"bos_token_id": 7/; s/"eos_token_id": [0-9]*/"eos_token_id": [3, 4]/' hf/config.json
    ok run init.toml --set job.output=mine --set model.family=$family --trace=1:2
    look there
    mkdir far
    cp -r mine text.txt far
    mv hf hf-elsewhere

    cd far || exit 99
    look here
    says "model.init hf is not there any more: the sizes are those of mine"
    diff -r ../there here || fault "$family: other text, loss or export"
    ok trace mine
    grep -q "changes\? that were tried\|each simulated" out ||
        fault "$family: no advice: $(cat out)"
    ok plan mine --set mesh.data=2

    # With it, too, the run would have gone on to the same bits.
    ok run mine --resume --set job.steps=4
    cd ..
    mv hf-elsewhere hf
    ok run mine --resume --set job.steps=4
    same mine far/mine
    grep -q '^init = "hf"' far/mine/job.toml || fault "$family: $(cat far/mine/job.toml)"
done

# Weights that only the other folder has are not made up.
cd far || exit 99
"$dsflow" generate mine --step 0 > out 2> err
[ $? -eq 2 ] && says "mine/job.toml:[0-9]*: model: init: hf: no such folder"
"$dsflow" run ../init.toml > out 2> err
[ $? -eq 2 ] && says "init.toml:[0-9]*: model: init: hf: no such folder"

# Of a tokenizer that was named, the same; and a run that begins with one that was
# moved has its tokenizer.
cp -r ../base .
ok generate base --tokens 3
says "data.tokenizer tok.json is not there any more: it is base/tokenizer"
for from in base mine; do
    sed "s/\"hf\"/\"$from\"/" ../init.toml > next.toml
    ok run next.toml --set job.output=next-$from
    says "the tokenizer is $from/tokenizer, 274 tokens"
    grep -q warning err && fault "$(cat err)"
    ok generate next-$from --tokens 3
    ok checkpoint export next-$from next-hf
    ok checkpoint export $from from-hf
    for f in config.json generation_config.json tokenizer_config.json; do
        cmp from-hf/$f next-hf/$f || fault "$f is not that of the first model"
    done
    rm -r next-hf from-hf
done
cd ..

# So it is where another tokenizer has the name by now, which --resume goes on with
# where the job is not that of the folder, or --set says so: never.
rm -rf mine there here
run mine --set data.tokenizer=tok.json
look there
sed 's/"m": 109/"m": 110/; s/"n": 110/"n": 109/' "$tiny" > tok.json
cmp -s "$tiny" tok.json && fault "the tokenizer has not changed"
look here
says "data.tokenizer tok.json is another than in the run: it is mine/tokenizer"
diff -r there here || fault "another tokenizer: other text, loss or export"
sed 's/"hf"/"mine"/' init.toml > next.toml
ok run next.toml --set job.output=next
says "the tokenizer is mine/tokenizer, 274 tokens"
grep -q warning err && fault "$(cat err)"
for from in "job.toml --set job.output=mine" mine; do
    # shellcheck disable=SC2086 # words
    "$dsflow" run $from --resume --set job.steps=3 --set data.tokenizer=tok.json > out 2> err
    [ $? -eq 2 ] && says "cannot go on with another data.tokenizer"
done
ok run mine --resume --set job.steps=3

# A run that another one began with may lose its checkpoints, or be emptied.
rm -rf there here
mv mine first
mv next mine
sed -i 's/^init = "mine"/init = "first"/' mine/job.toml
look there
rm -r first/checkpoints/*
look here
says "model.init first has no weights any more: the sizes are those of mine"
diff -r there here || fault "without weights: other text, loss or export"
rm -r first/* here
look here
diff -r there here || fault "an empty folder: other text, loss or export"
ok run mine --resume --set job.steps=3
"$dsflow" generate mine --step 0 > out 2> err
[ $? -eq 2 ] && says "mine/job.toml:[0-9]*: model: init: first: has no weights any more"
mkdir none
"$dsflow" run init.toml --set job.output=from-none --set model.init=none > out 2> err
[ $? -eq 2 ] && says "model: init: none: has no config.json"

# What is left of a run that was in the folder is not taken for that of the next one.
cp "$tiny" tok.json
run again --set data.tokenizer=tok.json
run again --overwrite
sed 's/"hf"/"again"/' init.toml > next.toml
ok run next.toml --set job.output=after
says "the tokenizer is bytes, 256 tokens"
grep -q warning err && fault "$(cat err)"
ok checkpoint export after bytes-hf
mkdir gpt2
{
    echo '{'
    grep -E '^ *".*": [0-9]+,?$' bytes-hf/tokenizer.json
    echo ', "<|endoftext|>": 256}'
} > gpt2/encoder.json
echo "#version: 0.2" > gpt2/vocab.bpe
run again --overwrite --set data.tokenizer=gpt2
rm -r gpt2
ok generate again --tokens 3

# Bytes are no files, and a job that is no run's is refused as before.
run bytes
[ -e bytes/tokenizer ] && fault "bytes have a tokenizer: $(ls bytes/tokenizer)"
rm tok.json
"$dsflow" generate job.toml --set job.output=base --set data.tokenizer=tok.json > out 2> err
[ $? -eq 2 ] && says "data: tokenizer: tok.json: No such file or directory"

# A run goes on with its own model where another one has the name by now,
# though its weights would do.
rm -rf mine there here base hf next
run base --set model.family=llama
ok checkpoint export base hf
ok run init.toml --set job.output=mine
cp -r mine next
sed -i 's/^init = "hf"/init = "base"/' next/job.toml
look there
sed -i 's/"rope_theta": 10000.0/"rope_theta": 500.0/' hf/config.json
look here
says "model.init hf is another model than in the run (model.rope_theta is 500 there, and was 10000): the sizes are those of mine"
diff -r there here || fault "another model: other text, loss or export"
ok run mine --resume --set job.steps=3
"$dsflow" generate mine --step 0 > out 2> err
[ $? -eq 2 ] && says "mine/job.toml:[0-9]*: model: init: hf: is not the model that the run began"
ok generate mine --step 0 --set model.init=hf
echo '{}' > hf/config.json
ok generate mine
says "model.init hf is no model any more that can be read: the sizes are those of mine"
run base --overwrite --set model.family=llama --set model.window=4
ok generate next
says "model.init base is another model than in the run (model.window is 4 there, and was 0)"

# A job that was changed beside its run says so.
run changed
"$dsflow" generate job.toml --set job.output=changed --tokens 1 > out 2> err
[ -s err ] && grep -q warning err && fault "nothing has changed: $(cat err)"
sed 's/^\[model\]/&\nnorm_eps = 0.1/' job.toml > less.toml
for job in "changed --set model.norm_eps=0.1" "less.toml --set job.output=changed"; do
    # shellcheck disable=SC2086 # words
    ok eval $job
    [ "$job" != "${job#less}" ] || ! grep -q warning err || fault "asked for: $(cat err)"
done
says "model.norm_eps: 1e-05 in the run, now 0.1: the model computes something else"
for job in job.toml changed; do
    "$dsflow" checkpoint export $job x-hf --set job.output=changed --set model.heads=4 > out 2> err
    [ $? -eq 2 ] && says "model.heads is 2 in it, and 4 in the job: its weights do not fit"
done
# A loss on text of its own needs no other, not even that it was trained on.
cp text.txt held.txt
run mine --overwrite --set data.validation_files=held.txt
ok eval mine
mv out loss
mkdir off
cp -r mine held.txt off
cd off || exit 99
rm -rf mine/cache
ok eval mine
cmp out ../loss || fault "another loss without the text it was trained on"
ok eval mine --set data.train=[]
cmp out ../loss || fault "another loss with no text to train on"
for text in "mine/job.toml:[0-9]*: data: train: text.txt: No such file" "data: train: \[\]: expected a file or more"; do
    "$dsflow" run mine --resume --set job.steps=3 > out 2> err
    [ $? -eq 2 ] && says "$text"
    sed -i 's/^train = .*/train = []/' mine/job.toml
done
cd ..
finish
