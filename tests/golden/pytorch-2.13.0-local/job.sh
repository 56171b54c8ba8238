#!/bin/bash
# pytorch 2.13.0 at site local (x86_64)
# plan: sha256:f3a9574c25e65e4101361d2087fac7b751420f6466370eb6adc2e466dbc92826
# Rendered by dlcontainer. To submit it: bash job.sh [COMMAND [WORD ...]]
set -eu
dlc_fail() { printf 'job: %s\n' "$1" >&2; printf '  next: %s\n' "$2" >&2; exit 3; }

# The image, and the command that each rank runs in it: what follows the script's name, else the
# proof that the image carries.
dlc_image=${DLCONTAINER_IMAGE:-$PWD/pytorch-2.13.0-local.sif}
[ -r "$dlc_image" ] || dlc_fail "can't read $dlc_image" 'build it: dlcontainer build; or name it: DLCONTAINER_IMAGE=/path/to/image.sif'
[ $# -gt 0 ] || set -- /opt/pytorch/bin/python /opt/dlcontainer/verify.py

# What each rank runs, and what starts the ranks.
set -- apptainer exec "$dlc_image" "$@"
{ printf 'job:'; printf ' %q' "$@"; echo; } >&2
"$@"
