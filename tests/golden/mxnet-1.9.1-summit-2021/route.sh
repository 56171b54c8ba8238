#!/bin/bash
# mxnet 1.9.1 for site summit-2021 (ppc64le)
# base: docker://registry.access.redhat.com/ubi8/ubi:8.10, not pinned
# The base's tag may name another image tomorrow: pin it (base.digest).
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

# What is compiled in the image is compiled against the bound folder, which the job binds too.
podman build --net=host -f Dockerfile -t mxnet:1.9.1-summit-2021 .
podman save -o mxnet-1.9.1-summit-2021.tar localhost/mxnet:1.9.1-summit-2021
apptainer build --disable-cache mxnet-1.9.1-summit-2021.sif docker-archive://mxnet-1.9.1-summit-2021.tar
