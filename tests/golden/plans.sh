# plans.sh - for each job.toml below this script: it gives the plan of
# plan.expected, or the line of error.expected. UPDATE=1 writes them anew; read
# the difference.
set -u
dsflow=${DSFLOW:-dsflow}
here=$(cd "${srcdir:-.}/tests/golden" && pwd) || exit 99
work=$(mktemp -d "${TMPDIR:-/tmp}/dsflow-golden.XXXXXX") || exit 99
trap 'rm -rf "$work"' EXIT
machine=$here/../../examples/machines/laptop.toml # predictions that stay
faults=0

# compare EXPECTED GOT
compare() {
    [ "${UPDATE:-}" = 1 ] && cp "$2" "$1"
    diff "$1" "$2" || { echo "FAULT: $1"; faults=$((faults + 1)); }
}

for job in "$here"/*/job.toml; do
    folder=${job%/job.toml}
    cd "$folder" || exit 99
    if "$dsflow" plan job.toml --machine "$machine" > "$work/plan" 2> "$work/error"; then
        compare "$folder/plan.expected" "$work/plan"
    else
        compare "$folder/error.expected" "$work/error"
    fi
done
exit $((faults > 0))
