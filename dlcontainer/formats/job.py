"""Plan -> job script: runs the image at the site as the centre documents it.

All documented ways to place ranks stand in the script, and a variable chooses one when the job is
submitted: where jobs are submitted there is often no dlcontainer to render another.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dlcontainer.config.field_types import Vendor
from dlcontainer.config.templating import Text, quote
from dlcontainer.formats import (
    host_environment,
    host_variables,
    job_end,
    job_folders,
    job_forms,
    job_head,
    job_mount,
    job_ranks,
    job_staging,
    job_variables,
    runtimes,
)
from dlcontainer.formats.runtimes import RuntimeStart
from dlcontainer.image import layout
from dlcontainer.planning.launch import surroundings
from dlcontainer.planning.launch.launch_plan import LaunchPlan
from dlcontainer.planning.launch.surroundings import Surroundings
from dlcontainer.schedulers import SCHEDULERS
from dlcontainer.sites.facts import LaunchForm

TEMPLATE = "job/job.sh.j2"
NEED = "dlc_need "
_WIDTH = 96
_COMMAND = Text('"${dlc_command[@]}"')
_BARE_COMMA = re.compile(r"[^'\"$\\]*,[^'\"$\\]*")
# What a node with accelerators has, where the kernel shows them; and the variables that hide some
# from a rank (ZE_AFFINITY_MASK names tiles as well as devices: it is not counted).
_DEVICES: Mapping[Vendor, str] = {
    "nvidia": "/dev/nvidiactl",
    "amd": "/dev/kfd",
    "intel": "/dev/dri",
}
_HIDING: Mapping[Vendor, str] = {
    "nvidia": "CUDA_VISIBLE_DEVICES",
    "amd": "ROCR_VISIBLE_DEVICES HIP_VISIBLE_DEVICES",
    "intel": "",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class PlacementForm:
    """One way to place ranks, as lines of the script that set `dlc_launcher` to its words."""

    name: Text
    summary: Text
    lines: tuple[Text, ...]


def values(
    plan: LaunchPlan,
    launch: str | None = None,
    start: RuntimeStart | None = None,
    script: str = job_head.SCRIPT,
) -> Mapping[str, object]:
    """Compute what the template shows; `launch` names the form that is usual in this script.

    `start` stands in place of the words of the site's runtime, `script` is how a user names it.

    Raises ConfigError for a form that the site has not, and for what its runtime can't do.
    """
    scheduler = plan.site.scheduler
    batch = SCHEDULERS[scheduler.kind]
    launch_forms, chosen = job_forms.of_image(plan), job_forms.usual(plan, launch)
    recipe_form, launched = (
        job_forms.shared_program(plan, launch_forms),
        job_forms.is_launched(plan),
    )
    applied = surroundings.of_plan(plan)
    start = start or runtimes.start(plan, applied)
    forms = _forms(plan, launch_forms, applied, start)
    environment = _environment(applied)
    inside = _inside(plan, applied, start)
    staging = job_staging.stage(plan)
    kept, shared = job_mount.kept(plan.site), job_mount.shared(plan.site, start, applied)
    start_needs = _need([*applied.flags, *applied.binds], applied.environment)
    if staging is not None:
        start_needs += _need([staging.to], applied.environment)
    start_needs += start.before
    choices = job_head.JobChoices(
        usual=chosen,
        forms=[form.name for form in forms],
        script=script,
        shares=bool(kept or shared),
    )
    cpus, workers = job_ranks.cpus(plan), job_ranks.workers(plan, launch_forms)
    kept_out = _environment_kept_out(plan, applied, start)
    lines = [*environment, *inside, *start_needs, *(line for form in forms for line in form.lines)]
    return {
        **_head(plan, start, choices),
        # Set where the script is one of several files; alone it holds all.
        "packed": None,
        "needs": any(line.startswith(NEED) for line in lines),
        **kept_out,
        "go": Text(batch.enter_folder),
        "start": start,
        "handed": _wrapped("dlc_names+=(", start.named, ")", 4) if start.named else "",
        "prefix": plan.recipe.prefix,
        "python": plan.python,
        "probe": Text(layout.PROBE),
        "modules": [command.split() for command in applied.modules],
        "scripts": [host_variables.shell(script) for script in applied.scripts],
        "unset": Text(" ".join(applied.unset)),
        "environment": environment,
        "inside": inside,
        "models": job_folders.models(
            plan.site, {*plan.environment, *applied.environment, *applied.inside}, applied
        ),
        "start_needs": start_needs,
        "command": _wrapped(
            "set --",
            [*(Text(quote(word)) for word in plan.site.jobs.prefix), *start.words, _COMMAND],
            "",
            indent=4,
        ),
        "counts": bool(launch_forms),
        "nodes": Text(batch.node_count),
        "submit": f"run this in a job: {job_head.submitted(plan.site, script)}",
        "meeting": job_ranks.meeting(plan),
        "staging": staging,
        "folders": job_folders.by_variable(applied, start.prefix),
        "kept": kept,
        "shared": shared,
        "mounting": Text(plan.site.engine.runtime),
        # Of templates/module/keep.sh.j2: in a job they are known as late as this.
        "keep": kept["seconds"] if kept else "",
        "key": Text('"$dlc_key"'),
        "offset": Text("$dlc_offset"),
        "squashfuse": Text(""),
        "launched": launched,
        **_node_program(plan, recipe_form),
        "together": Text(batch.end_together),
        "restarts": Text(batch.restart_count),
        **job_variables.values(),
        "cpus": cpus,
        "workers": workers,
        # Whether anything is left to settle once the form is known.
        "placed": bool(
            kept_out["named"]
            or (
                launched
                and (plan.site.accelerator or cpus or batch.end_together or workers or recipe_form)
            )
        ),
        **_rank(plan),
        "forms": forms,
        "usual": Text(chosen),
        "names": Text(", ".join(form.name for form in forms)),
    }


def _head(
    plan: LaunchPlan, start: RuntimeStart, choices: job_head.JobChoices
) -> Mapping[str, object]:
    """Return what stands before the script's own lines, and below them of the site."""
    directives = (
        *job_head.lines(plan.site, job_forms.of_head(plan, choices.usual)),
        *job_end.lines(plan.site),
    )
    return {
        "directives": [Text(line) for line in directives],
        "warning": job_end.warning(plan.site),
        "head": [Text(line) for line in job_head.comments(plan, start, choices)],
        "sources": [Text(line) for line in job_head.sources(plan)],
    }


def _node_program(plan: LaunchPlan, form: job_forms.RecipeForm | None) -> Mapping[str, object]:
    """Return what each node runs in the image, of a form that is no placing of ranks."""
    return {
        "node_program": form.template if form else "",
        "alone": _before_command([Text(plan.python), *form.words]) if form else "",
        "proving": Text(job_forms.of_proof(plan)),
        "unproved": _unproved(plan) if form else "",
    }


def _rank(plan: LaunchPlan) -> Mapping[str, object]:
    """Return what a rank's own script shows."""
    launchers = {form.launcher[0] for form in plan.site.scheduler.forms.values()}
    launchers |= set(plan.site.scheduler.launcher[:1])
    gpu = plan.site.accelerator
    # Of several launchers any may be the one.
    program = launchers.pop() if len(launchers) == 1 else ""
    return {
        "takes": job_ranks.takes(program, plan.site.scheduler.kind),
        "program": Text(program or "the launcher"),
        "device": Text(_DEVICES.get(gpu.vendor, "")) if gpu else "",
        "vendor": gpu.vendor if gpu else "",
        "hiding": Text(_HIDING[gpu.vendor]) if gpu else "",
    }


def _environment(applied: Surroundings) -> list[Text]:
    """Return the exports on the host, each variable that they use asked for before."""
    lines = []
    exported: set[str] = set()
    for name, value in applied.environment.items():
        lines += _need([value], exported)
        lines.append(Text(f"export {name}={host_variables.shell(value)}"))
        exported.add(name)
    return lines


def _environment_kept_out(
    plan: LaunchPlan, applied: Surroundings, start: RuntimeStart
) -> Mapping[str, object]:
    """Return what the scripts show of the one list of names, in the runtime's way."""
    policy, launched = start.policy, job_forms.is_launched(plan)
    on_rank = host_environment.unset_where(policy, "rank")
    return {
        "named": policy is not None and policy.enters == "named",
        # Where no launcher starts ranks, the script itself starts the runtime.
        "outside_rank": on_rank and launched,
        "outside_job": host_environment.unset_where(policy, "job") or (on_rank and not launched),
        "outside": host_environment.cases(plan, policy, applied.environment) if policy else None,
    }


def _inside(plan: LaunchPlan, applied: Surroundings, start: RuntimeStart) -> list[Text]:
    """Return the lines that hand variables, and host libraries, to the runtime."""
    texts = [*applied.inside.values(), *applied.preload, *applied.library_path, *applied.libraries]
    lines = _need(texts, applied.environment)
    if applied.library_path and not start.on_launcher:
        entries = map(host_variables.shell, applied.library_path)
        lines += [
            # An empty entry would mean the current folder.
            Text("dlc_path="),
            _wrapped("for dlc_entry in", entries, "; do", 4),
            Text('    [ -z "$dlc_entry" ] || dlc_path=${dlc_path:+$dlc_path:}$dlc_entry'),
            Text("done"),
        ]
    if start.prefix is None:
        return lines
    variables = {name: host_variables.shell(value) for name, value in applied.inside.items()}
    if applied.preload:
        variables["LD_PRELOAD"] = runtimes.joined(applied.preload, ":")
    if applied.library_path:
        variables["LD_LIBRARY_PATH"] = Text('"$dlc_path"')
    of_image = []
    if start.policy and start.policy.image_wins:
        of_image = host_environment.own_of_image(plan, variables)
    if variables or of_image:
        lines += [
            Text("# The runtime evaluates these as a shell does between double quotes."),
            Text(
                f'dlc_inside() {{ export "{start.prefix}ENV_$1=$(printf %s "$2" |'
                " LC_ALL=C sed 's/[\\\\$`]/\\\\&/g')\"; }"
            ),
        ]
        lines += [Text(f"dlc_inside {name} {value}") for name, value in variables.items()]
        lines += of_image
    if applied.libraries:
        libraries = runtimes.joined(applied.libraries, ",")
        lines.append(Text(f"export {start.prefix}_CONTAINLIBS={libraries}"))
    return lines


def _need(texts: Iterable[str], exported: Iterable[str]) -> list[Text]:
    names = [name for name in host_variables.variables(texts) if name not in set(exported)]
    return [Text(NEED + " ".join(names))] if names else []


def _forms(
    plan: LaunchPlan,
    launch_forms: Mapping[str, LaunchForm],
    applied: Surroundings,
    start: RuntimeStart,
) -> list[PlacementForm]:
    scheduler = plan.site.scheduler
    unnamed = not scheduler.forms
    indent = 12 if len(launch_forms) + unnamed > 1 else 4
    forms = []
    for name, form in launch_forms.items():
        ranks = 1 if form.inside else form.ranks_per_node
        gpus = f" dlc_gpus={job_ranks.devices(plan, form)}" if plan.site.accelerator else ""
        launched = job_ranks.launcher_words(form, scheduler.kind)
        words = [*map(host_variables.launch_word, launched), *start.on_launcher]
        inside = f" dlc_starter={form.inside}" if form.inside else ""
        lines = [
            *_need(form.launcher, applied.environment),
            Text(f"dlc_ranks_per_node={ranks} dlc_ranks=$((dlc_nodes * {ranks})){gpus}{inside}"),
            *_launched(words, indent),
        ]
        if form.inside:
            lines.append(_inside_words(plan, form, indent))
        forms.append(PlacementForm(name=Text(name), summary=Text(form.summary), lines=tuple(lines)))
    if unnamed:
        words = [*map(host_variables.shell, scheduler.launcher), *start.on_launcher]
        lines = [*_need(scheduler.launcher, applied.environment), *_launched(words, indent)]
        name, summary = (
            (job_forms.RANKS, "ranks, as the launcher starts them") if launch_forms else ("", "")
        )
        forms.append(PlacementForm(name=Text(name), summary=Text(summary), lines=tuple(lines)))
    return forms


def _inside_words(plan: LaunchPlan, form: LaunchForm, indent: int) -> Text:
    """Return the line that puts a node's one program before the command."""
    recipe_form = job_forms.OF_RECIPES.get(form.inside or "")
    if recipe_form is not None:
        return _before_command([Text(plan.python), *recipe_form.words], indent)
    return _before_command(job_ranks.torchrun(plan, form.ranks_per_node), indent)


def _unproved(plan: LaunchPlan) -> Text:
    """Return the line that refuses a proof in a form that has no ranks."""
    placing = job_forms.of_proof(plan)
    another = f"DLCONTAINER_FORM={placing}" if placing else "give a command"
    refusal = f'dlc_fail "a proof is of ranks, which this form has not" {quote(another)}'
    names = " | ".join(job_forms.OF_RECIPES)
    return Text(f"case ${{dlc_proof:+$dlc_starter}} in {names}) {refusal} ;; esac")


def _launched(words: list[Text], indent: int = 0) -> list[Text]:
    """Return the line that keeps the launcher's words."""
    # A bare comma looks like a separator of the list's items, which it is not.
    plain = [Text(f"'{word}'") if _BARE_COMMA.fullmatch(word) else word for word in words]
    return [_wrapped("dlc_launcher=(", plain, ")", indent)] if words else []


def _before_command(words: list[Text], indent: int = 0) -> Text:
    """Lay words before the command that runs in the image."""
    return _wrapped("dlc_command=(", [*words, _COMMAND], ")", indent)


def _wrapped(head: str, words: Iterable[Text], tail: str, indent: int = 0) -> Text:
    """Write a long command on several lines; words hold no line break."""
    lines = [head]
    for word in words:
        if indent + len(lines[-1]) + len(word) > _WIDTH:
            lines.append("   ")
        lines[-1] += word if lines[-1].endswith("(") else f" {word}"
    glue = " \\\n" + " " * indent
    return Text(f"{glue.join(lines)}{tail}")
