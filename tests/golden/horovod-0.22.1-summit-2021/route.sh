#!/bin/bash
# horovod 0.22.1 for site summit-2021 (ppc64le)
# base: docker://nvidia/cuda:11.0.3-devel-ubi8, not pinned
# The base's tag may name another image tomorrow: pin it (base.digest).
# plan: sha256:PLAN-DIGEST
# Rendered by dlcontainer: change the recipe or the site config, not this file.
# compiled against the site's IBM Spectrum MPI: build with $MPI_ROOT bound
# how, at the site: dlcontainer render --format route -o FOLDER/
#
# Builds the image at the site, the way that the centre documents. Run it in the folder of the
# Dockerfile: dlcontainer render --format route -o FOLDER/ writes both.
# source: olcf/olcf-user-docs@0b7ca5c software/containers_on_summit.rst (of 2022-03-03)
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
module load gcc/9.1.0 || dlc_stop
module load cuda/11.0.3 || dlc_stop
module unload spectrum-mpi || dlc_stop
module load spectrum-mpi/10.4.0.3-20210112 || dlc_stop
set -eu
[ -n "${MPI_ROOT+set}" ] || dlc_fail "\$MPI_ROOT is not set" "load its module"
# A relative or empty entry of PATH is the current folder or one below it, where anybody's files may
# lie: the engine and its helpers are not taken from there.
case ":${PATH-}:" in
    *:[!/]*)
        dlc_rest=${PATH-}: dlc_path=
        while [ -n "$dlc_rest" ]; do
            dlc_one=${dlc_rest%%:*} dlc_rest=${dlc_rest#*:}
            case $dlc_one in /*) dlc_path=${dlc_path:+$dlc_path:}$dlc_one ;; esac
        done
        PATH=${dlc_path:-/usr/bin:/bin}
        export PATH
        ;;
esac

# What is compiled in the image is compiled against the bound folder, which the job binds too.
podman build --net=host -v "${MPI_ROOT}":"${MPI_ROOT}" --build-arg MPI_ROOT="${MPI_ROOT}" -f Dockerfile -t horovod:0.22.1-summit-2021 .
podman save -o horovod-0.22.1-summit-2021.tar localhost/horovod:0.22.1-summit-2021
apptainer build --disable-cache horovod-0.22.1-summit-2021.sif docker-archive://horovod-0.22.1-summit-2021.tar
