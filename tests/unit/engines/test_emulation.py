"""Emulation: what the kernel's binfmt_misc folder says, as recorded, and what is then typed."""

from pathlib import Path

import pytest

from dlcontainer.config.field_types import Arch
from dlcontainer.engines import emulation
from dlcontainer.errors import BuildError

# Recorded on Debian 12 with qemu-user-static 7.2 and binfmt-support.
RECORDED = {
    "status": "enabled\n",
    "qemu-ppc64le": "enabled\n"
    "interpreter /usr/libexec/qemu-binfmt/ppc64le-binfmt-P\n"
    "flags: PF\n"
    "offset 0\n"
    "magic 7f454c4602010100000000000000000002001500\n"
    "mask fffffffffffffffcfffffffffffffffffeffff00\n",
    "qemu-aarch64": "enabled\n"
    "interpreter /usr/libexec/qemu-binfmt/aarch64-binfmt-P\n"
    "flags: PF\n"
    "offset 0\n"
    "magic 7f454c460201010000000000000000000200b700\n"
    "mask ffffffffffffff00fffffffffffffffffeffffff\n",
}


def machine(tmp_path: Path, **changes: str | None) -> Path:
    """Make a root with the recorded folder; `None` takes a file away."""
    folder = tmp_path / "it's root" / "proc/sys/fs/binfmt_misc"
    folder.mkdir(parents=True)
    changed = {name.replace("_", "-"): text for name, text in changes.items()}
    for name, text in {**RECORDED, **changed}.items():
        if text is not None:
            (folder / name).write_text(text)
    return tmp_path / "it's root"


@pytest.mark.parametrize("arch", ["ppc64le", "aarch64"])
def test_registered(tmp_path: Path, arch: Arch) -> None:
    root = machine(tmp_path)
    assert emulation.obstacle(arch, root) is None
    emulation.require(arch, "demo", root)


def test_not_mounted(tmp_path: Path) -> None:
    why, cure = emulation.obstacle("ppc64le", tmp_path) or ("", "")
    assert why == "binfmt_misc is not mounted"
    assert cure == (
        "mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc; "
        "apt-get install qemu-user-static binfmt-support"
    )


def without(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new)


@pytest.mark.parametrize(
    ("changes", "why", "cure"),
    [
        ({"status": "disabled\n"}, "is switched off", "echo 1 > /proc/sys/fs/binfmt_misc/status"),
        ({"qemu_ppc64le": None}, "no qemu is registered for ppc64le", emulation.INSTALL),
        (
            {"qemu_ppc64le": without(RECORDED["qemu-ppc64le"], "enabled", "disabled")},
            "qemu-ppc64le is switched off",
            "echo 1 > /proc/sys/fs/binfmt_misc/qemu-ppc64le",
        ),
        (
            {"qemu_ppc64le": without(RECORDED["qemu-ppc64le"], "PF", "POC")},
            "without flag F",
            "echo -1 > /proc/sys/fs/binfmt_misc/qemu-ppc64le; apt-get install",
        ),
    ],
)
def test_what_is_in_the_way(
    tmp_path: Path, changes: dict[str, str | None], why: str, cure: str
) -> None:
    root = machine(tmp_path, **changes)
    found = emulation.obstacle("ppc64le", root) or ("", "")
    assert (why in found[0], cure in found[1]) == (True, True)
    with pytest.raises(BuildError, match="site demo is ppc64le") as caught:
        emulation.require("ppc64le", "demo", root)
    assert why in str(caught.value.why)
    assert f"run once as root: {found[1]}" in str(caught.value.next_step)


def test_the_name_of_other_distributions(tmp_path: Path) -> None:
    entry = RECORDED["qemu-aarch64"]
    root = machine(tmp_path, qemu_aarch64=None, qemu_aarch64_static=entry)
    assert emulation.obstacle("aarch64", root) is None


def test_the_processor_that_is_shown() -> None:
    assert emulation.environment("ppc64le") == {"QEMU_CPU": "power9"}
    assert emulation.environment("aarch64") == {"QEMU_CPU": "neoverse-n1"}
    assert emulation.environment("x86_64") == {}
