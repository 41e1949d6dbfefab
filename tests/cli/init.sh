# init.sh - a job.toml to begin with, and what there is to set.
. "${srcdir:-.}/tests/cli/lib.sh"
rm -f job.toml

"$dsflow" init > out 2> err || fault "init: $(cat err)"
[ "$(cat out)" = "job.toml: put a text of yours in data.train, then: dsflow plan job.toml" ] ||
    fault "init says: $(cat out)"
[ -z "$(awk 'length > 80' job.toml)" ] || fault "init: long lines"
cp job.toml before
"$dsflow" init > out 2> err
[ $? -eq 2 ] && [ "$(cat err)" = "dsflow: job.toml: is there already, and stays as it is" ] ||
    fault "init once more: $(cat err)"
cmp job.toml before || fault "init wrote over a job.toml"

# It trains with a text as it is, and nothing in it is without effect.
"$dsflow" plan job.toml > out 2> err || fault "plan: $(cat err)"
[ -z "$(said)" ] || fault "plan of the job that init writes: $(cat err)"
"$dsflow" run job.toml --steps 2 --set schedule.warmup=2 --set model.layers=1 --set model.width=32 \
    --set model.context=32 --set sample.tokens=5 --set validation.sequences=4 > log 2>&1 ||
    fault "run of the job that init writes: $(cat log)"
[ "$(grep -c '"step":.*"lr"' runs/mine/metrics.jsonl)" -eq 2 ] || fault "not two steps: $(cat runs/mine/metrics.jsonl)"

# What stands behind a # is the default: set, it changes nothing.
sed 's/^#\([a-z]\)/\1/' job.toml > all.toml
"$dsflow" plan job.toml --json --set memory.device=1GiB --set memory.host=1GiB > a
"$dsflow" plan all.toml --json --set memory.device=1GiB --set memory.host=1GiB > b 2> err
cmp a b || fault "init shows other defaults: $(cat err)"

# A folder of its own, whose name is that of the run.
"$dsflow" init 'jobs "x"' > out 2> err || fault "init in a folder: $(cat err)"
grep -qx 'output = "runs/jobs \\"x\\""\|output = .runs/jobs "x".' 'jobs "x"/job.toml' || fault "the name: $(grep '^output' jobs*/job.toml)"
# One that is no text cannot be a name.
odd=$(printf 'jobs\377')
"$dsflow" init "$odd" > out 2> err && grep -qx 'name = "mine"' "$odd/job.toml" || fault "init in a folder that is no text: $(cat err)"
"$dsflow" init no/such > out 2> err
[ $? -eq 2 ] && [ "$(cat err)" = "dsflow: no/such: No such file or directory" ] || fault "init no/such: $(cat err)"
: > file
"$dsflow" init file > out 2> err
[ $? -eq 2 ] && [ "$(cat err)" = "dsflow: file/job.toml: Not a directory" ] || fault "init file: $(cat err)"

# --steps: the last word.
run run-3 --steps 3 --set job.steps=5 --set model.layers=1 --set model.width=32 --set model.context=32 --set sample.tokens=0 --set validation.sequences=4
[ "$(grep -c '"step":.*"lr"' run-3/metrics.jsonl)" -eq 3 ] || fault "--steps 3: $(cat log)"
for n in 0 -1 ten 1.5 ""; do
    "$dsflow" run job.toml --steps "$n" > out 2> err
    [ $? -eq 2 ] && [ "$(cat err)" = "dsflow: --steps: $n: expected a whole number, 1 to 1000000000" ] ||
        fault "--steps $n: $(cat err)"
done

# keys EXPECTED WORDS...: of this table or key, these keys.
keys() {
    expected=$1
    shift
    [ "$("$dsflow" list keys "$@" | sed -n 's/^\([a-z][a-z_.]*\) [=(].*/\1/p' | tr '\n' ' ')" = "$expected" ] ||
        fault "list keys $*: $("$dsflow" list keys "$@" 2>&1)"
}
keys "optimizer.lr " lr
keys "optimizer.lr " optimizer.lr
keys "job.seed sparse_attention.seed sample.seed " seed
keys "recompute.what recompute.layers " recompute
keys "optimizer.eps zero.stage " zero.stage eps
keys "memory.device memory.host " memory
keys "memory.nvme.depth " depth
[ "$("$dsflow" list keys | grep -c '^    expects')" -gt 90 ] || fault "list keys: too few"
[ "$("$dsflow" list keys lr --json | grep -c '"key"')" -eq 1 ] || fault "list keys lr --json"
"$dsflow" list keys min_ratio | grep -qx '    used with schedule.kind = warmup_cosine or warmup_linear' || fault "no condition"
no_key() {
    "$dsflow" list keys "$1" > out 2> err
    [ $? -eq 2 ] && [ ! -s out ] && [ "$(cat err)" = "dsflow: list keys: $1: no table and no key$2" ] ||
        fault "list keys $1: $(cat out err)"
}
no_key optimiser "; did you mean optimizer?"
no_key zero.stages "; did you mean zero.stage?"
no_key hidden_size "; dsflow's is model.width"
no_key qqqqqqqq ""

# Lines as wide as there is room; a key and its default are not parted.
for columns in 60 80 300; do
    COLUMNS=$columns "$dsflow" list keys > out
    [ "$(awk '{ if (length > n) n = length } END { print n }' out)" -le $columns ] ||
        fault "$columns columns: $(awk -v n=$columns 'length > n' out)"
    tr -s ' \n' ' ' < out > words.$columns
done
cmp words.60 words.300 || fault "words are lost between the lines"
finish
