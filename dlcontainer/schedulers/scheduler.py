"""What a scheduler is: data and pure functions; it submits nothing.

One file a scheduler. All that differs between schedulers is a field here, so that no other module
asks for one by name.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

# What lines and launchers say of a node's tasks, as `on_launcher` names it.
TASKS = "--ntasks-per-node"
# No node has as many CPUs.
MOST_CPUS = 8192
# Whose doing an end is: nobody's (it ended well), the job's own, its time limit's, or the system's
# alone. What ended for the last is measured again.
Cause = Literal["none", "job", "limit", "outside"]


@dataclass(frozen=True, kw_only=True, slots=True)
class RankVariables:
    """The variables in which a launcher tells a rank its place; empty where it has none."""

    rank: str
    size: str = ""
    local_rank: str = ""
    local_size: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobVariables:
    """The variables that tell a job from all others, as its processes see them; empty: none.

    `number` names the job. Where other programs use its name too, `sign` is set in this scheduler's
    jobs alone. `enclosing` names the allocation whose jobs `number` counts, and a script that is
    none of them. What the scheduler ends together is told apart by `element` (of an array) and
    `step` (a launch). `restart` counts how often the job began again.
    """

    number: str
    sign: str = ""
    enclosing: str = ""
    element: str = ""
    step: str = ""
    restart: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """Each of them once, for a record."""
        names = (self.enclosing, self.number, self.sign, self.element, self.step, self.restart)
        return tuple(dict.fromkeys(filter(None, names)))

    def of(self, environ: Mapping[str, str]) -> tuple[str, str] | None:
        """Return the variable that names this process's job, and what it says; None outside."""
        if self.sign and not environ.get(self.sign):
            return None
        names = filter(None, (self.number, self.enclosing))
        return next(((name, environ[name]) for name in names if environ.get(name)), None)

    @property
    def word(self) -> str:
        """Return the word that a shell expands to the job's number; to nothing outside of one."""
        if self.sign:
            return f'"${{{self.sign}:+${{{self.number}-}}}}"'
        otherwise = f":-${{{self.enclosing}-}}" if self.enclosing else "-"
        return f'"${{{self.number}{otherwise}}}"'

    @property
    def words(self) -> tuple[str, ...]:
        """Return the words that tell a shell's own job, element and step from all others."""
        sign = self.sign or self.number
        names = filter(None, (self.enclosing, self.number, self.element, self.step))
        alone = (self.enclosing, sign)
        return tuple(
            f'"${{{name}-}}"' if name in alone else f'"${{{sign}:+${{{name}-}}}}"' for name in names
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Launcher:
    """A program that starts ranks, and how it is told their numbers.

    Words may hold {nodes}, {ranks}, {ranks_per_node}. Without words a launcher takes the numbers
    from its allocation.
    """

    counts: tuple[str, ...] = ()
    # Further words where the ranks are on several nodes.
    across_nodes: tuple[str, ...] = ()
    # Words that start one process on each node, {nodes} of them; empty where nobody described it.
    one_a_node: tuple[str, ...] = ()
    # Further words where that process shall have all that the job has of its node.
    whole_node: tuple[str, ...] = ()
    # Patterns of the words that count a node's ranks, and of those that count all. A job's own
    # count of all comes before the former: `all_ranks` is added where only these stand.
    per_node_said: str = ""
    all_said: str = ""
    all_ranks: str = ""
    # The signals that it hands on to its ranks, by its own documentation.
    hands_on: tuple[str, ...] = ()
    # A pattern of the words that give each rank accelerators of its own, their number its group;
    # a rank whose launcher says no such word sees all of its node's.
    devices: str = ""
    # Where its ranks find their numbers, the first that is set; empty: any that is known.
    tells: tuple[RankVariables, ...] = ()
    # Where an allocation says how many CPUs each task was asked for, the variable from which the
    # launcher takes them, and a pattern of its word for them, which comes first. Empty where it has
    # none, or where nothing tells.
    cpus_asked: str = ""
    cpus_taken: str = ""
    cpus_said: str = ""
    # ReFrame's name for it; "local" starts no ranks.
    reframe: str = "local"


def first_word(line: str) -> str | None:
    """Return the first word of a line."""
    return next(iter(line.split()), None)


@dataclass(frozen=True, kw_only=True, slots=True)
class SchedulerSigns:
    """By what a node tells that a scheduler serves it: commands that `detection/collect.py` runs.

    `version` finds the group `version` in what `version_command` prints, whatever its exit code.
    """

    version_command: str
    version: str
    # Lists its partitions below so many lines of a head; how a line is read: None for none.
    partitions_command: str
    head: int = 0
    partition: Callable[[str], str | None] = first_word
    # Finds in that list the one of jobs that ask for none, the group `name`; empty: no mark.
    usual: str = ""
    # The program of its own that starts ranks; empty where it has none.
    launcher: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReframeBackend:
    """A scheduler as ReFrame knows it (reframe-hpc 4.10, its manual and backends)."""

    name: str
    # A pattern: options that ReFrame writes into a job's head itself (name, size, time, output).
    written_options: str = ""
    # False where a job's script runs on a batch node, from which a launcher reaches the others.
    script_on_compute_node: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class QueuedJob:
    """A job that has not ended, and its state in the scheduler's words, where it tells one."""

    number: str
    state: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class SchedulerEnding:
    """How a job ended, in the scheduler's words, and whose doing that is."""

    state: str
    cause: Cause


def listed_lines(text: str, _name: str) -> tuple[QueuedJob, ...]:
    """Read a job a line: its number, and its state where there is a second word."""
    rows = [line.split() for line in text.splitlines() if line.strip()]
    return tuple(QueuedJob(number=row[0], state="".join(row[1:2])) for row in rows)


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchQueue:
    """How a program submits a job, follows it and cancels it.

    Words may hold {name}, a name that no other job has, {log}, where the job's output goes, and
    {job}, the job's number.
    """

    submit: tuple[str, ...]
    # Whether `submit` reads the script from its standard input; else it is the last word.
    script_on_stdin: bool = False
    # Finds the number, the group `job`, in what `submit` prints.
    number: str
    # Characters to which the scheduler gives a meaning of their own in {log}.
    unfit_in_log: str = ""
    # Prints the jobs of that name that have not ended; how that is read, the name with it; and a
    # pattern of what it says where there is none and its exit code is that of a failure.
    listing: tuple[str, ...]
    read: Callable[[str, str], tuple[QueuedJob, ...]] = listed_lines
    none_listed: str = ""
    # States which no job leaves by itself; what prints why, and the pattern of that.
    stuck: frozenset[str] = frozenset()
    explain: tuple[str, ...] = ()
    reason: str = ""
    # Prints the jobs whose node does not answer, which may come back; how that is read.
    away: tuple[str, ...] = ()
    read_away: Callable[[str, str], tuple[QueuedJob, ...]] = listed_lines
    # By {name}, or by {job} for each job listed.
    cancel: tuple[str, ...]
    # Prints how a job ended, and how that is read: None where it does not tell.
    ended: tuple[str, ...]
    ending: Callable[[str], SchedulerEnding | None]
    # How long after a job's end that may take to be told, s.
    told_within_s: float = 0.0
    # The words of a job's head for {count} ranks on each node.
    per_node: str = ""


def by_state(
    pattern: str, *, good: str, limit: Iterable[str], outside: Iterable[str]
) -> Callable[[str], SchedulerEnding | None]:
    """Read an ending whose state, the group of a pattern, says all; an unknown one is the job's."""
    causes: dict[str, Cause] = dict.fromkeys(outside, "outside")
    causes |= {**dict.fromkeys(limit, "limit"), good: "none"}

    def read(text: str) -> SchedulerEnding | None:
        match = re.search(pattern, text)
        if match is None:
            return None
        return SchedulerEnding(state=match["state"], cause=causes.get(match["state"], "job"))

    return read


@dataclass(frozen=True, kw_only=True, slots=True)
class Resource:
    """One thing that a job asks for, in a scheduler's words.

    `written` finds it in the lines of a job's head, its value the group `value`; `line` adds it.
    """

    written: str
    line: str


def clock(seconds: int) -> str:
    """Write a time as HH:MM:SS."""
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def _unknown_host(_environ: Mapping[str, str]) -> str | None:
    return None


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryWords:
    """One way to ask for memory: a pattern of it, its amount the group `value`.

    `units` has a letter's unit in full, "" that of an amount without one. `of` says what gets it.
    """

    written: str
    of: str
    units: Mapping[str, str]
    # A pattern that the line has besides, where the amount is that of one node; empty: never.
    per_node: str = ""
    # Amounts with a meaning of their own.
    special: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Placement:
    """Where the ranks of a node run, in their order; nothing where the words do not tell it."""

    # The NUMA domain of each rank.
    domains: tuple[int, ...] = ()
    # The CPUs of each rank.
    cpus: tuple[tuple[int, ...], ...] = ()
    # On cores in their order: the first rank on the lowest.
    ascending: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class CpuBinding:
    """The words by which a launcher binds the ranks of each node, {places} one for each rank.

    A core has the number of its first hardware thread, and words name those alone: Linux numbers
    the first threads of all cores before the second ones (LUMI-training-materials@f509c80
    docs/2day-20260422/202-Binding.md), and centres' own masks and lists leave the others out.
    """

    # By the numbers of cores: how one rank's are written, and what stands between ranks.
    cores: tuple[str, ...]
    write_cores: Callable[[Sequence[int]], str]
    between: str
    # By NUMA domains, all hardware threads of each; empty where the launcher can't.
    domains: tuple[str, ...] = ()
    # A pattern of the words that exclude these.
    excluded: str
    # Another way to the same, for messages.
    alternative: str = ""
    # Reads the words of a launcher that starts so many ranks on each node.
    read: Callable[[Sequence[str], int], Placement]

    def by_domain(self, domains: Sequence[int]) -> tuple[str, ...]:
        """Return the words for ranks each in a domain of its own."""
        return self._words(self.domains, map(str, domains))

    def by_cores(self, ranks: Sequence[Sequence[int]]) -> tuple[str, ...]:
        """Return the words for ranks each on cores of its own."""
        return self._words(self.cores, map(self.write_cores, ranks))

    def _words(self, words: tuple[str, ...], places: Iterable[str]) -> tuple[str, ...]:
        text = self.between.join(places)
        return tuple(word.format(places=text) for word in words)


@dataclass(frozen=True, kw_only=True, slots=True)
class WarningWords:
    """How a job asks to be told before its time limit: words of its head, with {signal} and
    {seconds} or {minutes}.

    `written` finds such words in a head's lines. `signals` are those that a job may ask for. Where
    it is not `timed`, the site's queues say how long before.
    """

    words: str
    written: str
    signals: tuple[str, ...]
    timed: bool = True
    # A shell command that hands {signal} on to all ranks that this scheduler's own launchers
    # started; empty where there is none: then the launcher gets it.
    tells_ranks: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class RequeueWords:
    """The words of a job's head that let it begin again, and those that forbid it.

    `written` finds either in a head's lines. `again` is a shell command, the last of a job, by
    which it begins again, or which sets `dlc_code`, the job's exit code; empty where users have
    none.
    """

    allowed: tuple[str, ...]
    forbidden: tuple[str, ...]
    written: str
    again: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchSystem:
    """One scheduler, as job scripts, ranks and ReFrame need to know it."""

    submit: str
    # Argv that prints the time of submission of each job of all users, one a line in ISO 8601;
    # empty where nobody described it.
    submissions: tuple[str, ...] = ()
    # Whether words after the script's name reach the script.
    takes_words: bool = True
    # The option that hands a variable to the job; empty where the job gets the whole environment.
    variable_option: str = ""
    # What a job's shell expands to the number of nodes; other text than a number is an error there.
    node_count: str
    # A shell command that lists the allocation's hosts, each once, the first one first; empty where
    # the scheduler names none. Where `script_on_first` holds, the script runs on the first.
    hosts: str = ""
    script_on_first: str = ""
    # Whether `hosts` can name no host but the script's own: a site's launcher may reach others.
    own_host_alone: bool = False
    # What a job's shell expands to a text whose digits, up to the first dot (1234[5].server), no
    # other job of the machine has; empty where that is the number and the element of `job`.
    digits: str = ""
    # How the lines of a job's head begin, and what they ask for: resource -> its words.
    directive: str = ""
    resources: Mapping[str, Resource] = field(default_factory=dict)
    # The words of a job's head that ask for {count} accelerators of each node, ranks on each node
    # and CPUs of each rank; empty where they are a site's own, with an example of the first.
    gpu_request: str = ""
    rank_request: str = ""
    cpu_request: str = ""
    gpu_example: str = ""
    # Patterns: words of a line or a launcher that ask for accelerators, that say how many ranks
    # there are, and how many CPUs each has.
    gpu_words: str = ""
    rank_words: str = ""
    cpu_words: str = ""
    # Lines that each job's head must have, and the words that ask for slots of a parallel
    # environment where a scheduler counts these in place of nodes: {name}, {slots}.
    needed: tuple[str, ...] = ()
    parallel: str = ""
    # Reads a time limit as this scheduler does, in seconds, and writes one in its words.
    read_time: Callable[[str], int]
    time_limit: Callable[[int], str] = clock
    # What the lines of a job's head and a launcher's words can both ask for, for each rank or for
    # its node: a pattern, its number the group `value`.
    on_launcher: Mapping[str, str] = field(default_factory=dict)
    # What else of one node the lines of a job's head ask for, its CPUs and accelerators: a pattern,
    # its number the group `value`. Cores that are held back from jobs, which count as CPUs too.
    of_node: Mapping[str, str] = field(default_factory=dict)
    held_back: str = ""
    # A pattern of what gives a job its nodes for itself.
    whole_nodes: str = ""
    # How memory is asked for in the lines of a job's head.
    memory: tuple[MemoryWords, ...] = ()
    # What a job's shell expands to how often the job began again, not a number where it did not;
    # empty where `restart` of `job` counts. Where nothing tells, a folder of an earlier time does.
    restarts: str = ""
    # How a job is told of its end, and begins again; None where nothing is known for that.
    warning: WarningWords | None = None
    requeue: RequeueWords | None = None
    # A shell command after which ranks end as soon as one of them failed; empty where none is
    # known.
    end_together: str = ""
    # A shell command that copies {source} to {target} on each node of the allocation.
    broadcast: str = ""
    # A shell command that enters the folder a job was submitted from, where it may start in
    # another; it fails where this node does not have that.
    enter_folder: str = ""
    # The variables that tell a job from others, and patterns of all that this scheduler sets.
    job: JobVariables | None = None
    variables: tuple[str, ...] = ()
    # A shell command that lists the jobs of the user $dlc_uid that have begun, a line each, its
    # number first (a second word PD is for one that waits); empty where nobody described it.
    running: str = ""
    # Names an allocation's first host for a process outside of it, where the scheduler tells.
    first_host: Callable[[Mapping[str, str]], str | None] = _unknown_host
    launchers: Mapping[str, Launcher] = field(default_factory=dict)
    # How a launcher, by its program's name, binds ranks to cores under this scheduler.
    cpu_bindings: Mapping[str, CpuBinding] = field(default_factory=dict)
    # None where nobody described how a program follows a job.
    queue: BatchQueue | None = None
    # None where nobody described how it is told.
    signs: SchedulerSigns | None = None
    # None where ReFrame has no backend.
    reframe: ReframeBackend | None = None

    @property
    def job_number(self) -> str:
        """Return what a job's shell expands to the digits that are the job's own."""
        names = (self.job.number, self.job.element) if self.job else ()
        return self.digits or "".join(f"${{{name}-}}" for name in names if name) or "$$"

    @property
    def restart_count(self) -> str:
        """Return what a job's shell expands to how often the job began again."""
        name = self.job.restart if self.job else ""
        return self.restarts or (f"${{{name}:-0}}" if name else "0")

    def submit_argv(
        self, script: str, *, words: Sequence[str] = (), variable: str = ""
    ) -> tuple[str, ...]:
        """Return the command that submits a script, with words for it and a variable,
        NAME=VALUE.
        """
        command = (self.submit, script, *(words if self.takes_words else ()))
        if not variable:
            return command
        if not self.variable_option:
            return (variable, *command)  # as a shell reads it
        return (self.submit, self.variable_option, variable, *command[1:])

    def options(self, lines: Iterable[str]) -> str:
        """Return what the lines of a job's head say, without their directive and comments."""
        head = f"{self.directive} "
        bare = (line.removeprefix(head) for line in lines if line.startswith(head))
        return " ".join(line.partition(" #")[0].strip() for line in bare)

    def number(self, word: str, text: str) -> int | None:
        """Return the number that options, or a launcher's words, have for one of `on_launcher`."""
        pattern = self.on_launcher.get(word)
        match = re.search(rf"(?<!\S){pattern}(?!\S)", text) if pattern else None
        return int(match["value"]) if match else None


def hosts_listed(variable: str, *, condition: str = "") -> str:
    """Count the hosts of a file that has a line for each slot; `variable` names the file."""
    test = f"NF && {condition} && " if condition else "NF && "
    count = f"awk '{test}!seen[$1]++ {{ n++ }} END {{ print n + 0 }}'"
    return f'$({count} "${{{variable}-/dev/null}}" || :)'


def hosts_named(variable: str, *, condition: str = "") -> str:
    """Name the hosts of such a file, each once, in its order."""
    test = f"NF && {condition} && " if condition else "NF && "
    return f"awk '{test}!seen[$1]++ {{ print $1 }}' \"${{{variable}-/dev/null}}\""
