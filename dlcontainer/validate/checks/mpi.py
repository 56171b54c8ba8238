"""The MPI that a recipe promises (`stack.mpi`): is it there, and would the host's be used?"""

import re
from collections.abc import Iterator
from dataclasses import replace

from dlcontainer.errors import BuildError, ChecksFailedError, EngineError
from dlcontainer.image.record import ImageMpi
from dlcontainer.planning.compatibility import MPI_LIBRARIES
from dlcontainer.sites.facts import Mpi
from dlcontainer.validate.checks.check import CheckOutcome
from dlcontainer.validate.image_files import ImageFiles
from dlcontainer.validate.inspected import ImageInspection, MissingAnswer


def mpi(image: ImageInspection) -> Iterator[CheckOutcome]:
    """See that the image has the MPI that it declares; nothing of one that declares none.

    Where the site puts its own in its place, something must ask for it by its soname.
    """
    content = image.content
    if isinstance(content, MissingAnswer) or content.offer.stack.mpi is None:
        return
    declared, host = content.offer.stack.mpi, image.site.mpi if image.site else None
    try:
        if host is None or host.mode == "container":
            yield _own(image.files, declared)
        else:
            answer = _host_s(image.files, declared, host)
            # Of an adopted image nobody promised that its MPI is used: it was only seen there.
            is_open = content.is_foreign and answer.ok is False
            yield replace(answer, ok=None) if is_open else answer
    except (BuildError, ChecksFailedError, EngineError) as error:
        why = error.why.splitlines()[-1] if error.why else ""
        yield CheckOutcome(ok=None, detail=f"{error.what}{f': {why}' if why else ''}")


def _own(files: ImageFiles, declared: ImageMpi) -> CheckOutcome:
    """Look for the image's own, which ranks run over."""
    libraries = files.called(MPI_LIBRARIES[declared.family])
    if libraries:
        return CheckOutcome(ok=True, detail=f"{_title(declared)}, the image's own: {libraries[0]}")
    return CheckOutcome(
        ok=False,
        detail=f"{_title(declared)} is declared (stack.mpi), and no library of an MPI of that "
        "family is in the image",
        next_step="install it in a step of the recipe, or remove stack.mpi from the recipe; then "
        "build again",
    )


def _host_s(files: ImageFiles, declared: ImageMpi, host: Mpi) -> CheckOutcome:
    """Look for what loads the host's, which has the place of the image's."""
    family = MPI_LIBRARIES[declared.family]
    pattern = re.compile(re.escape(host.soname)) if host.soname else family
    name = host.soname or "a library of its family"
    asking = files.asking(pattern)
    if asking:
        more = f" and {len(asking) - 1} more" if len(asking) > 1 else ""
        detail = f"{asking[0]}{more} asks for {name}, which becomes the site's {host.name}"
        return CheckOutcome(ok=True, detail=detail)
    libraries = files.called(pattern)
    if libraries and host.mode == "swap":
        detail = (
            f"{libraries[0]} is there, whose place the site's {host.name} takes; nothing is linked "
        )
        return CheckOutcome(ok=True, detail=f"{detail}to it: programs must load it by its name")
    siblings = sorted({path.rpartition("/")[2] for path in files.called(family)})
    siblings_text = f"; it has {', '.join(siblings[:3])}" if siblings else ""
    return CheckOutcome(
        ok=False,
        detail=f"{_title(declared)} is declared, and nothing in the image asks for {name}: the "
        f"site's {host.name} would never be loaded{siblings_text}",
        next_step=f"link the recipe's programs to an MPI whose library is called {name}, or remove "
        "stack.mpi from the recipe; then build again",
    )


def _title(declared: ImageMpi) -> str:
    return declared.name or f"an MPI of the family {declared.family}"
