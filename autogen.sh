#!/bin/sh
# autogen.sh - make configure from configure.ac.
set -e
cd "$(dirname "$0")"
mkdir -p m4 # holds only what libtoolize puts there
exec autoreconf --install --force "$@"
