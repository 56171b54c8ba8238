"""How a job brings its image to the nodes: lines of its script."""

from dataclasses import dataclass

from dlcontainer.config.templating import Text
from dlcontainer.errors import ConfigError
from dlcontainer.formats import host_variables, job_ranks
from dlcontainer.planning.plan import Plan
from dlcontainer.schedulers import SCHEDULERS

_LEFT = '"DLCONTAINER_STAGE=0 leaves it where it is"'
_FAILED = f'dlc_fail "can\'t copy $dlc_image to $dlc_staged" {_LEFT}'


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """The lines that copy the image, and those that remove the copy when the ranks are done."""

    to: Text
    usual: int
    lines: tuple[Text, ...]
    after: tuple[Text, ...]


def stage(plan: Plan) -> Stage | None:
    """Tell how the site stages images; None where it does not. Raises ConfigError."""
    site, staging = plan.site, plan.site.jobs.staging
    if staging.to is None:
        return None
    if site.engine.runtime not in ("apptainer", "singularity"):
        raise ConfigError(
            f"site {site.name}: jobs.staging: {site.engine.runtime} has no image file to copy",
            where=plan.place_in_site("jobs", "staging"),
            next_step="leave jobs.staging out: `how: none`",
        )
    to = host_variables.shell(staging.to)
    lines = _shared(to, staging.stripes) if staging.stripes is not None else _local(plan, to)
    return Stage(
        to=Text(staging.to),
        usual=int(staging.usual),
        lines=tuple(map(Text, lines)),
        after=() if staging.stripes is not None else (Text(_on_each(plan, 'rm -f "$dlc_staged"')),),
    )


def _local(plan: Plan, to: str) -> list[str]:
    """Copy to each node, under a name that no other job has."""
    how, batch = plan.site.jobs.staging.how, SCHEDULERS[plan.site.scheduler.kind]
    lines = [f'dlc_staged={to}/"dlcontainer-$dlc_number-${{dlc_image##*/}}"']
    if how == "sbcast":
        if not batch.broadcast:
            raise ConfigError(
                f"site {plan.site.name}: jobs.staging: sbcast is Slurm's",
                where=plan.place_in_site("jobs", "staging"),
                why=f"the site's scheduler is {plan.site.scheduler.kind}",
                next_step="how: copy",
            )
        command = batch.broadcast.format(source='"$dlc_image"', target='"$dlc_staged"')
    else:
        program = "cp" if how == "copy" else "dbcast"  # mpiFileUtils: dbcast SOURCE TARGET
        command = _on_each(plan, f'{program} "$dlc_image" "$dlc_staged"')
    return [*lines, f"{command} ||", f"    {_FAILED}"]


def _shared(to: str, stripes: int | None) -> list[str]:
    """Copy once to Lustre, striped before: a file takes its stripes when it is made."""
    part = '"$dlc_staged.$dlc_number"'
    return [
        f'dlc_staged={to}/"${{dlc_image##*/}}"',
        'if ! [ "$dlc_staged" -nt "$dlc_image" ]; then',
        f"    rm -f {part}",
        f'    lfs setstripe --stripe-count {stripes} {part} && cp "$dlc_image" {part} &&',
        f'        mv -f {part} "$dlc_staged" ||',
        f"        {_FAILED}",
        "fi",
    ]


def _on_each(plan: Plan, command: str) -> str:
    return " ".join([*job_ranks.one_a_node(plan), command])
