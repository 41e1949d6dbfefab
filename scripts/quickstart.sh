#!/bin/bash
# quickstart.sh - from a fresh Debian to a trained model: install, build, train.
#
# Needs root or sudo the first time only. Builds in build/; arguments are given
# to `dsflow run`, as in: scripts/quickstart.sh --set job.steps=50
. "$(dirname "$0")/setup.sh"

# The text that examples/quickstart.toml trains on.
text=(fortunes fortunes-min)

install_packages "${packages[@]}" "${text[@]}"
install_starpu
build "$top/build" --disable-static

cd "$top"
# A second time starts over; with --resume it goes on.
case " $* " in
*" --resume"*) ;;
*) set -- --overwrite "$@" ;;
esac
exec build/dsflow run examples/quickstart.toml "$@"
