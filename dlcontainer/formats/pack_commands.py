"""The step that writes the module pack, and reads what it has packed: docs/use/importing.md."""

from dataclasses import dataclass

from dlcontainer.config.templating import Text, quote
from dlcontainer.image import layout
from dlcontainer.planning.plan import Plan
from dlcontainer.system import foreign_files

STEP = "pack"
WRITER = "pack_modules.py"


@dataclass(frozen=True, kw_only=True, slots=True)
class ModulePack:
    """What a pack has: its file and SHA-256, sizes, and why a module could not be imported."""

    file: str
    sha256: str
    bytes: int
    modules: int
    folders: int
    failed: dict[str, str]


def commands(plan: Plan) -> list[Text]:
    """Return the command that packs the declared modules, and a first training step on request."""
    modules = " ".join(quote(name) for name in sorted(plan.recipe.verify.imports))
    writer = f"{layout.PROBE}/{WRITER}"
    step = "--step " if plan.recipe.packs_training else ""
    files = f"--report {layout.PACK} --trace {layout.TRACE}"
    return [Text(f"{quote(plan.python)} -IB {writer} {files} --stamp / {step}{modules}")]


def read(text: str) -> ModulePack:
    """Read a report; raises ValueError, KeyError or TypeError for what is none."""
    body = foreign_files.loads(text)
    return ModulePack(
        file=str(body["file"]),
        sha256=str(body["sha256"]),
        bytes=int(body["bytes"]),
        modules=int(body["modules"]),
        folders=int(body["folders"]),
        failed={str(name): str(why) for name, why in dict(body["failed"]).items()},
    )
