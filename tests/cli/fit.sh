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
tail -n 1 out | grep -q "^batch.micro=[0-9]* recompute.what=.*: the fastest of" ||
    fault "says of its choice: $(tail -n 1 out)"
"$dsflow" run job.toml --set recompute.what=auto --set batch.micro=auto \
    --set memory.device="$((least - 1))KiB" --set job.output=auto \
    > out 2>&1 || fault "the choice does not run: $(tail -n 1 out)"
grep -q '^what = "attention"\|^what = "block"' auto/job.toml ||
    fault "the job has $(grep what auto/job.toml)"
"$dsflow" run auto/job.toml --set job.output=same > out 2>&1 ||
    fault "the job that was written does not run: $(tail -n 1 out)"
same auto same

# With room, nothing is computed twice.
"$dsflow" plan job.toml --set recompute.what=auto | tail -n 1 |
    grep -q "^recompute.what=none" || fault "recomputes without need"

# Nothing fits.
"$dsflow" plan job.toml --set recompute.what=auto \
    --set memory.device=64KiB > out 2>&1
status=$?
[ $status -eq 2 ] || fault "fits in 64 KiB: $status"
grep -q "ways to fill in what is auto: the smallest needs" out ||
    fault "refused with: $(tail -n 1 out)"
finish
