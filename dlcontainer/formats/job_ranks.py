"""How a job's ranks are started and find each other: parts of its script."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from dlcontainer import schedulers
from dlcontainer.config.templating import Text
from dlcontainer.errors import ConfigError
from dlcontainer.formats import host_variables
from dlcontainer.planning.launch.launch_plan import LaunchPlan
from dlcontainer.schedulers import SCHEDULERS
from dlcontainer.sites.facts import LaunchForm

# Below the ports that systems give to programs which ask for any (Linux: from 32768 on): where
# ranks meet, and behind it TensorFlow's.
_PORTS = range(10_000, 30_000)
_PORT = "$(({first} + 10#0$dlc_number % {count}))"
_MEET_AT = "DLCONTAINER_MASTER_ADDR=ADDRESS"
# A worker of TensorFlow has a port of its own on its node.
_WORKERS = """\
if [ -n "$dlc_ranks_per_node" ] && [ -z "$dlc_starter" ]; then
    dlc_port=$(({first} + 10#0$dlc_number % ({count} / dlc_ranks_per_node) * dlc_ranks_per_node))
    for dlc_host in $dlc_hosts; do
        for ((dlc_local = 0; dlc_local < dlc_ranks_per_node; dlc_local++)); do
            dlc_workers+=${{dlc_workers:+, }}\\"{host}:$((dlc_port + dlc_local))\\"
        done
    done
fi"""


@dataclass(frozen=True, kw_only=True, slots=True)
class RankRendezvous:
    """Where ranks meet, as shell: the first host's name, the port, the allocation's hosts.

    `as_address`: never by its name; `interface`: first at its address there. `own_host_alone`: the
    allocation's hosts are not known, and a launcher may reach some.
    """

    hosts: Text
    on_first: Text
    own_host_alone: bool
    name: Text
    interface: Text
    as_address: bool
    ipv6: bool
    submit: Text
    port: Text
    number: Text


def meeting(plan: LaunchPlan) -> RankRendezvous:
    """Return where the ranks of a site's job meet; raises ConfigError for what no job can ask."""
    site = plan.site
    batch, rendezvous = SCHEDULERS[site.scheduler.kind], site.jobs.rendezvous
    if rendezvous.interface and not batch.script_on_first:
        raise ConfigError(
            f"site {site.name}: jobs.rendezvous.interface: the job script cannot read the "
            "first node's interface",
            where=plan.place_in_site("jobs", "rendezvous"),
            why=f"{site.scheduler.kind} does not run job scripts on a node of the job",
            next_step="set jobs.rendezvous to suffix or address, or remove it to use the "
            "first node's name",
        )
    return RankRendezvous(
        hosts=Text(batch.hosts),
        on_first=Text(batch.script_on_first),
        own_host_alone=batch.own_host_alone,
        name=Text(_suffixed("dlc_first", rendezvous.suffix)),
        interface=Text(rendezvous.interface or ""),
        as_address=rendezvous.address or rendezvous.interface is not None,
        ipv6=rendezvous.ipv6,
        submit=Text(" ".join(batch.submit_argv("job.sh", variable=_MEET_AT))),
        port=Text(str(rendezvous.port or _port(_meeting_ports(plan)))),
        number=Text(batch.job_number),
    )


def _port(ports: range) -> str:
    return _PORT.format(first=ports.start, count=len(ports))


def _meeting_ports(plan: LaunchPlan) -> range:
    """Return the first half of a site's ports, or all where no worker of TensorFlow has one."""
    ports = plan.site.jobs.rendezvous.between
    if ports is not None and not _lists_workers(plan):
        return ports
    ports = ports or _PORTS
    forms = plan.site.scheduler.forms.values()
    most = max((form.ranks_per_node for form in forms if form.inside is None), default=1)
    return ports[: min(len(ports) // 2, len(ports) - most)]


def _lists_workers(plan: LaunchPlan) -> bool:
    batch = SCHEDULERS[plan.site.scheduler.kind]
    return "saved_model_cli" in plan.recipe.exposes and bool(batch.hosts)


def _suffixed(variable: str, suffix: str | None) -> str:
    return f"${{{variable}%%.*}}{suffix}" if suffix else f"${variable}"


def workers(plan: LaunchPlan, forms: Mapping[str, LaunchForm]) -> list[Text]:
    """Return the lines that list TensorFlow's workers, in the order of ranks, where it is there."""
    of_ranks = any(form.inside is None for form in forms.values())
    if not _lists_workers(plan) or not of_ranks:
        return []
    rendezvous = plan.site.jobs.rendezvous
    host = _suffixed("dlc_host", rendezvous.suffix)
    ports = (rendezvous.between or _PORTS)[len(_meeting_ports(plan)) :]
    text = _WORKERS.format(host=host, first=ports.start, count=len(ports))
    return list(map(Text, text.splitlines()))


def devices(plan: LaunchPlan, form: LaunchForm) -> str:
    """Return how many accelerators a rank shall see, and how many ranks share these: SEEN:SHARING.

    A number that no launcher's word says is the site's: ranks see all of their node's.
    """
    gpu = plan.site.accelerator
    if gpu is None:
        return ""
    launcher = schedulers.launcher(form.launcher[0], plan.site.scheduler.kind)
    pattern = launcher.devices if launcher else ""
    match = re.search(rf"(?<!\S){pattern}(?!\S)", " ".join(form.launcher)) if pattern else None
    visible = min(int(match[1]), gpu.per_node) if match else gpu.per_node
    return f"{visible}:{-(-form.ranks_per_node * visible // gpu.per_node)}"


def launcher_words(form: LaunchForm, kind: str) -> tuple[str, ...]:
    """Return a form's words, and the count of all ranks where they count a node's alone."""
    launcher, text = schedulers.launcher(form.launcher[0], kind), " ".join(form.launcher)
    if launcher is None or not launcher.all_ranks or re.search(launcher.all_said, text):
        return form.launcher
    if not re.search(launcher.per_node_said, text):
        return form.launcher
    return (form.launcher[0], launcher.all_ranks, *form.launcher[1:])


def cpus(plan: LaunchPlan) -> Text:
    """Return the line that hands the CPUs of a job's tasks to its launcher; empty where none must.

    In a script of several launchers it is for those alone that take them: another may start its own
    ranks with such a one, whose number is not that of its ranks.
    """
    scheduler = plan.site.scheduler
    first = [form.launcher[0] for form in scheduler.forms.values()] or scheduler.launcher[:1]
    names = list(dict.fromkeys(program.rpartition("/")[2] for program in first))
    launchers = {name: schedulers.launcher(name, scheduler.kind) for name in names}
    taking = {
        name: launcher for name, launcher in launchers.items() if launcher and launcher.cpus_taken
    }
    if not taking:
        return Text("")
    launcher = next(iter(taking.values()))
    line = (
        f'[ -z "${{{launcher.cpus_asked}-}}" ] || export '
        f'{launcher.cpus_taken}="${launcher.cpus_asked}"'
    )
    if len(taking) < len(names):
        line = f"case ${{dlc_launcher[0]##*/}} in {' | '.join(taking)}) {line} ;; esac"
    return Text(line)


def takes(program: str, kind: str) -> list[Text]:
    """Return the lines in which a rank looks for its numbers, the first variable that is set."""
    lines: list[Text] = []
    for variables in schedulers.rank_variables(program, kind):
        names = (variables.rank, variables.size, variables.local_rank, variables.local_size)
        looks = " ".join(f'"${{{name}-}}"' if name else "''" for name in names)
        lines.append(Text(f"{'    ' if lines else ''}dlc_take {looks} ||"))
    return lines


def torchrun(plan: LaunchPlan, ranks_per_node: int) -> list[Text]:
    """Return the words that start a node's ranks in the image.

    `--master_addr` and not a c10d endpoint: there each node compares the endpoint with its own
    names, and none hosts it where a site's address is another than they know (a suffix, an
    interface). Spelled with '_', which all releases of PyTorch since 1.9 take.
    """
    warned = plan.site.jobs.warning is not None
    return [
        Text(plan.python),
        # Where the job is warned, templates/job/torchrun.py.j2 runs the same module.
        *map(Text, ("-c", '"$dlc_torchrun"') if warned else ("-m", "torch.distributed.run")),
        Text("--no_python"),
        Text('--nnodes="$dlc_nodes"'),
        Text(f"--nproc_per_node={ranks_per_node}"),
        Text('--master_addr="$MASTER_ADDR"'),
        Text('--master_port="$MASTER_PORT"'),
    ]


def one_a_node(plan: LaunchPlan) -> list[Text]:
    """Return the words that start one process on each node; raises ConfigError where none do."""
    program = next(iter(_launchers(plan)), "")
    launcher = schedulers.launcher(program, plan.site.scheduler.kind) if program else None
    if not program:
        return []
    if launcher is None or not launcher.one_a_node:
        raise ConfigError(
            f"site {plan.site.name}: jobs.staging: cannot start one process on each node "
            f"with {program}",
            where=plan.place_in_site("jobs", "staging"),
            why="dlcontainer knows no options of this launcher for that",
            next_step="use sbcast with Slurm, or remove jobs.staging",
        )
    return [Text(program), *map(host_variables.launch_word, launcher.one_a_node)]


def _launchers(plan: LaunchPlan) -> list[str]:
    scheduler = plan.site.scheduler
    words = [form.launcher[0] for form in scheduler.forms.values()]
    return [*words, *scheduler.launcher[:1]]
