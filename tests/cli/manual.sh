# manual.sh - job.toml(5) says what the option tables say, and dsflow(1) names
# the options that commands have, and no others.
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
    grep -q "^\.B.* *\"*$command[ \"]*" "${srcdir:-.}/docs/dsflow.1" || fault "dsflow(1) has no command $command"
    "$dsflow" help "$command"
done | sed -n 's/^  \(-[a-z], \)*\(--[a-z-]*\).*/\2/p' | sort -u > "$here/options"
echo --version >> "$here/options"
sed 's/\\-/-/g' "${srcdir:-.}/docs/dsflow.1" | grep -v 'pkg-config\|^tensorboard' | grep -o -e '--[a-z][a-z-]*' | sort -u > "$here/named"
sort -u "$here/options" | diff - "$here/named" || fault "dsflow(1) does not name the options that there are"
if command -v mandoc > /dev/null; then
    mandoc -T lint -W error "$page" "${srcdir:-.}/docs/dsflow.1" || fault "mandoc"
fi
finish
