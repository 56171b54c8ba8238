"""A base made by stand-ins for mmdebstrap and mksquashfs."""

import io
import tarfile
from pathlib import Path
from typing import Any

from dlcontainer.build.base import root_tree
from dlcontainer.build.base.bootstrap import BaseMaker
from dlcontainer.build.base.root_tree import BaseTree
from dlcontainer.packages.routing import PreparedRouting
from dlcontainer.planning.plan import Plan
from dlcontainer.system.machine import HostMachine
from dlcontainer.system.process import CompletedCommand
from tests.fakes import RecordingRunner


def routed(folder: Path, **changes: Any) -> PreparedRouting:
    from dataclasses import replace

    return replace(PreparedRouting.nothing(folder), **changes)


class Making(RecordingRunner):
    """Stands in for mmdebstrap and mksquashfs: writes what they would."""

    def __call__(self, argv: Any, **kwargs: Any) -> CompletedCommand:
        done = super().__call__(argv, **kwargs)
        if "--format=tar" in argv:
            with tarfile.open(argv[-1], "w") as tar:
                for name in ("./", "./dev/", "./etc/", "./etc/os-release", "./dev/null"):
                    member = tarfile.TarInfo(name)
                    member.type = tarfile.DIRTYPE if name.endswith("/") else tarfile.REGTYPE
                    data = b"ID=debian\n" if name.endswith("release") else b""
                    member.size = len(data)
                    if name.endswith("null"):
                        member.type = tarfile.CHRTYPE
                    tar.addfile(member, io.BytesIO(data))
        elif "-tar" in argv:
            tar_path, target = Path(argv[5]), Path(argv[6])
            with tarfile.open(tar_path) as tar:
                self.members = {member.name: member for member in tar}
            target.write_bytes(b"squash of " + tar_path.read_bytes()[:10])
        return done


def maker(tools: HostMachine, runner: RecordingRunner, tmp_path: Path) -> BaseMaker:
    said: list[str] = []
    return BaseMaker(
        host=tools,
        runner=runner,
        cache=tmp_path / "the cache",
        on_line=said.append,
        on_wait=said.append,
    )


def make(plan: Plan, tools: HostMachine, runner: RecordingRunner, tmp_path: Path) -> BaseTree:
    work = tmp_path / "work"
    work.mkdir(exist_ok=True)
    return root_tree.prepare(
        plan, routed(work), maker(tools, runner, tmp_path), work, tmp_path / "log"
    )
