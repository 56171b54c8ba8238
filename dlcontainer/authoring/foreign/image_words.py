"""What a Dockerfile or a definition file asks of an image beside Python packages. Data alone."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from dlcontainer.packages.resolve.wishes import WishList

ImageFormat = Literal["Dockerfile", "definition"]


@dataclass(frozen=True, kw_only=True, slots=True)
class UntakenLine:
    """What stands at a line and is in no step of the recipe, and why; `kept` by --keep-shell."""

    line: int
    text: str
    why: str
    kept: bool = False

    def __str__(self) -> str:
        if self.kept:
            return f"kept as shell, line {self.line}: {self.text}"
        return f"not taken, line {self.line}: {self.text} ({self.why})"


@dataclass(frozen=True, kw_only=True, slots=True)
class StatedBase:
    """The image that a file starts from: as written, its place as `file:line`, what it stands for.

    `wish` names its framework's package, `python` bounds its interpreter (PEP 440), and
    `distribution` is a name and a release; each None where the image's name does not say it.
    """

    image: str
    origin: str
    wish: str | None = None
    python: str | None = None
    distribution: tuple[str, str] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageWords:
    """A file's words: Python packages, its base, OS packages, variables, a shell text, the rest."""

    format: ImageFormat
    wishes: WishList
    base: StatedBase
    os_packages: tuple[str, ...]
    environment: Mapping[str, str]
    shell: str
    untaken: tuple[UntakenLine, ...]
