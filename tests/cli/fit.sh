# fit.sh - budgets of memory, and sizes that are chosen to fit them.
. "${srcdir:-.}/tests/cli/lib.sh"
job | sed 's/layers = 2/layers = 8/' > job.toml

# needs_in TIER SETS...: what a rank of the plan needs of a memory, in KiB.
needs_in() {
    tier=$1
    shift
    "$dsflow" plan job.toml "$@" --json |
        sed -n '/"peak_bytes"/,/}/s/.*"'"$tier"'": \([0-9]*\).*/\1/p' |
        sort -n | tail -n 1 | awk '{ printf "%d", ($1 + 1023) / 1024 }'
}
needs() {
    needs_in device "$@"
}

# A plan runs in what it says it needs, and not in less.
least=$(needs)
"$dsflow" run job.toml --set job.output=fits --set job.steps=4 \
    --set memory.device="${least}KiB" > out 2>&1 ||
    fault "does not run in the $least KiB that it needs: $(tail -n 1 out)"
"$dsflow" run job.toml --set job.output=less --set job.steps=4 \
    --set memory.device="$((least - 1))KiB" > out 2>&1
status=$?
[ $status -eq 2 ] || fault "runs in less than the $least KiB it needs: $status"
grep -q "memory: device: .*rank 0 needs .*parameters .*and has" out ||
    fault "refused with: $(tail -n 1 out)"
[ -e less/checkpoints ] && fault "a run that was refused has checkpoints"

# What is open is chosen so that it fits, and the choice is part of the job.
again=$(needs --set recompute.what=block --set batch.micro=1)
[ "$again" -lt "$least" ] ||
    fault "recomputation needs $again KiB, and without it are $least"
"$dsflow" plan job.toml --set recompute.what=auto --set batch.micro=auto \
    --set memory.device="$((least - 1))KiB" > out 2>&1 ||
    fault "nothing fits in $((least - 1)) KiB: $(tail -n 1 out)"
tail -n 1 out | grep -Eq "^batch.micro=[0-9]+( batch.in_flight=1)? recompute.what=.*: the fastest of" ||
    fault "says of its choice: $(tail -n 1 out)"
# Groups that the largest micro-batch cannot have leave smaller ones.
"$dsflow" plan job.toml --set batch.micro=auto --set batch.groups=4 > out 2>&1 ||
    fault "4 groups of 4 sequences: $(tail -n 1 out)"
step=$(sed -n 's/^predicted step *\(.*\), .*/\1/p' out)
tail -n 1 out | grep -q "^batch.micro=1: the fastest of 1 that fit, $step a step; " ||
    fault "4 groups of 4 sequences: $(tail -n 1 out)"
"$dsflow" run job.toml --set recompute.what=auto --set batch.micro=auto \
    --set memory.device="$((least - 1))KiB" --set job.output=auto \
    > out 2>&1 || fault "the choice does not run: $(tail -n 1 out)"
grep -Eq '^(what = "(attention|block)"|in_flight = 1)$' auto/job.toml ||
    fault "the job has $(grep -E 'what|in_flight' auto/job.toml)"
"$dsflow" run auto/job.toml --set job.output=same > out 2>&1 ||
    fault "the job that was written does not run: $(tail -n 1 out)"
same auto same

# With room, nothing is computed twice.
"$dsflow" plan job.toml --set recompute.what=auto | tail -n 1 |
    grep -q "^recompute.what=none" || fault "recomputes without need"

# Main memory beside the device: what is needed is enough, and less is not. A
# window on what is on a disk is part of it.
mkdir disk
for keys in "--set offload.optimizer=cpu" \
    "--set offload.optimizer=nvme --set memory.nvme.path=disk"; do
    host=$(needs_in cpu $keys)
    [ "$host" -gt 0 ] || fault "$keys needs $host KiB of main memory"
    "$dsflow" run job.toml --set job.output=beside --overwrite \
        --set job.steps=4 $keys --set memory.host="${host}KiB" > out 2>&1 ||
        fault "$keys does not run in the $host KiB that it needs: $(tail -n 1 out)"
    "$dsflow" plan job.toml $keys --set memory.host="$((host - 1))KiB" > out 2>&1
    [ $? -eq 2 ] || fault "$keys fits in less than $host KiB"
    grep -q "memory: host: rank 0 needs .* and has" out ||
        fault "$keys is refused with: $(tail -n 1 out)"
done
grep -q "(.*a window on other memories .*)" out ||
    fault "what is on a disk is refused with: $(tail -n 1 out)"
"$dsflow" plan job.toml $keys | grep -Eq "^window on other memories +0 B +[1-9]" ||
    fault "a plan says nothing of a window on a disk"

# The largest share of the states that fits: with it the job needs no more than
# there is, and a tenth more of them would be too much.
low=$(needs_in device --set offload.optimizer=cpu)
some=$(((least + low) / 2))
"$dsflow" plan job.toml --set offload.optimizer=cpu --set offload.share=auto \
    --set memory.device="${some}KiB" > out 2>&1 ||
    fault "no share of the states fits in $some KiB: $(tail -n 1 out)"
share=$(sed -n 's/^offload.share=\([0-9.]*\): the most .*/\1/p' out)
awk -v s="$share" 'BEGIN { exit !(s > 0.2 && s < 0.6) }' ||
    fault "half of what states need is a share of $share: $(tail -n 1 out)"
[ "$(needs_in device --set offload.optimizer=cpu --set offload.share="$share")" \
    -le "$some" ] || fault "a share of $share needs more than $some KiB"
more=$(awk -v s="$share" 'BEGIN { print s + 0.1 }')
[ "$(needs_in device --set offload.optimizer=cpu --set offload.share="$more")" \
    -gt "$some" ] || fault "a share of $more would fit too"
"$dsflow" plan job.toml --set offload.optimizer=cpu --set offload.share=auto |
    tail -n 1 | grep -q "^offload.share=1:" || fault "not all states stay, with room"

"$dsflow" plan job.toml --set offload.optimizer=cpu --set offload.share=auto \
    --set memory.host=0 > out 2>&1 ||
    fault "all states stay, and need main memory: $(tail -n 1 out)"

# With parameters on a disk a step goes layer by layer, unless that needs more
# than there is, or takes longer.
nvme="--set memory.nvme.path=disk --set offload.params=nvme --set offload.read_ahead=0"
"$dsflow" plan job.toml $nvme > out 2>&1
tail -n 1 out | grep -q "^batch.order=[a-z]*_major: the fastest of" ||
    fault "says of the order: $(tail -n 1 out)"
"$dsflow" plan job.toml $nvme --set batch.order=micro_major |
    grep -q "^batch.order" && fault "an order that was given is chosen"

# Disks are among what would fit, also where keys are auto, for which the machine is
# measured without them.
nvme="--set memory.nvme.path=disk"
all="$nvme --set offload.optimizer=nvme --set offload.params=nvme
    --set offload.gradients=nvme --set offload.activations=nvme
    --set offload.read_ahead=0 --set offload.write_behind=0"
tight="$(needs $all)KiB"
for command in plan run; do
    "$dsflow" $command job.toml $nvme --set zero.stage=auto --set job.output=tight \
        --set memory.device="$tight" > out 2>&1
    [ $? -eq 2 ] || fault "$command: all of it fits in $tight"
    grep -q 'has .*; .*offload.activations = "nvme".* would fit$' out ||
        fault "$command: in $tight: $(tail -n 1 out)"
done

# A sample needs the whole model: it is left out where there is no room for that.
nvme="$nvme --set offload.params=nvme --set offload.read_ahead=0"
run sampled $nvme --set job.steps=4 --set sample.tokens=5 \
    --set memory.host="$(($(needs_in cpu $nvme) + 60))KiB"
grep -q "no sample: text takes .*, for parameters, keys and values, and .* of memory are left; dsflow generate sampled" log ||
    fault "without room for a sample: $(tail -n 2 log)"
"$dsflow" generate sampled --tokens 5 > out 2>&1 ||
    fault "generate after that: $(tail -n 1 out)"

# Nothing fits.
"$dsflow" plan job.toml --set recompute.what=auto \
    --set memory.device=64KiB > out 2>&1
status=$?
[ $status -eq 2 ] || fault "fits in 64 KiB: $status"
grep -q "ways to fill in what is auto: the smallest needs" out ||
    fault "refused with: $(tail -n 1 out)"
finish
