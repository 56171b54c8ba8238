"""The MPI that a recipe promises (`stack.mpi`): is it there, and would the host's be used?"""

import re
from collections.abc import Iterator
from dataclasses import replace

from dlcontainer.errors import BuildError, ChecksFailedError, EngineError
from dlcontainer.image.record import ImageMpi
from dlcontainer.planning.compatibility import MPI_LIBRARIES
from dlcontainer.sites.facts import Mpi
from dlcontainer.validate.checks.base import Answer
from dlcontainer.validate.image_files import ImageFiles
from dlcontainer.validate.inspected import Inspected, Unanswered


def mpi(image: Inspected) -> Iterator[Answer]:
    """See that the image has the MPI that it declares; nothing of one that declares none.

    Where the site puts its own in its place, something must ask for it by its soname.
    """
    content = image.content
    if isinstance(content, Unanswered) or content.offer.stack.mpi is None:
        return
    declared, host = content.offer.stack.mpi, image.site.mpi if image.site else None
    try:
        if host is None or host.mode == "container":
            yield _own(image.files, declared)
        else:
            answer = _host_s(image.files, declared, host)
            # Of an adopted image nobody promised that its MPI is used: it was only seen there.
            is_open = content.adopted is not None and answer.ok is False
            yield replace(answer, ok=None) if is_open else answer
    except (BuildError, ChecksFailedError, EngineError) as error:
        why = error.why.splitlines()[-1] if error.why else ""
        yield Answer(ok=None, detail=f"{error.what}{f': {why}' if why else ''}")


def _own(files: ImageFiles, declared: ImageMpi) -> Answer:
    """Look for the image's own, which ranks run over."""
    held = files.called(MPI_LIBRARIES[declared.family])
    if held:
        return Answer(ok=True, detail=f"{_title(declared)}, the image's own: {held[0]}")
    return Answer(
        ok=False,
        detail=f"{_title(declared)} is declared (stack.mpi), and no library of an MPI of that "
        "family is in the image",
        next_step="let a step of the recipe install it, or take stack.mpi out of the recipe; then "
        "build again",
    )


def _host_s(files: ImageFiles, declared: ImageMpi, host: Mpi) -> Answer:
    """Look for what loads the host's, which has the place of the image's."""
    family = MPI_LIBRARIES[declared.family]
    wanted = re.compile(re.escape(host.soname)) if host.soname else family
    name = host.soname or "a library of its family"
    asking = files.asking(wanted)
    if asking:
        more = f" and {len(asking) - 1} more" if len(asking) > 1 else ""
        detail = f"{asking[0]}{more} asks for {name}, which becomes the site's {host.name}"
        return Answer(ok=True, detail=detail)
    held = files.called(wanted)
    if held and host.mode == "swap":
        detail = f"{held[0]} is there, whose place the site's {host.name} takes; nothing is linked "
        return Answer(ok=True, detail=f"{detail}to it: programs must load it by its name")
    other = sorted({path.rpartition("/")[2] for path in files.called(family)})
    there = f"; it has {', '.join(other[:3])}" if other else ""
    return Answer(
        ok=False,
        detail=f"{_title(declared)} is declared, and nothing in the image asks for {name}: the "
        f"site's {host.name} would never be loaded{there}",
        next_step=f"link the recipe's programs to an MPI whose library is called {name}, or take "
        "stack.mpi out of the recipe; then build again",
    )


def _title(declared: ImageMpi) -> str:
    return declared.name or f"an MPI of the family {declared.family}"
