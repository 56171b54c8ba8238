#!/bin/bash
# mxnet 1.9.1 at site local (x86_64)
# plan: sha256:PLAN-DIGEST
# Rendered by dlcontainer. To submit it: bash job.sh [COMMAND [WORD ...]]
set -eu
dlc_fail() { printf 'job: %s\n' "$1" >&2; printf '  next: %s\n' "$2" >&2; exit 3; }

# The image, and the command that each rank runs in it: what follows the script's name, else the
# proof that the image carries.
dlc_image=${DLCONTAINER_IMAGE:-$PWD/mxnet-1.9.1-local.sif}
[ -r "$dlc_image" ] || dlc_fail "can't read $dlc_image" 'build it: dlcontainer build; or name it: DLCONTAINER_IMAGE=/path/to/image.sif'
[ $# -gt 0 ] || set -- /opt/mxnet/bin/python /opt/dlcontainer/verify.py

# The host's own Python and libraries are none of the image's.
unset PYTHONPATH PYTHONHOME LD_PRELOAD

# What each rank runs, and what starts the ranks.
set -- apptainer exec "$dlc_image" "$@"
{ printf 'job:'; printf ' %q' "$@"; echo; } >&2
"$@"
