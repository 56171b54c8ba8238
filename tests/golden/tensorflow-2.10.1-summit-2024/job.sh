#!/bin/bash
#BSUB -P ABC123
#BSUB -W 0:30
#BSUB -nnodes 2
#BSUB -q batch
#BSUB -J dlcontainer
#BSUB -o dlcontainer.%J
#BSUB -e dlcontainer.%J
#BSUB -alloc_flags "smt4 nvme"
# tensorflow 2.10.1 at site summit-2024 (ppc64le)
# plan: sha256:PLAN-DIGEST
# Rendered by dlcontainer. To submit it: bsub job.sh [COMMAND [WORD ...]]
# Account, queue and time above are yours to change.
# The machine is decommissioned: rendered for the record.
# Ways to place ranks: node, gpu. Another than node: DLCONTAINER_FORM=NAME bsub job.sh
# source: olcf/olcf-user-docs@109c9aa systems/summit_user_guide.rst
# source: olcf/olcf-user-docs@d900d52^ software/containers_on_summit.rst
# source: olcf/olcf-user-docs@d900d52^ software/analytics/ibm-wml-ce.rst
# source: E3SM-Project/E3SM@3ca7e8849f^ cime_config/machines/config_machines.xml (MACH="summit")
# source: olcf/olcf-user-docs@109c9aa software/software-news.rst
# not known: NVIDIA driver version: no promise that a CUDA release starts
# not known: the kernel's patch level (RHEL 8.2's series is 4.18.0-193): no promise for what needs a newer kernel
# not known: the version of Singularity, later Apptainer: no promise that an option of a newer one is known there
# not known: what requiredmpilibs.source sets: the job reads the site's own file, we can't say which libraries it puts into the image
# not known: whether the centre's base images at code.ornl.gov can still be pulled: recipes don't start from them
set -eu
dlc_fail() { printf 'job: %s\n' "$1" >&2; printf '  next: %s\n' "$2" >&2; exit 3; }

# The image, and the command that each rank runs in it: what follows the script's name, else the
# proof of devices, ranks and network; to read it: dlcontainer prove proof-JOB
dlc_image=${DLCONTAINER_IMAGE:-$PWD/tensorflow-2.10.1-summit-2024.sif}
[ -r "$dlc_image" ] || dlc_fail "can't read $dlc_image" 'build it: dlcontainer build; or name it: DLCONTAINER_IMAGE=/path/to/image.sif'
if [ $# -eq 0 ]; then
    dlc_proof=$PWD/proof-${SLURM_JOB_ID:-${PBS_JOBID:-${LSB_JOBID:-${COBALT_JOBID:-$$}}}}
    mkdir -p "$dlc_proof"
    set -- /opt/tensorflow/bin/python /opt/dlcontainer/probe prove --out "$dlc_proof"
fi

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
set -eu

# What each rank runs, and what starts the ranks.
set -- apptainer exec --nv "$dlc_image" "$@"
dlc_nodes=$(awk 'NF && !/^(batch|launch|login)/ && !seen[$1]++ { n++ } END { print n + 0 }' "${LSB_DJOB_HOSTFILE-/dev/null}" || :)
case $dlc_nodes in
    '' | 0* | *[!0-9]*) dlc_fail "can't tell the number of nodes: '$dlc_nodes'" 'run this in a job: bsub job.sh [COMMAND [WORD ...]]' ;;
esac
dlc_form=${DLCONTAINER_FORM:-node}
case $dlc_form in
    node)  # one resource set a node, each of its six ranks sees all GPUs, as NCCL and Horovod want it
        set -- jsrun -n "$dlc_nodes" -r1 -g6 -a6 -c42 -bpacked:7 "$@"
        ;;
    gpu)  # six resource sets a node, each rank sees its own GPU as device 0
        dlc_ranks=$((dlc_nodes * 6))
        set -- jsrun -n "$dlc_ranks" -r6 -a1 -c7 -g1 -bpacked:7 "$@"
        ;;
    *) dlc_fail "DLCONTAINER_FORM=$dlc_form is no form of this site" "one of: node, gpu" ;;
esac
{ printf 'job:'; printf ' %q' "$@"; echo; } >&2
"$@"
