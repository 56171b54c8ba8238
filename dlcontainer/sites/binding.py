"""Ranks' cores beside their GPUs: by `cpu_bind: near`; a form that binds them far is refused.

Each rank uses the GPU of its local number. A domain's cores that jobs get are divided among its
GPUs in their order, the same number to each.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

from dlcontainer.config import KeyPath, SelectedDocument
from dlcontainer.errors import ConfigError, Mark
from dlcontainer.schedulers import SCHEDULERS
from dlcontainer.schedulers.scheduler import TASKS, CpuBinding
from dlcontainer.sites.facts import Accelerator, Cpu, LaunchForm
from dlcontainer.sites.site import Site

# A site that gives devices another order or each rank its own says so by one of these.
_ORDERED = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")


def require_near(site: SelectedDocument[Site]) -> None:
    """Refuse a form whose ranks run beside another GPU than the one of their number."""
    gpu, cpu = site.value.accelerator, site.value.cpu
    if gpu is None or not gpu.near:
        return
    _require_on_node(site, gpu, cpu)
    if _ordered(site.value, gpu):
        return
    for name, form in site.value.scheduler.forms.items():
        if form.cpu_bind is None and not form.inside and form.ranks_per_node == gpu.per_node:
            _FormBinding(site=site, name=name, form=form).require_near(gpu, cpu)


def settle(site: SelectedDocument[Site]) -> Site:
    """Return the site with the words of each form that says `cpu_bind: near`; ConfigError where
    they do not follow from its facts.
    """
    scheduler = site.value.scheduler
    forms = {
        name: _FormBinding(site=site, name=name, form=form).bound() if form.cpu_bind else form
        for name, form in scheduler.forms.items()
    }
    return site.value.model_copy(
        update={"scheduler": scheduler.model_copy(update={"forms": forms})}
    )


def has_whole_nodes(site: Site) -> bool:
    """Return whether a job of the site has all CPUs of its nodes, by what its file says."""
    batch = SCHEDULERS[site.scheduler.kind]
    lines = batch.options(site.scheduler.directives)
    whole = batch.whole_nodes and re.search(rf"(?<!\S)(?:{batch.whole_nodes})", lines)
    tasks, per_task = (batch.number(word, lines) for word in (TASKS, "--cpus-per-task"))
    cpus = site.cpu.cores * site.cpu.threads_per_core if site.cpu else None
    asks_all = cpus is not None and (tasks or 0) * (per_task or 0) >= cpus
    return site.scheduler.whole_nodes or bool(whole) or asks_all


def _require_on_node(site: SelectedDocument[Site], gpu: Accelerator, cpu: Cpu | None) -> None:
    """Refuse a domain that the node does not have."""
    if cpu is None or cpu.cores_per_domain is None:
        return
    domains = cpu.all_cores // cpu.cores_per_domain
    if max(gpu.near) >= domains:
        raise ConfigError(
            f"accelerator.near: NUMA domain {max(gpu.near)} has no cores: the node's "
            f"{cpu.all_cores} cores are {domains} domains of {cpu.cores_per_domain}, from 0 on",
            where=site.document.origin(("accelerator", "near")).where,
            why=f"cpu.cores_per_domain is {cpu.cores_per_domain} "
            f"({site.document.origin(('cpu', 'cores_per_domain')).where})",
            next_step="correct near (`nvidia-smi topo -m`), or cpu.cores_per_domain, cores or "
            "reserved (`lscpu`)",
        )


def _ordered(site: Site, gpu: Accelerator) -> str:
    """Return the variable by which a site's jobs give devices another order than their own."""
    ascending = ",".join(map(str, range(gpu.per_node)))
    for variables in (site.jobs.environment, site.jobs.inside):
        for name in _ORDERED:
            if variables.get(name, ascending) != ascending:
                return name
    return ""


@dataclass(frozen=True, kw_only=True, slots=True)
class _FormBinding:
    """A form of a site: where its words bind ranks, and the words that would bind them near."""

    site: SelectedDocument[Site]
    name: str
    form: LaunchForm

    @property
    def binding(self) -> CpuBinding | None:
        program = PurePath(self.form.launcher[0]).name
        return SCHEDULERS[self.site.value.scheduler.kind].cpu_bindings.get(program)

    def require_near(self, gpu: Accelerator, cpu: Cpu | None) -> None:
        """Refuse the form's own words where they place a rank beside another GPU than its own."""
        binding = self.binding
        domains = self._domains(binding, gpu, cpu) if binding else None
        if domains is None or all(
            {near} >= rank for near, rank in zip(gpu.near, domains, strict=True)
        ):
            return
        further = f", or use {binding.alternative}" if binding and binding.alternative else ""
        raise self._error(
            "launcher",
            f"ranks run on NUMA domains {_said(domains)}, but their GPUs are near "
            f"{' '.join(map(str, gpu.near))}",
            why="each rank uses the GPU of its local number, and accelerator.near "
            f"({self._place('accelerator', 'near')}) names the GPUs' domains",
            next_step=f"write cpu_bind: near in place of the launcher's own words{further}",
        )

    def bound(self) -> LaunchForm:
        """Return the form with the words that bind its ranks near their GPUs."""
        gpu, binding = self.site.value.accelerator, self.binding
        if gpu is None or not gpu.near:
            raise self._unbound(
                "nothing says which NUMA domain is beside which device",
                next_step="write accelerator.near (`nvidia-smi topo -m`), or remove cpu_bind",
            )
        if binding is None:
            raise self._unbound(
                f"how {self.form.launcher[0]} binds ranks to cores is not known with "
                f"scheduler.kind: {self.site.value.scheduler.kind}",
                next_step="remove cpu_bind, and write the launcher's own words",
            )
        self._require_own_gpus(gpu)
        self._require_alone(binding)
        words = self._words(gpu, binding)
        update = {"launcher": (*self.form.launcher, *words), "cpu_bind": None}
        return self.form.model_copy(update=update)

    def _require_own_gpus(self, gpu: Accelerator) -> None:
        """Refuse ranks that do not use the GPU of their local number."""
        form, variable = self.form, _ordered(self.site.value, gpu)
        if form.inside or form.ranks_per_node != gpu.per_node:
            started = "one process" if form.inside else f"{form.ranks_per_node} ranks"
            raise self._unbound(
                f"its launcher starts {started} on a node of {gpu.per_node} devices",
                why=f"accelerator.per_node ({self._place('accelerator', 'per_node')}): near binds "
                "a rank for each device",
                next_step="remove cpu_bind, or make ranks_per_node the number of devices",
            )
        if variable:
            raise self._unbound(
                f"the site's jobs set {variable}",
                why="each rank uses the device of its local number, and the variable gives them "
                "another order",
                next_step=f"remove cpu_bind, or remove {variable} from jobs",
            )

    def _require_alone(self, binding: CpuBinding) -> None:
        """Refuse further words that say where ranks run, and jobs that share their nodes."""
        excluded = re.search(rf"(?<!\S)(?:{binding.excluded})", " ".join(self.form.launcher))
        if excluded is not None:
            raise self._error(
                "launcher",
                f"{excluded[0]} excludes cpu_bind: near ({self._place(*self._at('cpu_bind'))})",
                why="both say on which cores ranks run",
                next_step="remove one of them",
            )
        if not has_whole_nodes(self.site.value):
            raise self._unbound(
                "nothing says that jobs have their nodes for themselves",
                why="the words number a node's cores, and on a shared node some are another job's",
                next_step="write scheduler.whole_nodes: true where the partition gives whole "
                "nodes, or ask for them in scheduler.directives (Slurm: #SBATCH --exclusive)",
            )

    def _words(self, gpu: Accelerator, binding: CpuBinding) -> tuple[str, ...]:
        cpu = self.site.value.cpu
        shared, reserved = len({*gpu.near}) < len(gpu.near), bool(cpu and cpu.reserved)
        if binding.domains and not shared and not reserved:
            return binding.by_domain(gpu.near)
        if cpu is None or cpu.cores_per_domain is None:
            raise self._unbound(
                "nothing says which cores are in which NUMA domain",
                why="devices share a domain, cores are reserved, or the launcher binds to cores "
                "alone: its words are numbers of cores",
                next_step="write cpu.cores_per_domain, and cpu.reserved where jobs do not get all "
                "cores (`lscpu`)",
            )
        if self.site.value.arch == "ppc64le" and cpu.threads_per_core > 1:
            raise self._unbound(
                "on ppc64le a core's number is not that of its first hardware thread",
                next_step="remove cpu_bind, and write the launcher's own words",
            )
        ranks = shares(cpu, gpu.near)
        if not all(ranks):
            raise self._unbound(
                f"NUMA domain {gpu.near[ranks.index([])]} has fewer cores than devices",
                why=f"accelerator.near ({self._place('accelerator', 'near')}) and "
                f"cpu.cores_per_domain ({self._place('cpu', 'cores_per_domain')}) say so",
                next_step="correct one of them, or cpu.reserved",
            )
        return binding.by_cores(ranks)

    def _domains(
        self, binding: CpuBinding, gpu: Accelerator, cpu: Cpu | None
    ) -> list[set[int]] | None:
        """Return the domains of each rank of a node; None where the words don't say them."""
        placement = binding.read(self.form.launcher, len(gpu.near))
        if placement.ascending:
            return [{domain} for domain in sorted(gpu.near)]
        if placement.domains:
            return [{domain} for domain in placement.domains]
        if not placement.cpus or cpu is None or cpu.cores_per_domain is None:
            return None
        self._require_on_node(cpu, max(max(cpus, default=0) for cpus in placement.cpus))
        size, cores = cpu.cores_per_domain, cpu.all_cores
        return [{number % cores // size for number in cpus} for cpus in placement.cpus]

    def _require_on_node(self, cpu: Cpu, number: int) -> None:
        """Refuse a CPU that the node does not have."""
        cpus = cpu.all_cores * cpu.threads_per_core
        if number >= cpus:
            raise self._error(
                "launcher",
                f"ranks are bound to CPU {number}, but a node has {cpus} CPUs, from 0 on",
                why=f"cpu ({self._place('cpu', 'cores')}) has {cpu.all_cores} cores, threads per "
                f"core: {cpu.threads_per_core}",
                next_step="correct the launcher's words, or cpu",
            )

    def _unbound(self, what: str, *, next_step: str, why: str | None = None) -> ConfigError:
        return self._error("cpu_bind", f"cpu_bind: near: {what}", why=why, next_step=next_step)

    def _error(self, key: str, what: str, *, next_step: str, why: str | None) -> ConfigError:
        return ConfigError(
            f"form {self.name}: {what}",
            where=self._place(*self._at(key)),
            why=why,
            next_step=next_step,
        )

    def _at(self, key: str) -> KeyPath:
        return ("scheduler", "forms", self.name, key)

    def _place(self, *path: str | int) -> Mark | str:
        return self.site.document.origin(path).where


def _said(domains: Sequence[set[int]]) -> str:
    return " ".join("+".join(map(str, sorted(rank))) for rank in domains)


def shares(cpu: Cpu, domains: Sequence[int]) -> list[list[int]]:
    """Return the cores of each device, by the number of the domain beside it.

    A domain's cores that jobs get are divided among its devices in their order, the same number
    to each: some are left over, or a share is empty. Needs cores_per_domain.
    """
    size, reserved = cpu.cores_per_domain or 0, {*cpu.reserved}
    ranks = []
    for device, domain in enumerate(domains):
        first = domain * size
        free = [core for core in range(first, first + size) if core not in reserved]
        share = len(free) // domains.count(domain)
        before = domains[:device].count(domain) * share
        ranks.append(free[before : before + share])
    return ranks
