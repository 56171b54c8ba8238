#!/bin/sh
# Build the library that takes down calls of MPI, with the mpicc of where this runs; print its path.
#
#     mpi_preload.sh SOURCE FOLDER
#
# Of a node's processes one builds, the others wait for it. Where there is no library, FOLDER has
# NODE.none, a line that says why.
source=$1 folder=$2
node=$(uname -n)
library=$folder/$node.so none=$folder/$node.none

refuse() {
    echo "$1" >"$none.$$" && mv "$none.$$" "$none"
    exit 0
}

build() {
    tried=
    for compiler in mpicc mpiicx mpiicc mpigcc cc; do
        # Cray's cc has MPI; another one is the compiler alone.
        [ "$compiler" != cc ] || [ -n "${CRAYPE_VERSION-}" ] || continue
        command -v "$compiler" >/dev/null 2>&1 || continue
        tried=$compiler
        "$compiler" -std=gnu99 -O2 -shared -fPIC -fvisibility=hidden -Wl,--as-needed \
            "$source" -o "$library.$$" -ldl -lpthread >"$folder/$node.log" 2>&1 || continue
        # A library that does not load says so in each process, so it is tried in one first.
        says=$(LD_PRELOAD=$library.$$ /bin/sh -c : 2>&1) && [ -z "$says" ] ||
            refuse "the library does not load: $says"
        mv "$library.$$" "$library"
        exit 0
    done
    [ -n "$tried" ] || refuse "there is no mpicc on PATH"
    why=$(grep -m 1 -i error "$folder/$node.log" || tail -n 1 "$folder/$node.log")
    refuse "$tried could not compile: $why"
}

# ld.so takes a space and a colon for the end of a name, and fills in what follows a dollar.
case $folder in
*[[:space:]:\$]*)
    node=all none=$folder/all.none
    refuse "the folder has a space, a colon or a dollar in its name"
    ;;
esac
if mkdir "$folder/$node.lock" 2>/dev/null; then
    (build)
fi
waited=0
while [ ! -e "$library" ] && [ ! -e "$none" ] && [ $waited -lt 60 ]; do
    sleep 1
    waited=$((waited + 1))
done
if [ -e "$library" ]; then
    echo "$library"
elif [ ! -e "$none" ]; then
    refuse "the library was not ready after a minute"
fi
