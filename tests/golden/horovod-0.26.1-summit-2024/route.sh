#!/bin/bash
# horovod 0.26.1 for site summit-2024 (ppc64le)
# base: docker://nvidia/cuda:11.7.1-devel-ubi8, not pinned
# The base's tag may name another image tomorrow: pin it (base.digest).
# plan: sha256:90eb71e4f317b6e3331ac3ddcfddb37c84c825e88830ca3cb9910fe102eccf2a
# Rendered by dlcontainer: change the recipe or the site config, not this file.
# compiled against the site's IBM Spectrum MPI: build with $MPI_ROOT bound
# how, at the site: dlcontainer render --format route -o FOLDER/
#
# Builds the image at the site, the way that the centre documents. Run it in the folder of the
# Dockerfile: dlcontainer render --format route -o FOLDER/ writes both.
# source: olcf/olcf-user-docs@d900d52^ software/containers_on_summit.rst
set -eu
dlc_fail() { printf 'route: %s\n' "$1" >&2; printf '  next: %s\n' "$2" >&2; exit 3; }
cd "$(dirname -- "$0")"
[ -r Dockerfile ] || dlc_fail "no Dockerfile here" "dlcontainer render --format route -o FOLDER/"

# `module` is a function of the shell: where this shell has none, /etc/profile defines it. Older
# ones read variables that are not set.
set +eu
dlc_stop() { dlc_fail "line ${BASH_LINENO[0]}: a module command failed, see above" "ask what the site has: module avail"; }
type module >/dev/null 2>&1 || . /etc/profile
module purge || dlc_stop
module load DefApps || dlc_stop
module unload xl || dlc_stop
module load cuda/11.7.1 || dlc_stop
module unload spectrum-mpi || dlc_stop
module load spectrum-mpi/10.4.0.6-20230210 || dlc_stop
set -eu
[ -n "${MPI_ROOT+set}" ] || dlc_fail "\$MPI_ROOT is not set" "load its module"

# What is compiled in the image is compiled against the bound folder, which the job binds too.
podman build --net=host -v "${MPI_ROOT}":"${MPI_ROOT}" --build-arg MPI_ROOT="${MPI_ROOT}" -f Dockerfile -t horovod:0.26.1-summit-2024 .
podman save -o horovod-0.26.1-summit-2024.tar localhost/horovod:0.26.1-summit-2024
apptainer build --disable-cache horovod-0.26.1-summit-2024.sif docker-archive://horovod-0.26.1-summit-2024.tar
