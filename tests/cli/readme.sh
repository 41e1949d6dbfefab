# readme.sh - the job that README.md prints does what README.md says.
. "${srcdir:-.}/tests/cli/lib.sh"
readme=$(cd "$OLDPWD" && cd "${srcdir:-.}" && pwd)/README.md
sed -n '/^heart is this:/,/^Then:/s/^    //p' "$readme" > job.toml
grep -q '^output = "runs/mine"' job.toml || fault "no job in $readme: $(cat job.toml)"
mv text.txt my-text.txt

# It is the heart of what init writes: all but the text.
"$dsflow" init mine > log 2>&1 || fault "init: $(cat log)"
sed -n 's/ *#.*//; /^\[/h; /^[a-z]/{G; s/ *\n/ /p;}' job.toml | sort > shown
sed -n 's/ *#.*//; /^\[/h; /^[a-z]/{G; s/ *\n/ /p;}' mine/job.toml | sort > written
[ "$(comm -23 shown written)" = 'train = "my-text.txt" [data]' ] ||
    fault "init does not write: $(comm -23 shown written)"

# A few of its 500 steps as README has them: a trial, some steps, then the rest,
# here on two ranks, with the bits of one.
"$dsflow" run job.toml --steps 2 --set job.output=runs/trial > log 2>&1 || fault "a trial: $(cat log)"
"$dsflow" run job.toml --steps 2 > log 2>&1 || fault "some steps: $(cat log)"
"$dsflow" run job.toml --resume --set mesh.data=2 --steps 4 > log 2>&1 || fault "the rest: $(cat log)"
grep "warning" log && fault "another mesh is another job"
run whole --set job.steps=4
same runs/mine whole

# With the schedule of `dsflow init` the rest is said to be of another one, or
# schedule.total has been there from the start.
cosine="--set schedule.kind=warmup_cosine --set schedule.warmup=1"
run other $cosine --steps 2
run other $cosine --steps 4 --resume
grep -q 'warning: schedule.total: "auto" is job.steps: .* schedule.total = 4 from' log ||
    fault "another schedule: $(cat log)"
run parts $cosine --set schedule.total=4 --steps 2
run parts $cosine --set schedule.total=4 --steps 4 --resume
grep "warning" log && fault "the same schedule"
run long $cosine --steps 4
same parts long

"$dsflow" eval runs/mine > log 2>&1 && grep -q "nats per byte" log || fault "eval: $(cat log)"
"$dsflow" generate runs/mine --prompt "Once" --tokens 5 > log 2>&1 && grep -q "^Once" log ||
    fault "generate: $(cat log)"
"$dsflow" checkpoint export runs/mine mine-hf > log 2>&1 && [ -s mine-hf/config.json ] ||
    fault "export: $(cat log)"
finish
