"""MPI, scheduler and modules of a node."""

import re
from collections.abc import Iterator

from dlcontainer.detection.evidence import NodeEvidence, ProgramAnswer
from dlcontainer.detection.fact import FactValue, NodeFact, either, known, listed, unknown

_LIBRARIES = re.compile(r"^\s*(libmpi(?:_abi|_ibm|ch)?\.so\.\d+) .*=> (/.*)$", re.MULTILINE)
_OF_STACK = re.compile(r"mpi|ucx|libfabric|cuda|rocm|nccl|rccl|oneapi", re.IGNORECASE)
# Which MPI a launcher is of, and its version. Sources: Open MPI mpirun(1); MPICH's mpichversion and
# Hydra's --version; Intel MPI's mpirun -V.
_LAUNCHERS = (
    ("Open MPI", r"\(Open MPI\) (\d\S*)", "mpirun --version"),
    ("IBM Spectrum MPI", r"Spectrum MPI\D*(\d\S*)", "mpirun --version"),
    ("Intel MPI", r"Intel\(R\) MPI Library\D*Version (\d\S*)", "mpirun --version"),
    ("MPICH", r"MPICH Version:\s*(\d\S*)", "mpichversion"),
    ("Hydra (MPICH, MVAPICH)", r"HYDRA build details:\s*Version:\s*(\d\S*)", "mpirun --version"),
)
# How each scheduler says its version, and the program that submits there. Sources: sinfo(1),
# qstat(1B) of PBS, qstat(1) of Grid Engine, bsub(1), flux(1); words of LSF and Flux: remembered.
_SCHEDULERS = (
    ("slurm", "sinfo --version", r"^slurm(?:-wlm)? (\d\S*)", "sbatch"),
    ("pbs", "qstat --version", r"(?:pbs_version = |PBSPro_|Version: )(\d\S*)", "qsub"),
    ("gridengine", "qstat -help", r"^(?:SGE|GE|UGE|OGS/GE|AGE|OCS) (\d\S*)", "qsub"),
    ("lsf", "bsub -V", r"(?:LSF|Spectrum LSF)\D* (\d+\.\d\S*),", "bsub"),
)
# Set by HPE's module of its MPI.
CRAY = "CRAY_MPICH_VERSION"
_FLUX = r"commands:\s*(\d\S*)"


def facts(evidence: NodeEvidence) -> Iterator[NodeFact]:
    """Yield MPI, scheduler and modules."""
    yield from _mpi(evidence)
    yield from _scheduler(evidence)
    yield from _modules(evidence)


def _mpi(evidence: NodeEvidence) -> Iterator[NodeFact]:
    for name in ("mpirun", "mpicc"):
        path = evidence.programs.get(name)
        yield either(f"mpi.{name}", path, "PATH", f"no {name} on PATH")
    words = None
    for maker, pattern, command in _LAUNCHERS:
        match = re.search(pattern, evidence.answer(command).out)
        if match is not None:
            words = words or f"{maker} {match[1]}"
    why = evidence.answer("mpirun --version").failure or "it names no MPI that is known here"
    yield either("mpi.name", words, "mpirun --version, mpichversion", why)
    libraries = evidence.answer("ldconfig -p")
    if libraries.failure:
        yield unknown("mpi.libraries", "ldconfig -p", libraries.failure)
    else:
        found_libraries = [match[1] for match in _LIBRARIES.finditer(libraries.out)]
        yield known("mpi.libraries", listed(found_libraries), "ldconfig -p")
    loaded = evidence.variables.get(CRAY)
    yield either("mpi.module_version", loaded, CRAY, "it is not set: no such module is loaded")
    cray = evidence.folders.get("/opt/cray/pe/cray-mpich")
    if cray:
        versions = tuple(name for name in cray if name[:1].isdigit())
        yield known("mpi.cray_mpich", versions, "/opt/cray/pe/cray-mpich")


def _version(answer: ProgramAnswer, pattern: str) -> str | None:
    if answer.error is not None:
        return None  # its exit code says nothing: some print their help so
    match = re.search(pattern, answer.out, re.MULTILINE)
    return match[1].rstrip(",;") if match else None


def _scheduler(evidence: NodeEvidence) -> Iterator[NodeFact]:
    for kind, command, pattern, submit in _SCHEDULERS:
        version = _version(evidence.answer(command), pattern)
        if version is not None and submit in evidence.programs:
            yield known("scheduler.kind", kind, f"{command}; {submit} on PATH")
            yield known("scheduler.version", version, command)
            yield _partitions(kind, evidence)
            yield _default_partition(kind, evidence)
            yield _launcher(kind, evidence)
            return
    flux = _version(evidence.answer("flux --version"), _FLUX)
    commands = ", ".join(command for _, command, _, _ in _SCHEDULERS)
    if flux is not None:
        yield unknown("scheduler.kind", "flux --version", f"Flux {flux} has no site key here yet")
    else:
        yield known("scheduler.kind", "none", f"{commands}: no scheduler answers")


def _partitions(kind: str, evidence: NodeEvidence) -> NodeFact:
    command = {"slurm": _SINFO, "pbs": "qstat -Q", "gridengine": "qconf -sql", "lsf": "bqueues -w"}
    answer = evidence.answer(command[kind])
    if answer.failure is not None:
        return unknown("scheduler.partitions", command[kind], answer.failure)
    lines = [line for line in answer.out.splitlines() if line.strip()]
    if kind == "slurm":
        rows = [_slurm(line) for line in lines]
        return known("scheduler.partitions", tuple(filter(None, rows))[:64], command[kind])
    if kind in ("pbs", "lsf"):  # below a head, and PBS's line
        lines = [line for line in lines[1:] if not line.startswith("-")]
    return known(
        "scheduler.partitions", listed([line.split()[0] for line in lines])[:64], command[kind]
    )


_SINFO = "sinfo --noheader --format=%P|%a|%l|%D|%c|%m|%G"


def _slurm(line: str) -> str | None:
    parts = line.split("|")
    if len(parts) != 7:
        return None
    name, state, limit, nodes, cpus, memory, gres = parts
    words = f"{name.rstrip('*')}: {state}, {nodes} nodes of {cpus} CPUs, {memory} MB, limit {limit}"
    return words if gres == "(null)" else f"{words}, {gres}"


def _default_partition(kind: str, evidence: NodeEvidence) -> NodeFact:
    """Name the partition that jobs get who ask for none; Slurm marks it with a star."""
    if kind != "slurm":
        return unknown("scheduler.default_partition", "-", f"{kind} marks none in its list")
    answer = evidence.answer(_SINFO)
    match = re.search(r"^([^|*\n]+)\*\|", answer.out, re.MULTILINE)
    why = answer.failure or "no partition has a star"
    return either("scheduler.default_partition", match[1] if match else None, _SINFO, why)


def _launcher(kind: str, evidence: NodeEvidence) -> NodeFact:
    """Name what starts ranks in jobs, where the scheduler has a program of its own for that."""
    if kind != "slurm":
        return unknown("scheduler.launcher", "-", f"{kind} has none of its own")
    name = "srun" if "srun" in evidence.programs else None
    return either("scheduler.launcher", name, "PATH", "no srun on PATH")


def _modules(evidence: NodeEvidence) -> Iterator[NodeFact]:
    variables, answer = evidence.variables, evidence.answer("modulecmd --version")
    lmod, how = variables.get("LMOD_VERSION"), "LMOD_VERSION, MODULES_CMD, modulecmd --version"
    tcl = re.search(r"(?:Modules Release|VERSION=)\s*(\d[\w.]*)", answer.out)
    kind: FactValue | None = None
    if lmod or "LMOD_CMD" in variables:
        kind = "lmod"
    elif tcl or "MODULES_CMD" in variables:
        kind = "tcl"
    yield either("modules.kind", kind, how, "none of them is there")
    version = lmod or (tcl[1] if tcl else None)
    yield either("modules.version", version, how, "none of them says it")
    path = tuple(part for part in variables.get("MODULEPATH", "").split(":") if part)
    yield either("modules.path", path or None, "MODULEPATH", "it is not set")
    loaded = variables.get("LOADEDMODULES", "").split(":")
    yield known("modules.loaded", tuple(filter(_OF_STACK.search, loaded)), "LOADEDMODULES")
    offered = [
        name for part in path for name in evidence.folders.get(part, ()) if _OF_STACK.search(name)
    ]
    yield known("modules.offered", listed(offered)[:64], "the folders of MODULEPATH, names alone")
