"""A Dockerfile or a definition file, read."""

import re
from pathlib import Path

from dlcontainer.authoring.foreign import bases, instructions, spython_reading
from dlcontainer.authoring.foreign.image_reader import ForeignReader
from dlcontainer.authoring.foreign.image_words import ImageFormat, ImageWords, StatedBase
from dlcontainer.authoring.foreign.instructions import DefinitionText, DockerInstruction
from dlcontainer.authoring.readers import source_text
from dlcontainer.authoring.readers.source_text import SourceText
from dlcontainer.config.suggestions import cut
from dlcontainer.errors import ConfigError, Mark

_MOST_LINES = 20_000


def read(
    path: Path, format_: ImageFormat, *, keep_shell: bool = False, has_below: bool = False
) -> ImageWords:
    """Read base, apt and pip lines; all else is listed, and `keep_shell` keeps its commands.

    With `has_below` the parent recipe is chosen already, and the base may be any. Raises
    ConfigError with the line of all that can't be read, EngineError where spython is missing.
    """
    source = source_text.load(path)
    if not source.text.strip():
        raise ConfigError(
            "the file is empty", where=str(path), next_step="write FROM, or Bootstrap: and From:"
        )
    if len(source.starts) > _MOST_LINES:
        raise ConfigError(f"more than {_MOST_LINES} lines", where=str(path))
    reader = ForeignReader(source=source, format=format_, keeps_shell=keep_shell)
    if format_ == "Dockerfile":
        steps = instructions.dockerfile(source)
        spython_reading.require_here()
        base = _docker_base(steps, has_below=has_below)
        for instruction in steps:
            reader.instruction(instruction)
    else:
        text = instructions.definition(source)
        image, where = _definition_image(text, source)
        spython_reading.require_here()
        spython_reading.definition_base(image, where)
        base = _base(image, where, has_below=has_below)
        for section in text.sections:
            reader.section(section)
    return reader.finished(base, implies=not has_below)


def _docker_base(steps: list[DockerInstruction], *, has_below: bool) -> StatedBase:
    """Return the base of the one FROM, with the defaults of the ARGs before it filled in."""
    defaults: dict[str, str] = {}
    for instruction in steps:
        if instruction.word == "FROM":
            break
        for name, value in re.findall(r"([A-Za-z_]\w*)=(\S*)", instruction.body):
            defaults[name] = value.strip("\"'")
    words = instruction.body.split()
    image = instructions.substituted(words[0], defaults) if words else None
    if image is None:
        what = (
            "FROM without an image" if not words else f"no ARG before gives '{cut(words[0], 80)}'"
        )
        raise ConfigError(
            what, where=instruction.mark, next_step="write the image's name, or ARG NAME=VALUE"
        )
    if len(words) not in (1, 3) or (len(words) == 3 and words[1].upper() != "AS"):
        raise ConfigError(
            f"not FROM IMAGE [AS NAME]: '{cut(instruction.body, 80)}'",
            where=instruction.mark,
            next_step="write FROM IMAGE",
        )
    spython_reading.base_of(image, instruction.mark)
    return _base(image, instruction.mark, has_below=has_below)


def _definition_image(text: DefinitionText, source: SourceText) -> tuple[str, Mark]:
    agent, where = text.header.get("bootstrap", ("", source.mark(0)))
    if agent.lower() == "localimage":
        raise ConfigError(
            "Bootstrap: localimage is not read: spython reads docker alone",
            where=where,
            next_step="write its pip lines into requirements.txt, and the SIF's software below it "
            "as FROM or --extends RECIPE",
        )
    if agent.lower() != "docker":
        what = f"Bootstrap: {cut(agent, 40)} is not read" if agent else "no Bootstrap: docker"
        raise ConfigError(
            what, where=where, next_step="write Bootstrap: docker, and From: IMAGE of a registry"
        )
    image, where = text.header.get("from", ("", where))
    for key, (_, at) in text.header.items():
        if key not in ("bootstrap", "from", "stage"):
            raise ConfigError(
                f"'{cut(key, 40)}:' in the header is not read",
                where=at,
                next_step="write the image's whole name behind From:",
            )
    image = image.removeprefix("docker://").removeprefix("//")
    if not image or "{" in image or len(image.split()) > 1:
        raise ConfigError(
            f"From: names no image: '{cut(image, 80)}'",
            where=where,
            next_step="write From: NAME:TAG, without a template",
        )
    return image, where


def _base(image: str, where: Mark, *, has_below: bool) -> StatedBase:
    origin = f"{where.file}:{where.line}"
    base = bases.stated(image, origin)
    if base is None and not has_below:
        raise ConfigError(
            f"no recipe stands for the base '{cut(image, 120)}'", where=where, next_step=bases.NEXT
        )
    return base or bases.unknown(image, origin)
