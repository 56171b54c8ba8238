"""How a job brings its image to the nodes: lines of its script."""

from dataclasses import dataclass

from dlcontainer.config.templating import Text, quote
from dlcontainer.errors import ConfigError
from dlcontainer.formats import host_variables, job_ranks
from dlcontainer.planning.launch.launch_plan import LaunchPlan
from dlcontainer.schedulers import SCHEDULERS

_FAILED = (
    'dlc_fail "can\'t copy $dlc_image to $dlc_staged" "DLCONTAINER_STAGE=0 leaves it where it is"'
)
# Of a node: one key that holds for all of the copy is enough. What the last one said is shown.
_ONE_KEY_HOLDS = """\
file=$1; shift
for key; do said=$({engine} verify --all --key "$key" "$file" 2>&1) && exit 0; done
printf "%s\\n" "$said" >&2; exit 1"""


@dataclass(frozen=True, kw_only=True, slots=True)
class StagingLines:
    """The lines that copy the image, and those that remove the copy when the ranks are done.

    `on_node` starts what each node does for its copy: templates/job/staging_node.sh.j2. `verify`
    looks at the copy of an image that lies below `root`; without a root there is none.
    """

    to: Text
    usual: int
    stripes: int | None
    on_node: Text
    lines: tuple[Text, ...]
    after: tuple[Text, ...]
    root: Text
    verify: tuple[Text, ...]


def stage(plan: LaunchPlan) -> StagingLines | None:
    """Return how the site stages images; None where it does not. Raises ConfigError."""
    site, staging = plan.site, plan.site.jobs.staging
    if staging.to is None:
        return None
    if site.engine.runtime not in ("apptainer", "singularity"):
        raise ConfigError(
            f"site {site.name}: jobs.staging: {site.engine.runtime} has no image file to copy",
            where=plan.place_in_site("jobs", "staging"),
            next_step="remove jobs.staging, or write `how: none`",
        )
    to, is_shared = host_variables.shell(staging.to), staging.stripes is not None
    lines = _shared(to) if is_shared else _local(plan, to)
    root, verify = site.modules.root, _verify(plan)
    return StagingLines(
        to=Text(staging.to),
        usual=int(staging.usual),
        stripes=staging.stripes,
        # One copy for all nodes is made by the script itself.
        on_node=Text("" if is_shared else _on_each(plan, "").rstrip()),
        lines=tuple(map(Text, lines)),
        after=() if is_shared else (Text("dlc_on_node remove"),),
        root=Text(quote(str(root))) if root and verify else Text(""),
        verify=tuple(map(Text, verify)),
    )


def _local(plan: LaunchPlan, to: str) -> list[str]:
    """Copy to each node, in a folder whose name nobody could know before it is there."""
    how, batch = plan.site.jobs.staging.how, SCHEDULERS[plan.site.scheduler.kind]
    lines = [
        "dlc_line=$(od -An -N8 -tx8 /dev/urandom)",
        f'dlc_folder={to}/"dlcontainer-$dlc_number-${{dlc_line# }}"',
        "dlc_staged=$dlc_folder/${dlc_image##*/}",
    ]
    if how == "copy":
        return [*lines, 'dlc_on_node "make copy check" || {', *_gone(_FAILED), "}"]
    if how == "sbcast":
        if not batch.broadcast:
            raise ConfigError(
                f"site {plan.site.name}: jobs.staging: only Slurm has sbcast",
                where=plan.place_in_site("jobs", "staging"),
                why=f"the site's scheduler is {plan.site.scheduler.kind}",
                next_step="write `how: copy`",
            )
        command = batch.broadcast.format(source='"$dlc_image"', target='"$dlc_staged"')
    else:
        command = _on_each(plan, 'dbcast "$dlc_image" "$dlc_staged"')  # mpiFileUtils
    script = ["if ! {", "    dlc_on_node make &&", f"        {command} &&"]
    return [*lines, *script, "        dlc_on_node check", "}; then", *_gone(_FAILED), "fi"]


def _gone(failed: str) -> list[str]:
    return ["    dlc_on_node remove || :", f"    {failed}"]


def _shared(to: str) -> list[str]:
    """Copy once to Lustre, in a folder of the user's own; the next jobs find the copy there."""
    return [
        f'dlc_folder={to}/"dlcontainer-$(id -u)" dlc_staged=$dlc_folder/$dlc_sha256.sif',
        'dlc_on_node "make keep" ||',
        f"    {_FAILED}",
    ]


def _verify(plan: LaunchPlan) -> list[str]:
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
    if site.jobs.staging.stripes is None:
        look = _on_each(plan, look)
    return [
        "# shellcheck disable=SC2016  # each node's own shell expands it",
        f"dlc_verify={script}",
        f"{look} || {{",
        *_gone(
            'dlc_fail "no key of this site holds for $dlc_staged, a copy of $dlc_image"'
            ' "tell the staff who publish: dlcontainer modules audit"'
        ),
        "}",
    ]


def _on_each(plan: LaunchPlan, command: str) -> str:
    return " ".join([*job_ranks.one_a_node(plan), command])
