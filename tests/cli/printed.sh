# printed.sh - what the README shows is what is printed: every plan of a described
# machine, the heads of other tables, and the picture. UPDATE=1 draws that anew.
. "${srcdir:-.}/tests/cli/lib.sh"
source=$(cd "$OLDPWD" && cd "${srcdir:-.}" && pwd)
readme=$source/README.md
ln -s "$source/examples" examples
rm text.txt

# The lines below each "$ dsflow …" up to the next text; the commands in order.
awk '
    /^    \$ dsflow / { n++; on = 1; print substr($0, 7) > "commands"; next }
    /^[^ ]/ { on = 0 }
    on { sub(/^    /, ""); print > ("shown" n) }' "$readme"

# found N: each stretch of shown$N between lines of "…" is in `out` as it stands,
# one after the other.
found() {
    awk -v name="$(sed -n "$1p" commands)" '
        FNR == NR { got[n++] = $0; next }
        /^…$/ { open = 1; next }
        /^$/ { blank = 1; next }
        {
            while (at < n && got[at] != $0 && (open || blank))
                at++
            if (got[at] != $0) {
                print name ": does not print there: " $0
                exit
            }
            at++; open = blank = 0
        }' out "shown$1"
}

n=0
plans=0
while read -r command; do
    n=$((n + 1))
    case $command in
    *" plan "*--machine*)
        "$dsflow" ${command#dsflow } > out 2>&1
        plans=$((plans + 1))
        found $n > wrong
        [ -s wrong ] && fault "$(cat wrong)"
        ;;
    *" codelet check "*)
        "$dsflow" codelet check builtin adam --cases 1 > out 2>&1
        [ "$(head -n 1 out)" = "$(head -n 1 shown$n)" ] ||
            fault "the head is: $(head -n 1 out)"
        ;;
    *) ;;
    esac
done < commands
[ $plans -ge 2 ] || fault "the README has $plans plans"

# What the refused plan says when its size may be chosen.
refused=$(grep 'memory.device=80GiB' commands)
"$dsflow" ${refused#dsflow } --set recompute.what=auto 2>&1 | tail -n 1 > out
grep -qxF "    $(cat out)" "$readme" || fault "it does not say: $(cat out)"

# The heads of the summary of a trace.
cp "$source/tests/cli/summary.expected" summary
awk '/^    \$ dsflow trace/ { on = 1 } /^[^ ]/ { on = 0 } on' "$readme" |
    grep -E '^    (Share of the time|Workers|What would)' | sed 's/^    //' > heads
[ "$(wc -l < heads)" -eq 3 ] || fault "heads of the summary: $(cat heads)"
while read -r head; do
    grep -qF -e "$head" summary || fault "the summary has no head '$head'"
done < heads

"$dsflow" plan examples/mesh.toml --machine examples/machines/laptop.toml \
    --set mesh.data=1 --set mesh.tensor=1 --set machine.workers=2 \
    --set 'job.name="Two stages on two cores"' --trace t.dsflow > out 2>&1 &&
    "$dsflow" trace t.dsflow --svg step.svg || fault "the picture: $(cat out)"
[ -z "${UPDATE:-}" ] || cp step.svg "$source/docs/step.svg"
cmp -s step.svg "$source/docs/step.svg" || fault "docs/step.svg is another picture"
finish
