# manual.sh - job.toml(5) says what the option tables say.
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
if command -v mandoc > /dev/null; then
    mandoc -T lint -W error "$page" "${srcdir:-.}/docs/dsflow.1" || fault "mandoc"
fi
finish
