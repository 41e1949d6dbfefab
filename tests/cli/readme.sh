# readme.sh - the job that README.md prints does what README.md says.
. "${srcdir:-.}/tests/cli/lib.sh"
readme=$(cd "$OLDPWD" && cd "${srcdir:-.}" && pwd)/README.md
sed -n '/^Put this in `job.toml`/,/^Then:/s/^    //p' "$readme" > job.toml
grep -q '^output = "runs/mine"' job.toml || fault "no job in $readme: $(cat job.toml)"
mv text.txt my-text.txt

# A few of its 500 steps, on one rank and then on two: the bits of one rank.
"$dsflow" run job.toml --set job.steps=4 > log 2>&1 || fault "the job: $(cat log)"
run parts --set job.steps=2
run parts --set job.steps=4 --set mesh.data=2 --resume
same runs/mine parts
grep "warning" log && fault "another mesh is another job"

"$dsflow" eval runs/mine > log 2>&1 && grep -q "nats per byte" log || fault "eval: $(cat log)"
"$dsflow" generate runs/mine --prompt "Once" --tokens 5 > log 2>&1 && grep -q "^Once" log ||
    fault "generate: $(cat log)"
"$dsflow" checkpoint export runs/mine mine-hf > log 2>&1 && [ -s mine-hf/config.json ] ||
    fault "export: $(cat log)"
finish
