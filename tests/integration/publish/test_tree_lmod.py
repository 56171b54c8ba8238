"""A tree of generations under Lmod's own memory: the site's spider cache, saved collections."""

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from dlcontainer.publish.tree import changes
from dlcontainer.publish.tree.site_commands import SiteCommands
from dlcontainer.publish.tree.transaction import Publisher
from dlcontainer.system.process import ProcessRunner
from tests.integration.publish.tools import Shelf, clean_home, in_shell
from tests.integration.world import missing
from tests.trees import act, hand, image_file, put

_UPDATE = Path("/usr/share/lmod/lmod/libexec/update_lmod_system_cache_files")


@pytest.fixture
def tree(tmp_path: Path) -> Shelf:
    """Publish 1.0, for a user of a site with a spider cache."""
    cache = tmp_path / "cache"
    described = f'{{["dir"] = "{cache}/data", ["timestamp"] = "{cache}/timestamp"}}'
    cache.mkdir()
    (cache / "lmodrc.lua").write_text(f"scDescriptT = {{{described}}}\n")
    # A user's own cache, which Lmod makes where looking takes long, would hide the site's.
    own = {"LMOD_RC": str(cache / "lmodrc.lua"), "LMOD_SHORT_TIME": "86400"}
    root = tmp_path / "root"
    root.mkdir()
    environ = {**clean_home(tmp_path), **own}
    put(root, image_file(tmp_path / "images"), by=updating(root))
    return Shelf(root=root, name="demo", version="1.0", environ=environ)


def updating(root: Path) -> Publisher:
    """Give a publisher whose site has the cache updated after each switch."""
    if not _UPDATE.is_file():
        missing("Lmod (Debian's package lmod)")
    cache = root.parent / "cache"
    argv = (
        *(str(_UPDATE), "-d", f"{cache}/data", "-t", f"{cache}/timestamp"),
        f"{root}/modules/lmod",
    )
    notes: list[str] = []
    return replace(
        hand(),
        runner=ProcessRunner(environ={"PATH": os.environ["PATH"], "HOME": str(root.parent)}),
        note=notes.append,
        commands=SiteCommands(after_publish=argv),
    )


def listed(tree: Shelf, lmod: str) -> set[str]:
    said = [in_shell(tree, (lmod, "lmod"), f"module {word} demo") for word in ("avail", "spider")]
    available, known = (set(re.findall(r"\bdemo/[0-9]\.[0-9]", text)) for text in said)
    assert available == known
    return known


def loaded(tree: Shelf, lmod: str, version: str) -> bool:
    said = in_shell(tree, (lmod, "lmod"), f'module load demo/{version}; echo "<$LOADEDMODULES>"')
    return said == f"<demo/{version}>\n"


def test_an_old_spider_cache(tree: Shelf, lmod: str) -> None:
    """It lists what was live before, decides nothing, and is put right by the site's command."""
    assert listed(tree, lmod) == {"demo/1.0"}
    another = image_file(tree.root.parent / "images", b"another")
    put(tree.root, another, "2.0")
    act(tree.root, lambda held: changes.unpublish(held, "demo/1.0"))
    assert listed(tree, lmod) == {"demo/1.0"}
    assert loaded(tree, lmod, "2.0")
    assert not loaded(tree, lmod, "1.0")
    # A site may have loads decided by the cache too.
    cached = replace(tree, environ={**tree.environ, "LMOD_CACHED_LOADS": "yes"})
    assert not loaded(cached, lmod, "2.0")
    assert not loaded(cached, lmod, "1.0")
    followed = updating(tree.root)
    act(tree.root, lambda held: changes.set_alias(held, "demo/2.0", "next"), followed)
    assert listed(tree, lmod) == {"demo/2.0"}
    assert loaded(cached, lmod, "2.0")
    act(tree.root, lambda held: changes.rollback(held, 1), followed)
    assert listed(tree, lmod) == {"demo/1.0"}


def test_a_saved_collection_goes_through_switches(tree: Shelf, lmod: str) -> None:
    system = (lmod, "lmod")
    restore = 'module restore mine; echo "<$LOADEDMODULES>"; type -P tool; true'

    def restored() -> tuple[str, str]:
        *_, names, tool = in_shell(tree, system, restore).splitlines()
        return names, tool

    in_shell(tree, system, "module load demo/1.0; module save mine")
    first = tree.folder
    assert restored() == ("<demo/1.0>", f"{first}/bin/tool")
    # New facts of the site: the same version is another release.
    put(tree.root, image_file(tree.root.parent / "images"), facts="new")
    second = tree.folder
    assert second != first
    assert restored() == ("<demo/1.0>", f"{second}/bin/tool")
    act(tree.root, changes.rollback)
    assert restored() == ("<demo/1.0>", f"{first}/bin/tool")
    # Taken back: Lmod names it, and the next rollback brings it back.
    put(tree.root, image_file(tree.root.parent / "images", b"another"), "2.0")
    act(tree.root, lambda held: changes.unpublish(held, "demo/1.0"))
    said = in_shell(tree, system, restore)
    assert "not loaded: demo" in said
    assert "<>\n" in said
    act(tree.root, changes.rollback)
    assert restored() == ("<demo/1.0>", f"{first}/bin/tool")
