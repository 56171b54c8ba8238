#!/bin/sh
# Load a published module in a real Lmod and use it: sh tools/load_module.sh MODULES NAME
set -eu
[ $# -eq 2 ] || { echo "usage: sh load_module.sh MODULES NAME" >&2; exit 2; }
modules=$(cd "$1" && pwd)
init=/usr/share/lmod/lmod/init/sh
if [ ! -r "$init" ]; then
    echo "no Lmod here: the module is not loaded (sudo apt-get install lmod)"
    exit 0
fi
set +u
. "$init"
module use "$modules"
module load "$2"
echo "module load $2: python is $(command -v python)"
python -c 'import torch; print("torch", torch.__version__, "from", torch.__file__)'
