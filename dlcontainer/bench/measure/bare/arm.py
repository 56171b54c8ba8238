"""The bare arm: the image's own interpreter and libraries on the host, without any engine.

It holds the build apart from the engine: native to bare is the build, bare to container the engine.
"""

from pathlib import Path

from dlcontainer.bench.measure import arms
from dlcontainer.bench.measure.arms import BareArm
from dlcontainer.bench.measure.bare import tree
from dlcontainer.bench.measure.bare.tree import CannotStartError
from dlcontainer.bench.measure.bench_image import BenchImage
from dlcontainer.bench.measure.context import BenchContext
from dlcontainer.bench.measure.declaration import SessionSettings
from dlcontainer.errors import BenchDataError
from dlcontainer.image import layout
from dlcontainer.planning.plan import Plan
from dlcontainer.system.process import CommandFailedError, CommandTimeoutError

# Says what is mapped, one file a line.
_LOOK = """\
for line in open("/proc/self/maps"):
    if "/" in line:
        print(line.split(None, 5)[5].strip())
"""
_LONGEST_LOOK_S = 120
_PACK_S = 900
_PACK_NAME = "_dlcontainer_pack"
_INSTEAD = "use --arms native,unpacked,container, whose middle arm runs through the engine"


def require(settings: SessionSettings, subject: BenchImage, plan: Plan) -> None:
    """Refuse, before anything is unpacked, what has no bare arm; raises BenchDataError."""
    if "bare" not in settings.schedule.arms:
        return
    why = None
    if subject.is_adopted:
        why = "the image was adopted: what is in it is somebody else's, and no engine is around it"
    elif subject.is_contained:
        why = f"the image {subject.came}, and no engine is around it"
    elif settings.rank_group:
        why = "the image's MPI looks for its parts at paths that this host does not have"
    elif plan.digest != subject.digest:
        why = (
            "recipe, site or templates are not those that the image was built from, and only an "
            "image built from this recipe runs without an engine around it"
        )
    if why:
        raise _refused(subject, why)


def bare(context: BenchContext, subject: BenchImage) -> BareArm:
    """Return the bare arm; raises BenchDataError where the image's Python can't be started here."""
    folder = arms.unpacked(context, subject, "bare").image
    try:
        prepared = tree.prepare(folder, subject.prefix, subject.python)
    except CannotStartError as error:
        raise _refused(subject, str(error)) from None
    arm = BareArm(context=context, tree=prepared)
    _tried(arm, subject)
    _packed(arm, subject)
    return arm


def _tried(arm: BareArm, subject: BenchImage) -> None:
    """Start the Python once: it must be the image's, and so must its libraries."""
    root = f"{arm.tree.root}/"
    mapped = _run(arm, subject, ["-S", "-c", _LOOK], _LONGEST_LOOK_S).splitlines()
    foreign = [
        path
        for path in sorted(set(mapped))
        if ".so" in Path(path).name and not path.startswith(root)
    ]
    if foreign:
        raise _refused(subject, f"its Python loads libraries of the host: {', '.join(foreign)}")


def _packed(arm: BareArm, subject: BenchImage) -> None:
    """Make the image's module pack again for the tree's new place, where the image has one."""
    site = [path.parent for path in arm.tree.here.glob(f"lib/*/site-packages/{_PACK_NAME}.pth")]
    if not site:
        return
    for path in site[0].glob(f"{_PACK_NAME}.*"):
        path.unlink()
    script = arm.tree.root / layout.PROBE.lstrip("/") / "pack_modules.py"
    report = arm.context.work / "bare-pack.json"
    words = ["-IB", str(script), "--everywhere", "--report", str(report), *subject.modules]
    _run(arm, subject, words, _PACK_S)


def _run(arm: BareArm, subject: BenchImage, words: list[str], timeout: float) -> str:
    environment = arm.environment(subject.environment)
    argv = [*arm.tree.started(subject.environment), str(arm.tree.python), *words]
    try:
        done = arm.context.execution.runner(argv, env=environment, timeout=timeout)
    except (CommandFailedError, CommandTimeoutError) as error:
        last = " ".join(error.completed.stderr.split())[-400:]
        raise _refused(subject, last or str(error)) from None
    return done.stdout


def _refused(subject: BenchImage, why: str) -> BenchDataError:
    return BenchDataError(
        "the bare arm can't run", where=str(subject.image), why=why, next_step=_INSTEAD
    )
