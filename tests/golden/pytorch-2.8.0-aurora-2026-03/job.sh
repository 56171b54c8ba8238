#!/bin/bash
#PBS -N dlcontainer
#PBS -l select=1
#PBS -l place=scatter
#PBS -l walltime=00:30:00
#PBS -l filesystems=home:flare
#PBS -q debug
#PBS -A ABC123
# pytorch 2.8.0 at site aurora-2026-03 (x86_64)
# plan: sha256:PLAN-DIGEST
# Rendered by dlcontainer. To submit it: qsub job.sh
# Account, partition, time and nodes above are yours to change, here or when it
# is rendered: --account, --partition, --time, --nodes.
# Ways to place ranks: tcp, bound. Another than tcp: qsub -v DLCONTAINER_FORM=NAME job.sh
# source: argonne-lcf/user-guides@7d04a3f docs/aurora/running-jobs-aurora.md
# source: argonne-lcf/user-guides@0037d9f docs/aurora/running-jobs-aurora.md
# source: argonne-lcf/user-guides@0e8fee2 docs/aurora/containers/src/test_container.sh
# source: argonne-lcf/user-guides@dce73c0 docs/aurora/containers/containers.md
# source: argonne-lcf/user-guides@9a947b7 docs/aurora/system-updates.md
# Not known, so not promised (why: dlcontainer site show aurora): MPI over Slingshot from
#   containers; ranks on more than one node from containers; service pack and glibc of the
#   production image (before SP7); when the image of the queue next-eval comes to all nodes; GPU
#   driver's libraries in the image
set -eu
dlc_fail() { printf 'job: %s\n' "$1" >&2; printf '  next: %s\n' "$2" >&2; exit 3; }
cd "${PBS_O_WORKDIR:-$PWD}"

# The image, and the command that each rank runs in it: what follows the script's name, else the
# proof of devices, ranks and network; to read it: dlcontainer prove proof-JOB
dlc_image=${DLCONTAINER_IMAGE:-$PWD/pytorch-2.8.0-aurora-2026-03.sif}
[ -r "$dlc_image" ] || dlc_fail "can't read $dlc_image" 'build it: dlcontainer build; or name it: DLCONTAINER_IMAGE=/path/to/image.sif'
dlc_proof=
if [ $# -eq 0 ]; then
    dlc_job=${SLURM_JOB_ID:-${PBS_JOBID:-${LSB_JOBID:-${COBALT_JOBID:-${SGE_TASK_ID:+${JOB_ID-}}}}}}
    dlc_proof=$PWD/proof-${dlc_job:-$$}
    mkdir -p "$dlc_proof"
    set -- /usr/bin/python /opt/dlcontainer/probe prove --out "$dlc_proof"
fi

# `module` is a function of the shell: where this shell has none, /etc/profile defines it. Older
# ones read variables that are not set.
set +eu
dlc_stop() { dlc_fail "line ${BASH_LINENO[0]}: a module command failed, see above" "ask what the site has: module avail"; }
type module >/dev/null 2>&1 || . /etc/profile
module load apptainer || dlc_stop
set -eu

# The host's own Python and libraries are none of the image's.
unset PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONUSERBASE VIRTUAL_ENV LD_PRELOAD

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

# In the image.
# The runtime evaluates these as a shell does between double quotes.
dlc_inside() { export "APPTAINERENV_$1=$(printf %s "$2" | LC_ALL=C sed 's/[\\$`]/\\&/g')"; }
dlc_inside ZE_FLAT_DEVICE_HIERARCHY FLAT
dlc_inside ONEAPI_DEVICE_SELECTOR level_zero:gpu
dlc_inside SYCL_DEVICE_FILTER level_zero:gpu
dlc_inside CCL_ATL_TRANSPORT ofi
dlc_inside CCL_ZE_IPC 0
dlc_inside CCL_ZE_IPC_EXCHANGE sockets

dlc_nodes=$(awk 'NF && !seen[$1]++ { n++ } END { print n + 0 }' "${PBS_NODEFILE-/dev/null}" || :)
case $dlc_nodes in
    '' | 0* | *[!0-9]*) dlc_fail "can't tell the number of nodes: '$dlc_nodes'" 'run this in a job: qsub job.sh' ;;
esac

dlc_number=${PBS_JOBID-}
dlc_number=${dlc_number%%.*}
dlc_number=${dlc_number//[!0-9]/}
MASTER_PORT=${DLCONTAINER_MASTER_PORT:-$((10000 + 10#0$dlc_number % 10000))}
# Where the ranks meet: the job's first node. The port follows from the job's number, so that two
# jobs on one node have two, unless the site's own documentation gives one.
# DLCONTAINER_MASTER_ADDR and DLCONTAINER_MASTER_PORT come first.
MASTER_ADDR=${DLCONTAINER_MASTER_ADDR-}
dlc_hosts=$(awk 'NF && !seen[$1]++ { print $1 }' "${PBS_NODEFILE-/dev/null}" 2>/dev/null) || dlc_hosts=
if [ -z "$MASTER_ADDR" ]; then
    dlc_first=${dlc_hosts%%$'\n'*}
    if [ -n "${PBS_JOBID-}" ]; then dlc_first=$(uname -n); fi
    MASTER_ADDR=${dlc_first%%.*}.hsn.cm.aurora.alcf.anl.gov
    [ -n "$MASTER_ADDR" ] || dlc_fail "can't tell where the ranks of this job meet" \
        "run this in a job, or name its first node: DLCONTAINER_MASTER_ADDR=HOST"
fi
export MASTER_ADDR MASTER_PORT

# What starts the ranks.
dlc_launcher=() dlc_ranks='' dlc_ranks_per_node='' dlc_workers='' dlc_starter='' \
    dlc_gpus=1:0
dlc_form=${DLCONTAINER_FORM:-tcp}
case $dlc_form in
    tcp)  # One rank for each tile, over TCP, as the sample for containers
        dlc_ranks_per_node=12 dlc_ranks=$((dlc_nodes * 12))
        dlc_gpus=12:12
        dlc_launcher=(mpiexec -n "$dlc_ranks" -ppn "$dlc_ranks_per_node" -genv \
            I_MPI_HYDRA_BOOTSTRAP pmi -genv I_MPI_FABRICS ofi -genv I_MPI_OFI_PROVIDER tcp -genv \
            FI_PROVIDER tcp)
        ;;
    bound)  # One rank on each tile and 8 cores beside it, as the guide shows outside containers
        dlc_ranks_per_node=12 dlc_ranks=$((dlc_nodes * 12))
        dlc_gpus=12:12
        dlc_launcher=(mpiexec -n "$dlc_ranks" -ppn "$dlc_ranks_per_node" --cpu-bind \
            list:1-8:9-16:17-24:25-32:33-40:41-48:53-60:61-68:69-76:77-84:85-92:93-100 --gpu-bind \
            list:0.0:0.1:1.0:1.1:2.0:2.1:3.0:3.1:4.0:4.1:5.0:5.1)
        ;;
    *) dlc_fail "DLCONTAINER_FORM=$dlc_form is no form of this site" "one of: tcp, bound" ;;
esac
# SEEN:SHARING, the GPUs that each rank shall see, and the ranks that share them. Each rank looks
# before it starts. A proof only notes it: it says itself what it found.
case ${DLCONTAINER_GPUS:-1} in
    0) dlc_gpus= ;;
    1) [ -z "$dlc_proof" ] || dlc_gpus=$dlc_gpus:note ;;
    *) dlc_fail "DLCONTAINER_GPUS is '$DLCONTAINER_GPUS'" "give 1, or 0: ranks don't look at GPUs" ;;
esac

# What each rank runs.
set -- apptainer exec --bind "${PWD}" "$dlc_image" "$@"
{ printf 'job:'; printf ' %q' "${dlc_launcher[@]}" "$@"; echo; } >&2
read -r -d '' dlc_rank <<'END_OF_RANK' || :
# A rank, before its engine: it takes its numbers from what its launcher tells, for env://.
MASTER_ADDR=$1 MASTER_PORT=$2 dlc_ranks=$3 dlc_per_node=$4 dlc_workers=$5 dlc_starter=$6
dlc_gpus=$7
shift 7
dlc_take() {  # rank, ranks, rank on this node, ranks there as "4", "4(x2)" or "4,2"
    [ -n "$1" ] || return 1
    RANK=$1 WORLD_SIZE=${2:-$dlc_ranks} LOCAL_RANK=$3
    case $4 in
        *,* | '') LOCAL_WORLD_SIZE=$dlc_per_node ;;
        *) LOCAL_WORLD_SIZE=${4%%"("*} ;;
    esac
    # Where a launcher says no more than a rank, ranks lie node by node.
    [ -n "$LOCAL_RANK$dlc_per_node" ] && LOCAL_RANK=${LOCAL_RANK:-$((RANK % dlc_per_node))}
    [ -n "$WORLD_SIZE" ]
}
dlc_take "${OMPI_COMM_WORLD_RANK-}" "${OMPI_COMM_WORLD_SIZE-}" "${OMPI_COMM_WORLD_LOCAL_RANK-}" "${OMPI_COMM_WORLD_LOCAL_SIZE-}" ||
    dlc_take "${PALS_RANKID-}" "${PALS_SIZE-}" "${PALS_LOCAL_RANKID-}" "${PALS_LOCAL_SIZE-}" ||
    dlc_take "${PMI_RANK-}" "${PMI_SIZE-}" "${MPI_LOCALRANKID-}" "${MPI_LOCALNRANKS-}" ||
    dlc_take "${PMIX_RANK-}" "${PMIX_SIZE-}" "${PMIX_LOCAL_RANK-}" "${PMIX_LOCAL_SIZE-}" ||
    { echo "job: mpiexec does not say which rank this is" >&2; exit 3; }
if [ "$dlc_starter" = torchrun ]; then
    # One a node: torchrun numbers the ranks itself, and reads its node's number here.
    PET_NODE_RANK=$RANK
    export PET_NODE_RANK
else
    export RANK WORLD_SIZE
    [ -z "$LOCAL_RANK" ] || export LOCAL_RANK
    [ -z "$LOCAL_WORLD_SIZE" ] || export LOCAL_WORLD_SIZE
    [ -z "$dlc_workers" ] || export TF_CONFIG="{\"cluster\": {\"worker\": [$dlc_workers]}, \
\"task\": {\"type\": \"worker\", \"index\": $RANK}}"
fi
export MASTER_ADDR MASTER_PORT
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
# What this rank can use of its node's accelerators, by the host's own tool where there is one.
dlc_short() {  # one rank says it for its node
    [ "${LOCAL_RANK:-0}" != 0 ] ||
        printf 'job: %s: %s\n  next: %s; DLCONTAINER_GPUS=0 starts without this check\n' "$(uname -n)" "$1" "$2" >&2
    case $dlc_gpus in *:note) ;; *) exit 3 ;; esac
}
dlc_look() {
    dlc_wanted=${dlc_gpus%%:*} dlc_sharing=${dlc_gpus#*:} dlc_count='' dlc_by=''
    dlc_sharing=${dlc_sharing%%:*}
    if ! [ -e /dev/dri ]; then
        dlc_count=0 dlc_by="there is no /dev/dri"
    fi
    [ -n "$dlc_count" ] || return 0
    # Who submits with fewer than the lines above ask for was promised these.
    case ${SLURM_GPUS_ON_NODE-} in
        '' | 0* | *[!0-9]*) ;;
        *) [ "$SLURM_GPUS_ON_NODE" -ge "$dlc_wanted" ] || dlc_wanted=$SLURM_GPUS_ON_NODE ;;
    esac
    if [ "$dlc_count" -lt "$dlc_wanted" ]; then
        dlc_short "a rank here can use $dlc_count GPUs of the $dlc_wanted that this form of job gives it ($dlc_by)" \
            "ask for them in the lines above, or take this node out"
        return 0
    fi
}
[ -z "$dlc_gpus" ] || dlc_look
exec "$@"
END_OF_RANK
set -- "${dlc_launcher[@]}" /bin/sh -c "$dlc_rank" dlc-rank "$MASTER_ADDR" "$MASTER_PORT" \
    "$dlc_ranks" "$dlc_ranks_per_node" "$dlc_workers" "$dlc_starter" "$dlc_gpus" \
    "$@"
"$@"
