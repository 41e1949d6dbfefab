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

# has FILE KEY VALUE: of JSON with a key a line.
has() {
    grep -q "^ *\"$2\": $3,*\$" "$1" || fault "$1: $2 is not $3: $(grep "\"$2\"" "$1")"
}

# An exported folder is the same model again, with the same tokenizer.
for name in bytes json pair; do
    tok=bytes
    [ $name = json ] && tok=$tiny
    [ $name = pair ] && tok=gpt2 && mkdir gpt2 &&
        { echo '{'
          grep -E '^ *".*": [0-9]+,?$' bytes-hf/tokenizer.json
          echo ', "<|endoftext|>": 256}'; } > gpt2/encoder.json &&
        echo "#version: 0.2" > gpt2/vocab.bpe
    run $name --set data.tokenizer=$tok
    "$dsflow" checkpoint export $name $name-hf > log 2>&1 ||
        fault "export of $name: $(cat log)"
    "$dsflow" checkpoint export $name $name-16 --dtype bf16 > log 2>&1 ||
        fault "export of $name: $(cat log)"
    timeout 60 "$dsflow" run init.toml --set job.output=$name-2 \
        --set model.init=$name-hf --set optimizer.lr=0 > out 2> err ||
        fault "init from $name-hf: $(cat err)"
    grep -q "the tokenizer is $name-hf, .*model.init has it" err ||
        fault "init from $name-hf: $(cat err)"
    "$dsflow" checkpoint export $name-2 $name-3 > log 2>&1 || fault "$(cat log)"
    for f in $name-hf/*; do
        cmp "$f" "$name-3/${f##*/}" || fault "$f is another after a round trip"
    done
    # A folder in the place of a run: of the same weights, the same folder.
    "$dsflow" checkpoint export $name-hf $name-4 --dtype bf16 > log 2>&1 || fault "$(cat log)"
    for f in $name-16/*; do
        cmp "$f" "$name-4/${f##*/}" || fault "$f is another from a folder"
    done
    has $name-hf/config.json dtype '"float32"'
    has $name-16/config.json torch_dtype '"bfloat16"'
    has $name-hf/tokenizer_config.json model_max_length 48
    [ -s $name-hf/generation_config.json ] || fault "no generation_config.json"
    "$dsflow" eval $name > 1st && "$dsflow" eval $name-2 > 2nd && cmp 1st 2nd ||
        fault "$name: another loss after a round trip"
    "$dsflow" generate $name-hf --tokens 20 > 1st && "$dsflow" generate $name --tokens 20 > 2nd &&
        cmp 1st 2nd || fault "$name: another text after a round trip"
done
has bytes-hf/config.json eos_token_id null
has bytes-hf/config.json bos_token_id null
has bytes-hf/tokenizer_config.json tokenizer_class '"PreTrainedTokenizerFast"'
for role in bos eos; do
    has json-hf/config.json ${role}_token_id 271
    has json-hf/generation_config.json ${role}_token_id 271
    has json-hf/tokenizer_config.json ${role}_token '"<|endoftext|>"'
    has pair-hf/config.json ${role}_token_id 256
done
has json-hf/config.json pad_token_id null
has pair-hf/tokenizer_config.json tokenizer_class '"GPT2Tokenizer"'
[ -f pair-hf/vocab.json ] && [ -f pair-hf/merges.txt ] ||
    fault "the files of the pair: $(ls pair-hf)"

# What the source said of its tokens stays.
cp -r json-hf source
sed 's/"eos_token_id": 271/"eos_token_id": [271, 272]/' json-hf/config.json > source/config.json
cat > source/tokenizer_config.json <<'END'
{"model_max_length": 1000000000000000019884624838656, "pad_token": {"content": "<tool>"}, "chat_template": "{{ x }}", "n": 3}
END
echo '{"temperature": 0.6, "eos_token_id": [271, 272]}' > source/generation_config.json
echo '{{ messages }}' > source/chat_template.jinja
run sourced --set model.init=source --set model.layers=auto --set model.heads=auto \
    --set model.width=auto --set model.context=auto
"$dsflow" checkpoint export sourced sourced-hf > log 2>&1 || fault "$(cat log)"
tr -d '\n ' < sourced-hf/config.json | grep -q '"eos_token_id":\[271,272\],"pad_token_id":null' ||
    fault "ids of the source: $(cat sourced-hf/config.json)"
tr -d '\n ' < sourced-hf/tokenizer_config.json |
    grep -q '"model_max_length":48,"pad_token":{"content":"<tool>"},"chat_template":"{{x}}","n":3,' ||
    fault "settings of the source: $(cat sourced-hf/tokenizer_config.json)"
has sourced-hf/generation_config.json temperature 0.6
cmp source/chat_template.jinja sourced-hf/chat_template.jinja || fault "the template of chats is lost"

# Text ends where the folder of its tokenizer says so: at the end of a turn, too.
all=$(seq -s, 0 273)
for file in generation_config config; do
    rm -rf ends
    mkdir ends && cp "$tiny" ends/tokenizer.json
    echo "{\"eos_token_id\": [$all, 5000]}" > ends/$file.json
    run ended --overwrite --set data.tokenizer=ends
    "$dsflow" generate ended --prompt "Line 7" --tokens 20 > out 2> err || fault "$(cat err)"
    [ "$(cat out)" = "Line 7" ] || fault "$file: goes on behind the end: $(cat out)"
    rm -rf ends ended-hf
    "$dsflow" generate ended --prompt "Line 7" --tokens 20 > out 2> err || fault "$(cat err)"
    [ "$(cat out)" = "Line 7" ] || fault "$file: another end where the folder is gone: $(cat out)"
    "$dsflow" checkpoint export ended ended-hf > log 2>&1 || fault "$(cat log)"
    for f in config generation_config; do
        tr -d '\n ' < ended-hf/$f.json | grep -q "\"eos_token_id\":\[$all\]" ||
            fault "$f: other ends: $(cat ended-hf/$f.json)"
    done
done

# The token that a tokenizer puts before a text: before each file, and before a
# prompt.
mkdir begins && cp "$tiny" begins/tokenizer.json
echo '{"add_bos_token": true, "bos_token": {"content": "<tool>"}}' > begins/tokenizer_config.json
cp text.txt more.txt
tokens() {
    run $1 --set data.tokenizer=begins --set data.begin=$2 --set data.validation=0.1 \
        --set 'data.train=["text.txt","more.txt"]'
    sed -n 's/.* \([0-9]*\) tokens\{0,1\} to train on, \([0-9]*\) to validate.*/\1 \2/p' log
}
tokens unbegun false > few && tokens begun true > more
[ "$(cat more)" = "$(($(cut -d ' ' -f 1 few) + 2)) $(cut -d ' ' -f 2 few)" ] ||
    fault "begins: $(cat few), then $(cat more)"
"$dsflow" generate begun --prompt Line --tokens 9 > 1st 2> err || fault "$(cat err)"
"$dsflow" generate begun --prompt '<tool>Line' --tokens 9 --set data.begin=false > 2nd 2> err ||
    fault "$(cat err)"
sed 's/^<tool>//' 2nd | cmp - 1st || fault "begins: $(cat 1st) is not $(cat 2nd)"
"$dsflow" plan job.toml --set data.begin=true > out 2> err
[ $? -eq 2 ] && [ "$(cat err)" = "dsflow: --set: data: begin: true: tokenizer bytes puts no token before a text: expected false" ] ||
    fault "begin with bytes: $(cat err)"

# What transformers would read otherwise is said.
run biased --set model.family=llama --set model.qkv_bias=true
says "load this tokenizer with PreTrainedTokenizerFast" checkpoint export biased biased-hf
silent checkpoint export bytes again-hf

# Sixteen bits.
"$dsflow" checkpoint export bytes out16 --dtype fp8 > out 2> err
[ $? -eq 2 ] && [ "$(cat err)" = "dsflow: --dtype: fp8: expected fp32, bf16 or fp16" ] ||
    fault "--dtype fp8: $(cat err)"
"$dsflow" checkpoint list bytes --dtype bf16 > out 2> err
[ $? -eq 2 ] || fault "list --dtype: $(cat err)"
"$dsflow" checkpoint export bytes fp16 --dtype fp16 > out 2> err || fault "$(cat err)"
has fp16/config.json dtype '"float16"'
size=$(wc -c < fp16/model.safetensors) whole=$(wc -c < bytes-hf/model.safetensors)
[ $((size * 2)) -lt $((whole + 20000)) ] || fault "fp16 has $size bytes of $whole"

# Weights that are found wrong when they are read cost no earlier run.
run long
"$dsflow" checkpoint export long broken > log 2>&1 || fault "no export: $(cat log)"
printf '\000\000\300\177' | dd of=broken/model.safetensors bs=1 conv=notrunc 2> /dev/null \
    seek=$(($(wc -c < broken/model.safetensors) - 4))
cp -r long whole
"$dsflow" run job.toml --set job.output=long --set model.init=broken --overwrite > out 2> err
[ $? -eq 2 ] && tail -n 1 err | grep -q "broken/model.safetensors: .*nan" || fault "a weight that is no number: $(cat err)"
same long whole

# What a sample has no room for is said at the start of a run, and nothing at its
# end; generate says where it stopped.
run long --overwrite --set sample.tokens=50 --set sample.prompt=abc
[ "$(grep -c "context" log)" -eq 1 ] &&
    sed 's/.*sample.tokens/sample.tokens/; 1q' log | grep -q \
        "^sample.tokens: 50: after a prompt of 3 the model's context of 48 has room for 46$" ||
    fault "a sample beyond the context: $(cat log)"
run fits --set sample.tokens=46 --set sample.prompt=abc
grep -q "context" log && fault "a sample within the context: $(cat log)"
"$dsflow" run job.toml --set sample.tokens=1 --set sample.prompt="$(head -c 60 text.txt)" \
    > out 2> err
[ $? -eq 2 ] && [ "$(cat err)" = "dsflow: --set: sample: prompt: 60 tokens: expected at most the model's context, 48" ] ||
    fault "a prompt beyond the context: $(cat err)"
says "stopped after 46 of 60 tokens: the model's context of 48 is full" \
    generate long --prompt abc --tokens 60
silent generate long --prompt abc --tokens 46
grep -q context err && fault "generate within the context: $(cat err)"

# Samples of the shipped examples, which are of bytes, fit in what is trained.
for e in "$(dirname "$tiny")"/../../../examples/*.toml; do
    awk -F ' = ' '/^context/ && !n { n = $2 } /^sequence =/ { n = $2 }
        /^prompt/ { split($2, p, "\""); k = length(p[2]) }
        /^\[sample\]/ { on = 1 } on && /^tokens/ { t = $2 }
        END { exit !(t == "" || k + t - 1 <= n) }' "$e" ||
        fault "$e: its sample is longer than what it trains on"
done

finish
