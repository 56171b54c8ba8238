#!/bin/bash
# pytorch 2.6.0 for site summit-2021 (ppc64le)
# base: debian trixie, minimal root tree
# plan: sha256:PLAN-DIGEST
# Rendered by dlcontainer: change the recipe or the site config, not this file.
#
# Builds the image at the site, the way that the centre documents. Run it in the folder of the
# Dockerfile: dlcontainer render --format route -o FOLDER/ writes both.
# source: olcf/olcf-user-docs@0b7ca5c software/containers_on_summit.rst
set -eu
dlc_fail() { printf 'route: %s\n' "$1" >&2; printf '  next: %s\n' "$2" >&2; exit 3; }
cd "$(dirname -- "$0")"
[ -r Dockerfile ] || dlc_fail "no Dockerfile here" "dlcontainer render --format route -o FOLDER/"
[ -r rootfs.tar ] || dlc_fail "no rootfs.tar here, which the Dockerfile begins with" \
    "put the base's root tree there, or take a recipe whose base is an image"

# What is compiled in the image is compiled against the bound folder, which the job binds too.
podman build --net=host -f Dockerfile -t pytorch:2.6.0-summit-2021-debian .
podman save -o pytorch-2.6.0-summit-2021-debian.tar localhost/pytorch:2.6.0-summit-2021-debian
apptainer build --disable-cache pytorch-2.6.0-summit-2021-debian.sif docker-archive://pytorch-2.6.0-summit-2021-debian.tar
