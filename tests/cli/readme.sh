# readme.sh - the job that README.md prints does what README.md says.
. "${srcdir:-.}/tests/cli/lib.sh"
readme=$(cd "$OLDPWD" && cd "${srcdir:-.}" && pwd)/README.md
sed -n '/^heart is this:/,/^Then:/s/^    //p' "$readme" > job.toml
grep -q '^output = "runs/mine"' job.toml || fault "no job in $readme: $(cat job.toml)"
mv text.txt my-text.txt

# A few of its 500 steps as README has them: a trial, then the rest, here on two
# ranks, with the bits of one.
"$dsflow" run job.toml --steps 2 > log 2>&1 || fault "a trial: $(cat log)"
"$dsflow" run job.toml --resume --set mesh.data=2 --steps 4 > log 2>&1 || fault "the rest: $(cat log)"
grep "warning" log && fault "another mesh is another job"
run whole --set job.steps=4
same runs/mine whole

"$dsflow" eval runs/mine > log 2>&1 && grep -q "nats per byte" log || fault "eval: $(cat log)"
"$dsflow" generate runs/mine --prompt "Once" --tokens 5 > log 2>&1 && grep -q "^Once" log ||
    fault "generate: $(cat log)"
"$dsflow" checkpoint export runs/mine mine-hf > log 2>&1 && [ -s mine-hf/config.json ] ||
    fault "export: $(cat log)"
finish
