# compact.awk - the training step of a DOT file of dsflow, a line a task in the
# order of the graph: {"tasks it waits for"} -> "task". A task is called by its
# kind, layer, micro-batch where there are several, and rank; "#2" is the second
# of that name.
/subgraph cluster_/ {
    program = $2
    sub(/^cluster_/, "", program)
    micro = program ~ /_m[0-9]+$/ ? program : ""
    sub(/.*_m/, "", micro)
    sub(/_m[0-9]+$/, "", program)
    if (micro == "") {
        rank = program
        sub(/.*_r/, " r", rank)
    }
    sub(/_r[0-9]+$/, "", program)
    depth++
    seen = 1
    next
}
/^ *}/ {
    if (depth > 0)
        depth--
    if (depth == 0)
        rank = ""
    micro = ""
    next
}
/^ *t[0-9]+ \[label/ {
    # Tasks without a rank and a micro-batch stand before the clusters of their
    # program, and step is the first.
    if (depth == 0 ? seen : program != "step")
        next
    id = substr($1, 2) + 0
    match($0, /label="[^"]*"/)
    task = substr($0, RSTART + 7, RLENGTH - 8)
    sub(/\\n(\[[0-9, ]*\] [a-z0-9_]+|[0-9]+ bytes)$/, "", task)
    sub(/\\nlayer /, " l", task)
    sub(/ tile [0-9]+/, "", task)
    if (several && micro != "")
        task = task " m" micro
    task = task rank
    if (++count[task] > 1)
        task = task " #" count[task]
    name[id] = task
    last = id > last ? id : last
    if (match($0, /priority -?[0-9]+/))
        note[id] = " [tooltip=\"" substr($0, RSTART, RLENGTH) "\"]"
    next
}
/ -> / {
    to = substr($3, 2) + 0
    preds[to] = preds[to] " \"" name[substr($1, 2) + 0] "\""
}
END {
    for (id = 0; id <= last; id++)
        if (id in name)
            print "  " (id in preds ? "{" substr(preds[id], 2) "} -> " : "") \
                "\"" name[id] "\"" note[id] ";"
}
