#!/bin/bash
# tensorflow 2.6.0 for site summit-2021 (ppc64le)
# base: docker://nvidia/cuda:11.0.3-base-ubi8, not pinned
# The base's tag may name another image tomorrow: pin it (base.digest).
# plan: sha256:ab90191c64f0fdebcbfa7a3fed75bd5d19b1cf69f08b9af8272ec875f366466b
# Rendered by dlcontainer: change the recipe or the site config, not this file.
#
# Builds the image at the site, the way that the centre documents. Run it in the folder of the
# Dockerfile: dlcontainer render --format route -o FOLDER/ writes both.
# source: olcf/olcf-user-docs@0b7ca5c software/containers_on_summit.rst
set -eu
dlc_fail() { printf 'route: %s\n' "$1" >&2; printf '  next: %s\n' "$2" >&2; exit 3; }
cd "$(dirname -- "$0")"
[ -r Dockerfile ] || dlc_fail "no Dockerfile here" "dlcontainer render --format route -o FOLDER/"

# What is compiled in the image is compiled against the bound folder, which the job binds too.
podman build --net=host -f Dockerfile -t tensorflow:2.6.0-summit-2021 .
podman save -o tensorflow-2.6.0-summit-2021.tar localhost/tensorflow:2.6.0-summit-2021
apptainer build --disable-cache tensorflow-2.6.0-summit-2021.sif docker-archive://tensorflow-2.6.0-summit-2021.tar
