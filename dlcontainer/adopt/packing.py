"""One image on another: the engine unpacks, lays a folder over it, and packs; no program runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dlcontainer.config.field_types import OCI_ARCH, Arch
from dlcontainer.engines import apptainer
from dlcontainer.engines.engine import BuildSpec
from dlcontainer.engines.execution import Execution
from dlcontainer.errors import BuildError
from dlcontainer.system.process import CommandFailedError


@dataclass(frozen=True, kw_only=True, slots=True)
class PackOrder:
    """What the engine is to make: `definition` lies in the private folder `work`.

    `squash` are mksquashfs's settings; `values` reach the definition's %setup.
    """

    work: Path
    definition: str
    image: Path
    arch: Arch
    squash: Sequence[str]
    values: Mapping[str, str] = field(default_factory=dict)


def build(order: PackOrder, execution: Execution) -> None:
    """Let the engine make an image; raises BuildError with its last words."""
    spec = BuildSpec(
        definition=order.definition,
        image=order.image,
        mode=execution.build_mode,
        squash=tuple(order.squash) if execution.capabilities.takes_squash else (),
        arch=OCI_ARCH[order.arch] if order.arch != execution.host.arch else None,
    )
    tmp = order.work / "tmp"
    tmp.mkdir(exist_ok=True)
    env = apptainer.environment(execution.host.environ, tmpdir=tmp) | dict(order.values)
    try:
        execution.runner(
            execution.engine.build_argv(spec),
            env=env,
            cwd=order.work,
            on_line=execution.progress.line,
        )
    except CommandFailedError as error:
        raise BuildError(
            "the engine could not build the image",
            why=(error.completed.stderr or error.completed.stdout).strip()[-600:],
            next_step="see the engine's output: --verbose",
        ) from None
