# manual.sh - job.toml(5) says what the option tables say, and dsflow(1) names
# the options that commands have, each where its command is, and no others.
. "${srcdir:-.}/tests/cli/lib.sh"
cd - > /dev/null || exit 99
page=${srcdir:-.}/docs/job.toml.5
"$dsflow" list keys --roff > "$here/keys" || fault "list keys --roff"
sed '/^\.\\" keys:/q' "$page" > "$here/page"
cat "$here/keys" >> "$here/page"
sed -n '/^\.\\" end of keys/,$p' "$page" >> "$here/page"
if [ "${UPDATE:-}" = 1 ]; then
    cp "$here/page" "$page"
fi
diff "$page" "$here/page" || fault "$page is not what the tables say (UPDATE=1 rewrites it)"
for command in $("$dsflow" help | sed -n 's/^  \([a-z][a-z]*\) .*/\1/p'); do
    "$dsflow" help "$command"
done | sed -n 's/^  \(-[a-z], \)*\(--[a-z-]*\).*/\2/p' | sort -u > "$here/options"
echo --version >> "$here/options"
sed 's/\\-/-/g' "${srcdir:-.}/docs/dsflow.1" | grep -v 'pkg-config\|^tensorboard' | grep -o -e '--[a-z][a-z-]*' | sort -u > "$here/named"
sort -u "$here/options" | diff - "$here/named" || fault "dsflow(1) does not name the options that there are"

# part COMMAND: what dsflow(1) says of it below COMMANDS; the summary of a trace
# stands below a title of its own.
part() {
    sed 's/\\-/-/g' "${srcdir:-.}/docs/dsflow.1" | awk -v command="$1" '
        /^\.RS/ { depth++ }
        /^\.RE/ { depth-- }
        /^\.SH/ { on = here = 0 }
        /^\.SH COMMANDS/ { here = 1 }
        /^\.SH SUMMARY/ { on = command == "trace" }
        last == ".TP" && here && !depth {
            name = $2
            gsub("\"", "", name)
            on = name == command
        }
        on
        { last = $0 }'
}
for command in $("$dsflow" help | sed -n 's/^  \([a-z][a-z]*\) .*/\1/p'); do
    part "$command" > "$here/part"
    [ -s "$here/part" ] || fault "dsflow(1): COMMANDS has no $command"
    "$dsflow" help "$command" | sed -n 's/^  \(-[a-z], \)*\(--[a-z-]*\).*/\2/p' |
        grep -vx -e --set -e --quiet -e --verbose -e --help |
        while read -r option; do
            grep -q -e "$option" "$here/part" || echo "$command $option"
        done
done > "$here/elsewhere"
[ -s "$here/elsewhere" ] && fault "dsflow(1) does not say: $(cat "$here/elsewhere")"
if command -v mandoc > /dev/null; then
    mandoc -T lint -W error "$page" "${srcdir:-.}/docs/dsflow.1" || fault "mandoc"
fi
finish
