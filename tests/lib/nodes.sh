# nodes.sh - two nodes, nodea and nodeb, for tests of several hosts: network
# namespaces with a cable between them, with names, folders for temporary files
# and, where the kernel has that, clocks of their own. They share all files, but
# for what $here/nodeb.sh, where it is there, does before a command on nodeb: that
# is in a mount namespace of its own. Needs $here, a folder for this test alone, and
# $source, the folder of the sources; both whole paths. A node with a file
# $here/NODE.away cannot be reached.

# at_nodea COMMAND...: as a user there, in this environment and folder. Others are
# reached by $here/ssh, which knows nodea and nodeb and, as ssh, hands no variable
# over. $here/at-nodea then has the number of the process.
at_nodea() {
    OMPI_MCA_plm_rsh_agent=$here/ssh OMPI_MCA_btl=self,vader,tcp \
        OMPI_MCA_btl_tcp_if_include=cable \
        OMPI_MCA_btl_vader_single_copy_mechanism=none \
        ASAN_OPTIONS=detect_leaks=0 TMPDIR=$here/nodea \
        ip netns exec "$spaces"a unshare -u -m sh "$here/enter" nodea "$@"
}

# left_on_nodes: the commands that still run there.
left_on_nodes() {
    for p in $(ip netns pids "$spaces"a) $(ip netns pids "$spaces"b); do
        tr '\0' ' ' < "/proc/$p/cmdline"
    done
} 2> /dev/null

# drop_nodes: and all that runs there.
drop_nodes() {
    # shellcheck disable=SC2046
    kill -KILL $cable $(ip netns pids "$spaces"a) $(ip netns pids "$spaces"b)
    ip netns del "$spaces"a
    ip netns del "$spaces"b
} > /dev/null 2>&1

# Before the cable: networks that lead nowhere, as of containers, where the kernel
# has bridges.
add_networks() {
    for i in 1 2 3 4 5 6 7 8 9; do
        ip -n "$spaces"a link add "br$i" type bridge &&
            ip -n "$spaces"a addr add "10.214.$i.1/24" dev "br$i" &&
            ip -n "$spaces"a link set "br$i" up || return 0
    done
}

join_by_veth() {
    ip link add "$spaces"x netns "$spaces"a type veth \
        peer name "$spaces"y netns "$spaces"b &&
        ip -n "$spaces"a link set "$spaces"x name cable &&
        ip -n "$spaces"b link set "$spaces"y name cable
}

# join_by_program MICROSECONDS LOST: as cable.c takes them.
join_by_program() {
    # shellcheck disable=SC2086 # it may be "ccache gcc"
    ${CC:-cc} -O2 -D_GNU_SOURCE -o "$here/cable" "$source/tests/lib/cable.c" || exit 99
    "$here/cable" "/run/netns/${spaces}a" "/run/netns/${spaces}b" "$1" "$2" \
        > "$here/cable.log" 2>&1 &
    cable=$!
    while ! [ -s "$here/cable.log" ] && kill -0 $cable 2> /dev/null; do
        sleep 0.05
    done
    grep -q ready "$here/cable.log" || { cat "$here/cable.log" >&2; return 1; }
}

write_scripts() {
    mkdir -p "$here/nodea" "$here/nodeb"
    printf '10.213.7.1 nodea\n10.213.7.2 nodeb\n127.0.0.1 localhost\n' > "$here/hosts"
    # enter NODE COMMAND...
    cat > "$here/enter" <<END
mount --bind "$here/hosts" /etc/hosts && hostname "\$1" || exit 255
[ "\$1" != nodeb ] || [ ! -e "$here/nodeb.sh" ] || . "$here/nodeb.sh"
echo \$\$ > "$here/at-\$1"
shift
exec "\$@"
END
    clock=
    unshare --time --monotonic 1000 --fork true 2> /dev/null &&
        clock="--time --monotonic 1000 --fork"
    cat > "$here/ssh" <<END
#!/bin/sh
[ "\$1" != -x ] || shift
node=\$1
shift
case \$node in
nodea) space=${spaces}a clock= ;;
nodeb) space=${spaces}b clock="$clock" ;;
*) echo "ssh: connect to host \$node port 22: No route to host" >&2; exit 255 ;;
esac
[ ! -e "$here/\$node.away" ] ||
    { echo "ssh: connect to host \$node port 22: Connection timed out" >&2; exit 255; }
exec env -i PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin HOME="\$HOME" \\
    TMPDIR="$here/\$node" ASAN_OPTIONS=detect_leaks=0 \\
    ip netns exec \$space unshare -u -m \$clock sh "$here/enter" \$node sh -c "\$*"
END
    chmod +x "$here/ssh"
}

put_nodes_up() {
    for node in a:1 b:2; do
        space=$spaces${node%:*}
        ip -n "$space" addr add "10.213.7.${node#*:}/24" dev cable &&
            ip -n "$space" link set cable up &&
            ip -n "$space" link set lo up || return 1
    done
}

# make_nodes [MICROSECONDS LOST]: with a short cable, or one with that delay each
# way, and so many of a million frames lost; until the shell ends. Where that may not
# be it says so, and fails.
make_nodes() {
    spaces=dsf$$ cable=
    trap 'drop_nodes || true; rm -rf "$here"' EXIT
    ip netns add "$spaces"a && ip netns add "$spaces"b && add_networks &&
        if [ $# -eq 2 ]; then join_by_program "$@"; else join_by_veth; fi &&
        put_nodes_up && write_scripts && at_nodea true && return 0
    echo "no nodes can be made of network namespaces here"
    return 1
}
