"""MPI, scheduler and modules of a node."""

import re
from collections.abc import Iterator

from dlcontainer.detection.evidence import NodeEvidence
from dlcontainer.detection.fact import FactValue, NodeFact, either, known, listed, unknown
from dlcontainer.schedulers import SCHEDULERS
from dlcontainer.schedulers.scheduler import SchedulerSigns

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


def _scheduler(evidence: NodeEvidence) -> Iterator[NodeFact]:
    for kind, batch in SCHEDULERS.items():
        signs = batch.signs
        if signs is None or batch.submit not in evidence.programs:
            continue
        # Its exit code says nothing: some print their help so.
        match = re.search(signs.version, evidence.answer(signs.version_command).out, re.MULTILINE)
        if match is not None:
            how = f"{signs.version_command}; {batch.submit} on PATH"
            yield known("scheduler.kind", kind, how)
            yield known("scheduler.version", match["version"], signs.version_command)
            yield from _of_scheduler(kind, signs, evidence)
            return
    flux = re.search(_FLUX, evidence.answer("flux --version").out)
    if flux is not None:
        yield unknown("scheduler.kind", "flux --version", f"Flux {flux[1]}: no site names it yet")
        return
    there = {
        batch.submit: batch.signs.version_command
        for batch in SCHEDULERS.values()
        if batch.signs and batch.submit in evidence.programs
    }
    if there:
        submit, command = next(iter(there.items()))
        failure = evidence.answer(command).failure or "it names no version"
        yield unknown("scheduler.kind", command, f"{submit} is on PATH, and {command}: {failure}")
        return
    commands = [batch.signs.version_command for batch in SCHEDULERS.values() if batch.signs]
    yield known("scheduler.kind", "none", f"{', '.join(commands)}: none of them is there")


def _of_scheduler(kind: str, signs: SchedulerSigns, evidence: NodeEvidence) -> Iterator[NodeFact]:
    """Yield its partitions, the usual one, and the launcher of its own."""
    command, answer = signs.partitions_command, evidence.answer(signs.partitions_command)
    if answer.failure is not None:
        yield unknown("scheduler.partitions", command, answer.failure)
    else:
        lines = [line for line in answer.out.splitlines() if line.strip()][signs.head :]
        names = filter(None, map(signs.partition, lines))
        yield known("scheduler.partitions", listed(list(names))[:64], command)
    match = re.search(signs.usual, answer.out, re.MULTILINE) if signs.usual else None
    why = answer.failure or "the list marks none"
    yield either("scheduler.default_partition", match["name"] if match else None, command, why)
    has_launcher = signs.launcher in evidence.programs
    why = f"no {signs.launcher} on PATH" if signs.launcher else f"{kind} has none of its own"
    yield either("scheduler.launcher", signs.launcher if has_launcher else None, "PATH", why)


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
