#!/bin/sh
# check-process.sh - libdsflow leaves the process of its program alone: it ends
# it nowhere, changes no signals, environment, locale or umask, and prints
# nothing. The command, src/cli, does these things.
symbols='exit|_exit|_Exit|quick_exit|abort|atexit|signal|sigaction|bsd_signal
sigset|sigprocmask|raise|kill|setitimer|alarm|setenv|putenv|unsetenv|clearenv
setlocale|umask|chdir|setrlimit|printf|vprintf|__printf_chk|__vprintf_chk|puts
putchar|perror|psignal|stdout|stderr'

# What may use them all the same, and why.
allowed() {
    case $1 in
    base/fatal:abort) ;;     # no memory for metadata, or a bug of ours
    verify/child:_exit | verify/child:sigaction | verify/child:setitimer) ;;
    measure/apart:_exit) ;; # both in a child of their own
    # StarPU is told there only to be silent, and not to bind its workers; what
    # its headers print stands in the objects that include them.
    exec/starpu_exec:setenv | exec/starpu_exec:unsetenv) ;;
    exec/starpu_*:stderr) ;;
    gpu/*_cuda:atexit | gpu/attention_*:atexit) ;; # nvcc, of the module for GPUs
    *) return 1 ;;
    esac
}

objects=$(find src -name '*.o' -path '*/.libs/*' ! -path 'src/cli/*')
[ -n "$objects" ] || objects=$(find src -name '*.o' ! -path 'src/cli/*')
[ -n "$objects" ] || exit 77

wanted=$(echo $symbols | tr ' ' '|')
status=0
seen=0
for object in $objects; do
    name=$(echo "$object" | sed 's,^src/,,; s,\.libs/,,; s,\.o$,,
        s,[a-z_]*la-,,')
    seen=$((seen + 1))
    for used in $(nm -u "$object" | awk '{ sub("@.*", "", $2); print $2 }' |
        grep -xE "$wanted"); do
        allowed "$name:$used" || {
            echo "$name uses $used"
            status=1
        }
    done
done
[ $seen -gt 100 ] || { echo "$seen objects only"; status=1; }
exit $status
