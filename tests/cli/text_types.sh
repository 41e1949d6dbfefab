# text_types.sh - text and losses are made in the type in which a run computes,
# or the one that is asked for.
. "${srcdir:-.}/tests/cli/lib.sh"

# Both are of one token at a time, from the first on.
says() {
    "$dsflow" generate "$@" --tokens 30 --temperature 0 --prompt L
}

# The folder has the numbers that the run computes with: the same bits.
for type in bf16 fp16; do
    run $type --set precision.compute=$type --set sample.tokens=20 \
        --set data.validation=0.1 --set optimizer.lr=1e-2
    "$dsflow" checkpoint export $type $type-hf > log 2>&1 || fault "export: $(cat log)"
    says $type > a 2> err || fault "generate $type: $(cat err)"
    says $type-hf --set precision.compute=$type > b 2> err || fault "generate $type-hf: $(cat err)"
    cmp a b || fault "$type: the run and its folder say something else"
    [ "$(wc -c < a)" -ge 20 ] || fault "$type: $(cat a)"
    "$dsflow" eval $type > a 2> err || fault "eval $type: $(cat err)"
    "$dsflow" eval job.toml --set model.init=$type-hf --set job.output=none \
        --set precision.compute=$type --set data.validation=0.1 > b 2> err || fault "eval $type-hf: $(cat err)"
    cmp a b || fault "$type: the run and its folder have other losses"
    for keys in head=fp32 compute=fp32; do
        says $type --set precision.$keys > a 2> err || fault "generate $type, $keys: $(cat err)"
        [ "$(wc -c < a)" -ge 20 ] || fault "$type, $keys: $(cat a)"
    done
done

# A run in fp32, in another type.
run wide
says wide --set precision.compute=bf16 > a 2> err || fault "generate wide: $(cat err)"
[ "$(wc -c < a)" -ge 20 ] || fault "in bf16: $(cat a)"
"$dsflow" generate wide --set precision.compute=bf8 > a 2> err
[ $? -eq 2 ] && grep -q "precision: compute: .bf8.: expected" err || fault "bf8: $(cat err)"
finish
