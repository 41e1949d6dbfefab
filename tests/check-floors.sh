#!/bin/sh
# check-floors.sh - the #include lines of src/ keep to src/FLOORS.
src=${srcdir:-.}/src

find "$src" -name '*.[ch]' -o -name '*.cpp' -o -name '*.cu' | sort |
    xargs awk -v src="$src" '
function fault(text) {
    print text
    bad = 1
}
function need(you) {
    if (!((me, you) in may))
        fault(path ":" FNR ": " me " may not include " you)
}
BEGIN {
    while ((getline line < (src "/FLOORS")) > 0) {
        if (line ~ /^#/ || line ~ /^[ \t]*$/)
            continue
        split(line, half, /[:|]/)
        gsub(/[][]/, " ", half[1])
        n = split(half[1], left, " ")
        floor = left[1]
        known[floor] = may[floor, floor] = 1
        for (i = 2; i <= n; i++)
            public[left[i] ".h"] = floor
        n = split(half[2], below, " ")
        for (i = 1; i <= n; i++) {
            if (!(below[i] in known))
                fault("FLOORS: " floor " names " below[i] ", not a lower floor")
            may[floor, below[i]] = 1
        }
        # A header that several lines name is for those folders.
        n = split(half[3], own, " ")
        for (i = 1; i <= n; i++) {
            owners[own[i]] = owners[own[i]] " " floor
            owns[floor, own[i]] = 1
        }
    }
    if (floor == "") {
        fault("FLOORS: cannot be read, or is empty")
        exit
    }
}
FNR == 1 {
    path = substr(FILENAME, length(src) + 2)
    me = path
    sub("/.*", "", me)
    if (!(me in known))
        fault(path ": " me " is not in FLOORS")
}
/^[ \t]*#[ \t]*include/ {
    split($0, quoted, /["<>]/)
    name = quoted[2]
    if (name ~ /^dsflow\//) {
        sub("dsflow/", "", name)
        if (name in public)
            need(public[name])
        else
            fault(path ":" FNR ": dsflow/" name " is not in FLOORS")
    } else if ($0 ~ /"[a-z]+\//) {
        sub("/.*", "", name)
        need(name)
    } else if ((name in owners) && !((me, name) in owns)) {
        fault(path ":" FNR ": only" owners[name] " may include " name)
    }
}
END { exit bad }
'
