# models.sh - models from Hugging Face folders and back: which tokenizer is used,
# what an exported folder has, and that it is the same model again.
. "${srcdir:-.}/tests/cli/lib.sh"
tiny=$(cd "$OLDPWD" && cd "${srcdir:-.}" && pwd)/tests/unit/text/tiny_tokenizer.json
sed 's/^steps.*/steps = 1/; s/^warmup.*/warmup = 0/' job.toml > one && mv one job.toml

# says PATTERN COMMAND...: it succeeds, and says so once on standard error.
says() {
    pattern=$1
    shift
    timeout 60 "$dsflow" "$@" > out 2> err ||
        fault "dsflow $*: status $?: $(cat err)"
    [ "$(grep -c -e "$pattern" err)" -eq 1 ] ||
        fault "dsflow $*: no '$pattern' in: $(cat err)"
}

# silent COMMAND...: it succeeds and warns of nothing.
silent() {
    timeout 60 "$dsflow" "$@" > out 2> err ||
        fault "dsflow $*: status $?: $(cat err)"
    grep -qi "warning\|tokenizer" err && fault "dsflow $*: says $(cat err)"
}

# A model of 274 tokens and one of 300, with a tokenizer in the folder.
for vocab in 274 300; do
    run v$vocab --set data.tokenizer="$tiny" \
        --set model.vocab=$vocab
    "$dsflow" checkpoint export v$vocab hf$vocab > log 2>&1 ||
        fault "export: $(cat log)"
    rm -f hf$vocab/*tokeni* && cp "$tiny" hf$vocab/tokenizer.json
done
sed '/^layers/d; /^heads/d; /^width/d; /^context/d; s/^\[model\]/&\ninit = "hf274"/' \
    job.toml > init.toml

# The folder's tokenizer is the default, and is named.
says "the tokenizer is hf274, 274 tokens: model.init has it" \
    run init.toml --set job.output=a
grep -qi warning err && fault "its own tokenizer: $(cat err)"
says "the tokenizer is hf274, 274 tokens" eval init.toml
silent run init.toml --set job.output=b \
    --set data.tokenizer=hf274/tokenizer.json
same a b
silent run init.toml --set job.output=c \
    --set data.tokenizer="$tiny"
same a c
says "goes on from" run init.toml --set job.steps=2 --set job.output=a --resume

# Another one, or one that is too small, is a warning.
says "data.tokenizer bytes (256 tokens) is not the tokenizer of model.init hf274 (274 tokens)" \
    run init.toml --set job.output=d --set data.tokenizer=bytes
says "data.tokenizer hf300 has 274 tokens, and the model of model.init hf300 has 300" \
    run init.toml --set job.output=e --set model.init=hf300 --overwrite
rm hf274/tokenizer.json
says "data.tokenizer bytes has 256 tokens, and the model of model.init hf274 has 274" \
    run init.toml --set job.output=f
grep -q "the tokenizer is bytes, 256 tokens: model.init has none" err ||
    fault "a folder without one: $(cat err)"

# One that cannot be read is an error that says how to go on.
echo '{"model": {"type": "Unigram"}}' > hf274/tokenizer.json
"$dsflow" run init.toml > out 2> err
[ $? -eq 2 ] && [ "$(cat err)" = "dsflow: init.toml: data: tokenizer: is not given, and that of model.init cannot be read: hf274/tokenizer.json: model: type Unigram is not supported; expected BPE" ] ||
    fault "a tokenizer of another kind: $(cat err)"
silent plan init.toml --set data.tokenizer="$tiny"

finish
