"""The commands that change a published tree."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests import publishing
from tests.faults.stage import Subject
from tests.treefaults import view
from tests.trees import hand, image_file, put, put_release
from tests.values import SITE, write_yaml

_ROOT = "tree"
# A command that changes nothing, and puts right what a killed one left.
_HEAL = ("modules", "default", "demo/2.0", "--root", _ROOT)


def _two(state: Path) -> None:
    root, images = state / _ROOT, state / "images"
    root.mkdir()
    by = hand(time.time, strict=False)
    put(root, image_file(images), by=by)
    put(root, image_file(images, b"another"), "2.0", by=by)


def _defaulted(state: Path) -> None:
    from dlcontainer.publish.tree import changes
    from tests.trees import act

    _two(state)
    act(state / _ROOT, lambda tree: changes.set_default(tree, "demo/2.0"), hand(time.time))


def _offered(state: Path) -> None:
    publishing.image_of(state / "offered")
    write_yaml(state / "lab.yaml", {**SITE, "name": "lab"})
    (state / _ROOT).mkdir()


def _published(state: Path) -> None:
    """Have another version that is live."""
    _offered(state)
    image = publishing.image_of(state / "old", b"an old one", version="0.9")
    publishing.put(image, state / _ROOT)


def _released(state: Path) -> None:
    """Have another image of the version that is live, with marks."""
    from dlcontainer.publish.tree import changes
    from tests.trees import act

    _offered(state)
    publishing.put(publishing.image_of(state / "old", b"an old one"), state / _ROOT)
    act(state / _ROOT, lambda tree: changes.set_default(tree, "demo/1.0"), hand(time.time))


def _over(state: Path) -> None:
    """Have an older release whose time is over."""
    from dlcontainer.publish.tree.numbers import Succession

    root, images = state / _ROOT, state / "images"
    root.mkdir()
    by = hand(lambda: time.time() - 7 * 86400)
    put_release(root, image_file(images), by=by)
    another = image_file(images, b"another")
    put_release(root, another, succession=Succession(days=1), by=by)


def _outdated(state: Path) -> None:
    from dlcontainer.publish.tree import changes
    from tests.trees import act

    _two(state)
    by = hand(lambda: time.time() - 7 * 86400)
    act(state / _ROOT, lambda tree: changes.unpublish(tree, "demo/1.0"), by)


def _tested(state: Path) -> None:
    _two(state)
    test = state / "test"
    test.mkdir()
    put(test, image_file(state / "images", b"a third"), "3.0", by=hand(time.time, strict=False))


def _modules(*argv: str) -> Sequence[str]:
    return ("modules", *argv, "--root", _ROOT)


def _tree(
    prepare: Callable[[Path], object],
    argv: Sequence[str],
    then: Sequence[str] | None = None,
    entry: str = "tests.faults.entries:run",
) -> Subject:
    return Subject(
        prepare=prepare,
        argv=argv,
        view=lambda state: view(state / _ROOT),
        then=then,
        entry=entry,
        # One that never went live: gc removes it, by the journal.
        ours=lambda path: path.startswith(f"{_ROOT}/generations/"),
    )


_PUBLISH = ("publish", "offered/demo-1.0-lab.sif", "-s", "lab.yaml", "--root", _ROOT)
TREES: Mapping[str, Subject] = {
    "publish": _tree(_offered, _PUBLISH, entry="tests.faults.entries:publish"),
    "publish a second": _tree(_published, _PUBLISH, entry="tests.faults.entries:publish"),
    "publish --release": _tree(
        _released, (*_PUBLISH, "--release"), entry="tests.faults.entries:publish"
    ),
    "rollback": _tree(_two, _modules("rollback", "1")),
    "gc": _tree(_outdated, _modules("gc", "--keep", "0"), entry="tests.faults.entries:collect"),
    "gc of a release": _tree(
        _over, _modules("gc", "--keep", "0"), entry="tests.faults.entries:collect"
    ),
    "unpublish": _tree(_defaulted, _modules("unpublish", "demo/1.0"), then=_HEAL),
    "default": _tree(_two, _modules("default", "demo/1.0")),
    "deprecate": _tree(_two, _modules("deprecate", "demo/1.0", "--message", "use 2.0")),
    "promote": _tree(_tested, _modules("promote", "demo/3.0", "--from", "test")),
}
