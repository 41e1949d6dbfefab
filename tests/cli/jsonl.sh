# jsonl.sh - texts that are strings in JSON Lines: a job trains on what they say,
# and a line that has none is named.
. "${srcdir:-.}/tests/cli/lib.sh"

# The lines of text.txt, as other programs write them.
python3 - << 'PY' || fault "no lines.jsonl"
import json
with open("text.txt") as f, open("lines.jsonl", "w") as to:
    for i, line in enumerate(f):
        to.write(json.dumps({"id": i, "text": line.rstrip("\n"), "meta": {"n": [i]}}) + "\n" * (1 + (i % 3 == 0)))
PY
first="--set data.validation=0"
# shellcheck disable=SC2086
{
    run plain $first
    run lines $first --set 'data.train="lines.jsonl"' --set 'data.text_field="text"'
    same plain lines
}

# Taken for a text, it is said once.
run raw --set 'data.train="lines.jsonl"'
[ "$(grep -c 'lines.jsonl is taken for a text as it is: with text_field = "text" its lines are JSON' log)" = 1 ] ||
    fault "nothing is said of JSON: $(cat log)"
other plain raw

# refused WHAT LINE: training on lines.jsonl with this line at its end.
refused() {
    cp lines.jsonl bad.jsonl
    echo "$2" >> bad.jsonl
    "$dsflow" run job.toml --set job.output=bad --set 'data.train="bad.jsonl"' \
        --set 'data.text_field="text"' > log 2> err
    [ $? -eq 2 ] && [ "$(wc -l < err)" -eq 1 ] &&
        grep -q -e "data: train: bad.jsonl: line $(wc -l < bad.jsonl): $1\$" err ||
        fault "$2: $(cat err)"
}
refused 'expected an object with a string "text": it has "content"' '{"content": "x"}'
refused "is no JSON: '}' expected near end of file" '{"text": "x"'
finish
