# codelet.sh - `dsflow codelet check` finds every fault of a bad plug-in, says
# what it is under the codelet's name, and goes on with the rest.
. "${srcdir:-.}/tests/cli/lib.sh"
src=$(cd "$OLDPWD" && cd "${srcdir:-.}" && pwd)
cases=0

# Without instrumentation: what is wrong here is for dsflow to find.
${CC:-cc} -shared -fPIC -I"$src/include" -o libbad.so "$src/tests/cli/bad.c" -lm ||
    { echo "the plug-in does not compile"; exit 1; }

"$dsflow" codelet check libbad.so --timeout 1 > out 2> err
[ $? -eq 1 ] || fault "a library with faults: status is not 1: $(cat err)"
[ -s err ] && fault "on standard error: $(cat err)"

# is NAME TEXT: the line of NAME has these words after the number of cases.
is() {
    cases=$((cases + 1))
    grep -Eq "^$1 +(-|[0-9]+)  $2" out ||
        fault "$1: '$(grep "^$1 " out)', not '$2'"
}
is good "ok"
is untried_as_it_has_no_trials_for_it "not tried: it has no trials"
is bad_crash "FAULT +crashes: SIGSEGV at address 0x10, outside its buffers .in [0-9]+ fp32, out [0-9]+ fp32, sum [0-9]+ fp32; --seed 1 --cases 1"
is bad_access "FAULT +writes port in, which it declares as R, at byte 0 "
is bad_past "FAULT +writes 4 bytes past the end of port out "
is bad_far "FAULT +writes past the end of port out, at byte 40[0-9]+ of "
is bad_before "FAULT +writes 4 bytes before the beginning of port out "
is bad_nan "FAULT +returns NaN in port out, element [0-9]+ "
is bad_twice "FAULT +is not the same twice: port out, element 0: "
is bad_held "FAULT +depends on what port out held before, which it declares as W "
is bad_fresh "FAULT +depends on what port sum held before, which is fresh in this case "
is bad_scratch "FAULT +depends on what its scratch held before: port out, element 0: "
is bad_address "FAULT +differs at other addresses, on another thread: port out, element 0: "
is bad_kept "FAULT +differs while another thread runs it on another case: port out, element [0-9]+: .*--seed 1 --cases 16"
is bad_rounding "FAULT +changes how its thread rounds numbers, or traps what is none, for all tasks behind it "
is bad_number "FAULT +differs from its reference in port out, element [0-9]+: "
is bad_short "FAULT +does not write port out, element [0-9]+ "
is bad_hang "FAULT +hangs: more than 1 s "
is bad_exit "FAULT +ends the program with exit status 3 .*--seed 1 "
is bad_abort "FAULT +crashes: SIGABRT "
is bad_stack "FAULT +crashes: it uses up the stack "
is bad_gradient "FAULT +its gradient is wrong: port datt is .*, by differences of the forward pass "
is bad_padding "FAULT +port param, number [0-9]+ is padding, and becomes -0.01: expected 0 "
is bad_shard "FAULT +a shard of numbers 0 to [0-9]+ differs from the whole unit in port param, "
is bad_scale "FAULT +does not multiply the gradient by the scale of the control, which clips it: port param, number [0-9]+: "
is "schedule bad_rate" "FAULT +the rate of step 8 is -0.001: expected a number from 0 on "
is "policy bad_policy" "FAULT +does not give the same graph twice "
is "format bad_error" "FAULT +[-0-9.e]+ becomes [-0-9.e]+ in a block of up to [-0-9.e]+: expected at most 0.001 times that between them .*--seed 1 --cases 1"
is "format bad_infinity" "FAULT +nan becomes 0: expected no finite number "
[ "$(grep -c . out)" -eq $((cases + 1)) ] || fault "other lines: $(cat out)"
# Also below a name that is longer than the others.
awk 'NR == 1 { at = index($0, "cases") + 5 }
     NR > 1 && substr($0, at - 1, 4) !~ /^[-0-9]  [^ ]/' out > shifted
[ -s shifted ] && fault "not below the head: $(cat shifted)"

# Names choose; the status is that of what was chosen.
"$dsflow" codelet check libbad.so good untried_as_it_has_no_trials_for_it > out || fault "good: status $?"
[ "$(grep -c . out)" -eq 3 ] || fault "names: $(cat out)"

# The built-in ones pass, with any seeds.
"$dsflow" codelet check builtin --cases 8 --seed 20260101 > out ||
    fault "built-in: $(grep FAULT out)"
# Segments whole, and as a part of one tensor rank.
for op in embed.forward embed.backward_weight qkv.forward qkv.backward_input \
          qkv.backward_weight attention.forward attention.backward_input \
          out.forward out.backward_input out.backward_weight mlp.forward \
          mlp.hidden mlp.backward_input mlp.backward_weight head.forward \
          head.backward_input head.backward_weight head.logits \
          head.forward_columns head.backward_columns \
          head.backward_input_columns head.backward_weight_columns; do
    grep -q "^$op  *16  ok" out || fault "$op: $(grep "^$op " out)"
done
for op in head.loss head.loss_columns norm.forward norm.backward_input norm.backward_weight \
          residual.forward residual.backward_weight; do
    grep -q "^$op  *8  ok" out || fault "$op: $(grep "^$op " out)"
done

# A gradient in bf16 that is a small sum of large numbers.
"$dsflow" codelet check builtin mlp.backward_input --seed 388 --cases 1 > out ||
    fault "bf16: $(grep FAULT out)"

# Sums of no numbers would be of no type.
"$dsflow" codelet check builtin add reduce --seed 420 --cases 2 > out ||
    fault "sums: $(grep FAULT out)"

# What has a CUDA side, and no GPU to try it on.
DSFLOW_CUDA=no "$dsflow" codelet check builtin adam --cases 1 > out || fault "adam: $(cat out)"
[ "$(tail -n 1 out)" = "CUDA sides were not tried: DSFLOW_CUDA=no" ] &&
    [ "$(grep -c . out)" -eq 3 ] || fault "without GPUs: $(cat out)"

# wrong MESSAGE ARGS...: one line, and status 2.
wrong() {
    message=$1
    shift
    "$dsflow" codelet "$@" > out 2> err
    [ $? -eq 2 ] || fault "codelet $*: status is not 2"
    [ "$(cat err)" = "dsflow: $message" ] || fault "codelet $*: $(cat err)"
}
wrong "libbad.so: has no codelet, schedule, policy or format nobody" check libbad.so nobody
wrong "nowhere.so: No such file or directory" check nowhere.so
wrong "--set: [sgd]: unknown table; dsflow's is optimizer.kind = \"sgd\"" check builtin --set sgd.lr=1
wrong "codelet: chek: expected check" chek libbad.so
wrong "--cases: 0: expected a whole number, 1 to 100000" check builtin --cases 0
echo "$cases codelets"
[ $faults -eq 0 ]
