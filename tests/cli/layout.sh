# layout.sh - `dsflow plan --layout` prints what [sparse_attention] asks for, and
# what cannot be trained with is refused.
. "${srcdir:-.}/tests/cli/lib.sh"

cat > job.toml <<END
[job]
steps = 1
[model]
layers = 3
heads = 2
width = 8
vocab = 256
context = 128
[sparse_attention]
mode = "fixed"
attention = "unidirectional"
num_local_blocks = 2
different_layout_per_head = true
num_different_global_patterns = 2
layers = "1-2"
[data]
train = ["job.toml"]
validation = 0.0
END

# says EXPECTED COMMAND…: all that it prints.
says() {
    expected=$1
    shift
    "$dsflow" "$@" > out 2>&1
    printf "$expected" > wanted
    cmp -s wanted out || fault "dsflow $*: $(cat out)"
}

says "10000000
11000000
01100000
01110000
01011000
01011100
01010110
01010111

fixed, head 0 of 2, layer 1: 8 x 8 blocks of 16 tokens
density 0.375: 24 of 64 blocks
not behind the queries: density 0.6667, 24 of 36
" plan job.toml --layout
says "10000000
11000000
10100000
10110000
10101000
10101100
10101010
10101011

fixed, head 1 of 2, layer 1: 8 x 8 blocks of 16 tokens
density 0.375: 24 of 64 blocks
not behind the queries: density 0.6667, 24 of 36
" plan job.toml --layout=1
says "1111
1111
1111
1111

dense, head 0 of 2, layer 0: 4 x 4 blocks of 32 tokens
density 1: 16 of 16 blocks
not behind the queries: density 1, 10 of 10
" plan job.toml --layout --set sparse_attention.mode=dense --set sparse_attention.block=32 --set sparse_attention.layers=all

# wrong MESSAGE COMMAND…
wrong() {
    message=$1
    shift
    "$dsflow" "$@" > out 2> err
    status=$?
    [ "$status" = 2 ] || fault "dsflow $*: status $status"
    [ "$(cat err)" = "dsflow: $message" ] || fault "dsflow $*: $(cat err)"
}
# A step is planned with what is before the queries only.
"$dsflow" plan job.toml > out 2> err || fault "plan: $(cat err)"
behind="expected \"unidirectional\": tokens of these models do not see those behind them"
wrong "--set: sparse_attention: attention: \"bidirectional\": $behind" plan job.toml --set sparse_attention.attention=bidirectional
wrong "--set: sparse_attention: attention: \"auto\", which is \"bidirectional\" in this mode: $behind" run job.toml --set sparse_attention.attention=auto
wrong "--set: sparse_attention: layers: \"3\": expected \"all\", or layers 0 to 2 such as \"0-5,8\"" plan job.toml --set 'sparse_attention.layers="3"'
wrong "job.toml: sparse_attention: block: 16: expected a divisor of the sequence, 100 tokens; sequences of 96 and 112 are the nearest" plan job.toml --set batch.sequence=100
wrong "--layout=2: expected a head, 0 to 1" plan job.toml --layout=2
wrong "--layout=x: expected a head, 0 to 1" plan job.toml --layout=x
wrong "plan: --layout and --json: expected one of them" plan job.toml --layout --json
wrong "--set: sparse_attention: layers: \"2-3\": expected \"all\", or layers 0 to 2 such as \"0-5,8\"" plan job.toml --layout --set sparse_attention.layers=2-3
wrong "--set: sparse_attention: mode: \"diagonal\": expected dense, fixed, variable, bigbird, bslongformer or local_sliding_window" plan job.toml --set sparse_attention.mode=diagonal
wrong "job.toml: sparse_attention: block: 16: expected a divisor of the sequence, 100 tokens; sequences of 96 and 112 are the nearest" plan job.toml --layout --set batch.sequence=100

"$dsflow" list layouts > out || fault "list layouts"
for mode in dense fixed variable bigbird bslongformer local_sliding_window; do
    grep -q "^$mode .*built-in" out || fault "list layouts: no $mode"
done

# A Hugging Face folder has no word for a layout: that is said, not kept silent.
"$dsflow" checkpoint export job.toml hf --step 0 > out 2>&1 || fault "export: $(cat out)"
grep -q 'cannot say sparse_attention.mode = "fixed"' out ||
    fault "an export without its layout: $(cat out)"
"$dsflow" checkpoint export job.toml hf2 --step 0 --set sparse_attention.mode=dense > out 2>&1 ||
    fault "export: $(cat out)"
! grep -q sparse_attention out || fault "a dense export: $(cat out)"
finish
