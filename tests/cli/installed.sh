# installed.sh - what `make install` leaves: documents whose links hold, examples
# that work from there, and completion for bash.
. "${srcdir:-.}/tests/cli/lib.sh"
build=$OLDPWD

MAKEFLAGS= MAKELEVEL= make -C "$build" -s install DESTDIR="$here/root" \
    > log 2>&1 || { cat log; exit 1; }
readme=$(find root -name README.md)
[ -n "$readme" ] || { echo "no README.md in $(find root | head)"; exit 1; }
doc=$here/${readme%/README.md}
for file in NEWS LICENSE ARCHITECTURE.md docs/writing-a-codelet.md docs/step.svg \
    docs/design/0001-tiles.md examples/mesh.toml examples/plugins/Makefile \
    examples/machines/laptop.toml examples/plans/13b.toml; do
    [ -s "$doc/$file" ] || fault "no $file is installed"
done

# What a document links to lies where it says.
for text in "$doc"/*.md "$doc"/docs/*.md "$doc"/docs/design/*.md; do
    sed 's/](/\n](/g' "$text" | sed -n 's/^](\([^):#]*\)[)#].*/\1/p' |
        while read -r link; do
            [ -e "${text%/*}/$link" ] || echo "${text#"$doc/"}: $link"
        done
done > missing
[ -s missing ] && fault "links to nothing: $(cat missing)"

# Examples, read where they were installed, from the folder of a user.
for example in mesh quickstart llama-tiny; do
    "$dsflow" plan "$doc/examples/$example.toml" \
        --machine "$doc/examples/machines/laptop.toml" --set data.train=text.txt \
        > out 2>&1 || fault "plan of $example.toml: $(tail -n 1 out)"
done
"$dsflow" plan "$doc/examples/plans/13b.toml" \
    --machine "$doc/examples/machines/h200-8.toml" > out 2>&1 ||
    fault "plan of 13b.toml: $(tail -n 1 out)"

# complete WORDS...: what is offered for the last of them.
completion=$(find root -path '*/bash-completion/completions/dsflow')
[ -n "$completion" ] || fault "no completion is installed"
if ! command -v bash > /dev/null || [ -z "$completion" ]; then
    finish
fi
complete() {
    bash -c '. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
        _dsflow; printf "%s\n" "${COMPREPLY[@]}"' bash "$completion" "$dsflow" "$@"
}

# offers WORD WORDS...: among what is offered for WORDS is WORD.
offers() {
    want=$1
    shift
    complete "$@" > out 2> err
    grep -qxF -e "$want" out || fault "dsflow $*: no $want in: $(cat out err)"
    [ -s err ] && fault "dsflow $*: $(cat err)"
}

# only WORD WORDS...: nothing else is offered.
only() {
    offers "$@"
    [ "$(wc -l < out)" -eq 1 ] || fault "more than $1: $(cat out)"
}

"$dsflow" --help | sed -n 's/^  \([a-z][a-z]*\) .*/\1/p' > commands
[ "$(wc -l < commands)" -gt 8 ] || fault "commands: $(cat commands)"
while read -r command; do
    offers "$command" ""
    offers --help "$command" --
    offers "$command" help ""
done < commands
only plan pl
only run -q ru
offers --machine plan job.toml --
only --overwrite run --ov
only --resume run job.toml --set job.steps = 3 --resu

# Every key, and the values of those that have few.
"$dsflow" list keys --json | awk -F '"' '
    $2 == "table" { t = $4 } $2 == "key" { print t "." $4 "=" }' | sort > keys
complete run job.toml --set "" | sort | cmp - keys ||
    fault "--set does not offer the keys of dsflow list keys"
only optimizer.lr= run job.toml --set optimizer.l
only optimizer.lr= plan --set = optimizer.l
offers adamw run job.toml --set optimizer.kind =
only gpipe run job.toml --set pipeline.schedule = g
offers true run job.toml --set trace.tensorboard =
offers auto run job.toml --set batch.micro = a
only offload plan job.toml --until o
only export checkpoint e
only optimizer.lr list keys optimizer.l
complete checkpoint verify "" | grep -q . && fault "checkpoint verify offers $(complete checkpoint verify "")"
only latest-good run job.toml --resume = l
only policies list po
offers gemm bench ""
offers link bench ""
complete bench link "" > out 2>&1 || fault "nothing behind bench link: $(cat out)"
only memory bench gemm m
only serial run job.toml --executor se
only serial run job.toml --exec se
only dmdap run --set machine.scheduler = dmdap
only builtin run --set = model.mlp =

# Files are left to bash.
complete run "" | grep -q . && fault "run offers $(complete run "")"
complete watch run | grep -q . && fault "watch offers $(complete watch run)"
finish
