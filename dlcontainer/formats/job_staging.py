"""How a job brings its image to the nodes: lines of its script."""

from dataclasses import dataclass

from dlcontainer.config.templating import Text, quote
from dlcontainer.errors import ConfigError
from dlcontainer.formats import host_variables, job_ranks
from dlcontainer.planning.plan import Plan
from dlcontainer.schedulers import SCHEDULERS

_LEFT = '"DLCONTAINER_STAGE=0 leaves it where it is"'
_FAILED = f'dlc_fail "can\'t copy $dlc_image to $dlc_staged" {_LEFT}'
# Of a node: one key that holds for all of the copy is enough. What the last one said is shown.
_ONE_KEY_HOLDS = """\
file=$1; shift
for key; do said=$({engine} verify --all --key "$key" "$file" 2>&1) && exit 0; done
printf "%s\\n" "$said" >&2; exit 1"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """The lines that copy the image, and those that remove the copy when the ranks are done.

    `verify` looks at the copy of an image that lies below `root`; without a root there is none.
    """

    to: Text
    usual: int
    lines: tuple[Text, ...]
    after: tuple[Text, ...]
    root: Text
    verify: tuple[Text, ...]


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
    root, verify = site.modules.root, _verify(plan)
    return Stage(
        to=Text(staging.to),
        usual=int(staging.usual),
        lines=tuple(map(Text, lines)),
        after=() if staging.stripes is not None else (Text(_on_each(plan, 'rm -f "$dlc_staged"')),),
        root=Text(quote(str(root))) if root and verify else Text(""),
        verify=tuple(map(Text, verify)),
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
        # A file that a colleague left under this name is not written into: it stays theirs.
        program = "cp --remove-destination" if how == "copy" else "dbcast"  # mpiFileUtils
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


def _verify(plan: Plan) -> list[str]:
    """Check each copy with the site's keys, where the site demands that its images are signed.

    Certificates and PGP rings are looked at when an image is published, and not here: a job has no
    certificate of the signer, and no ring of its own.
    """
    site = plan.site
    if not (site.trust.require_signed and site.trust.image_keys and site.modules.root):
        return []
    script = quote(_ONE_KEY_HOLDS.format(engine=site.engine.runtime))
    keys = " ".join(quote(key) for key in site.trust.image_keys)
    look = f'/bin/sh -c "$dlc_verify" verify "$dlc_staged" {keys}'
    leave = 'rm -f "$dlc_staged"'
    if site.jobs.staging.stripes is None:
        look, leave = _on_each(plan, look), _on_each(plan, leave)
    return [
        "# shellcheck disable=SC2016  # each node's own shell expands it",
        f"dlc_verify={script}",
        f"{look} || {{",
        f"    {leave} || :",
        (
            '    dlc_fail "no key of this site holds for $dlc_staged, a copy of $dlc_image"'
            ' "tell the staff who publish: dlcontainer modules audit"'
        ),
        "}",
    ]


def _on_each(plan: Plan, command: str) -> str:
    return " ".join([*job_ranks.one_a_node(plan), command])
