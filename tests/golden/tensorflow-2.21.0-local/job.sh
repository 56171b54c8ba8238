#!/bin/bash
# tensorflow 2.21.0 at site local (x86_64)
# plan: sha256:c4ff5fc408fe3f3a116e8444eb160e47dac41da52e2924cfb53e2a469d40a9a5
# Rendered by dlcontainer. To submit it: bash job.sh [COMMAND [WORD ...]]
set -eu
dlc_fail() { printf 'job: %s\n' "$1" >&2; printf '  next: %s\n' "$2" >&2; exit 3; }

# The image, and the command that each rank runs in it: what follows the script's name, else the
# proof that the image carries.
dlc_image=${DLCONTAINER_IMAGE:-$PWD/tensorflow-2.21.0-local.sif}
[ -r "$dlc_image" ] || dlc_fail "can't read $dlc_image" 'build it: dlcontainer build; or name it: DLCONTAINER_IMAGE=/path/to/image.sif'
[ $# -gt 0 ] || set -- /opt/tensorflow/bin/python /opt/dlcontainer/verify.py

# What each rank runs, and what starts the ranks.
set -- apptainer exec "$dlc_image" "$@"
{ printf 'job:'; printf ' %q' "$@"; echo; } >&2
"$@"
