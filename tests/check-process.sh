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
    net/mpi_module:abort) ;; # the same, in a module without symbols of dsflow
    net/watch_thread:_exit) ;; # a run in several processes, of which one died
    # In a child of their own:
    net/shared_files:_exit | net/shared_files:signal) ;;
    verify/child:_exit | verify/child:sigaction | verify/child:setitimer) ;;
    measure/apart:_exit) ;;
    # StarPU is told there only to be silent, not to bind its workers, and where
    # its files are while it starts; what its headers print stands in the objects
    # that include them.
    exec/starpu_exec:setenv | exec/starpu_exec:unsetenv) ;;
    exec/starpu_files:setenv | exec/starpu_files:unsetenv) ;;
    exec/starpu_*:stderr) ;;
    # CUDA is told when to load kernels only there.
    exec/cuda_module:setenv | exec/cuda_module:unsetenv) ;;
    gpu/*_cuda:atexit | gpu/attention_*:atexit) ;; # nvcc, of the module for GPUs
    *) return 1 ;;
    esac
}

objects=$(find src -name '*.o' -path '*/.libs/*' ! -path 'src/cli/*')
[ -n "$objects" ] || objects=$(find src -name '*.o' ! -path 'src/cli/*')
[ -n "$objects" ] || exit 77

status=0
seen=$(echo "$objects" | wc -l)
[ "$seen" -gt 100 ] || { echo "$seen objects only"; status=1; }

# Lines of nm are `FILE: U NAME`; file names have what libtool puts around them.
# shellcheck disable=SC2086 # words are what separates names
used=$(nm -A -u $objects | awk -v symbols="$(echo $symbols)" '
    BEGIN { n = split(symbols, list, /[| ]+/); while (n) wanted[list[n--]] }
    { file = $1; sub(/@.*/, "", $3); if (!($3 in wanted)) next
      sub(/^src\//, "", file); sub(/\.libs\//, "", file)
      sub(/\.o:$/, "", file); sub(/[a-z_]*la-/, "", file)
      print file ":" $3 }')
for use in $used; do
    allowed "$use" || {
        echo "${use%:*} uses ${use#*:}"
        status=1
    }
done
exit $status
