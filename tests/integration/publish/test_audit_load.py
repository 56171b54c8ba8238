"""`modules audit --load` with the real Lmod: what a user gets, and what stands in the way."""

from pathlib import Path

from dlcontainer.publish.open_folder import Folder
from dlcontainer.publish.tree import audit_users, generation
from dlcontainer.system.process import ProcessRunner
from tests.integration.publish.tools import clean_home
from tests.integration.world import missing
from tests.trees import image_file, put

_LMOD = Path("/usr/share/lmod/lmod/libexec/lmod")


def test_what_users_get(tmp_path: Path) -> None:
    if not _LMOD.is_file():
        missing("Lmod (Debian's package lmod)")
    root, other = tmp_path / "a root", tmp_path / "other"
    for tree in (root, other):
        tree.mkdir()
        put(tree, image_file(tmp_path / "images"))
    with Folder.at(root / "generations") as generations:
        entries = generation.read(generations, 1).entries
    environ = {**clean_home(tmp_path), "LMOD_CMD": str(_LMOD)}

    def met(*folders: Path) -> list[str]:
        path = ":".join(str(folder / "modules/lmod") for folder in folders)
        with_path = {**environ, "MODULEPATH": path} if folders else environ
        by = audit_users.loader(with_path, ProcessRunner(environ=with_path))
        assert by is not None
        return [fault.why for fault in audit_users.meets(root, entries, by)]

    assert met() == met(root) == met(root, other) == []
    (shadowed,) = met(other, root)
    assert shadowed.startswith(f"users who load demo/1.0 get {other}/releases/")
    modulefile = (root / "modules/lmod/demo/1.0.lua").resolve()
    modulefile.write_text("this is no Lua\n")
    (broken,) = met()
    assert broken.startswith("users can't load demo/1.0: ")
