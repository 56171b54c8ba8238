"""Before a build: where its files go, and whether it can end well there."""

import os
from pathlib import Path

from dlcontainer import installation
from dlcontainer.engines import apptainer, emulation
from dlcontainer.errors import BuildError
from dlcontainer.formats import docker_values
from dlcontainer.planning.plan import Plan
from dlcontainer.system import guarded_files, machine
from dlcontainer.system.environ import variables
from dlcontainer.system.machine import HostMachine, find_program
from dlcontainer.system.progress import Progress

# What a build writes is of the order of the unpacked tree; the packed image is below half of it.
_PACKED_SHARE = 2
# 10,000 small files were unpacked 16 to 29 times as fast into memory as onto a busy disk, and the
# whole build of them was 7 to 8 times as fast (docs/measurements/build.md). Memory is used only
# where it leaves at least this many times the build's size free.
_MEMORY_SHARE = 4
# What makes a root tree -> the package that has it.
_PACKAGES = {"mmdebstrap": "mmdebstrap", "apt-get": "apt", "dpkg": "dpkg"}
_MAKERS = tuple(_PACKAGES)
_MEMORY_FOLDER = Path("/dev/shm")  # noqa: S108  a private folder is made in it


def check_architecture(plan: Plan, host: HostMachine, root: Path = Path("/")) -> None:
    """Refuse an image whose programs this host can't run, emulated or not; raises BuildError."""
    if plan.site.arch != host.arch:
        emulation.require(plan.site.arch, plan.site.name, root)


def check_base(plan: Plan, host: HostMachine) -> None:
    """Refuse a root tree that this host has no programs to make; raises BuildError.

    The kind of a base is content: no host replaces one by the other.
    """
    missing = [name for name in _MAKERS if find_program(name, host.environ) is None]
    if plan.recipe.base.image or not missing:
        return
    of = f"{plan.recipe.name} --site {plan.site.name}"
    programs = (
        f"use an image of a registry as the base: dlcontainer base pin {of}",
        f"on a host that has them: dlcontainer fetch {of} -o DIR; here: build --offline DIR",
        f"on a host that has them: dlcontainer base make {of} -o FILE; here: build --base FILE",
    )
    advice = ""
    if "apt-get" not in missing:
        packages = dict.fromkeys(_PACKAGES[name] for name in missing)
        advice = f"install them ({installation.helper(host.environ, *packages)}); or "
    raise BuildError(
        f"cannot make the base here: no {', '.join(missing)} on PATH",
        why=f"{plan.recipe.base.title}: a distribution's own programs make its root tree",
        next_step=f"{advice}one of\n    " + "\n    ".join(programs),
    )


def check_conversion(plan: Plan) -> None:
    """Refuse variables that change on the way from a Docker image to a SIF; raises BuildError."""
    changed = docker_values.changed_by_apptainer(plan)
    if changed:
        raise BuildError(
            f"environment.{changed[0]} would change its value in the SIF",
            why="Apptainer (1.4.5 at least) changes \", $, ` and \\ of a Docker image's variables: "
            "https://github.com/apptainer/apptainer/issues/3328",
            next_step="build with --engine apptainer, or write a Docker archive: --to "
            "docker-archive",
        )


def choose_tmpdir(plan: Plan, host: HostMachine, tmpdir: Path | None) -> Path:
    """Choose where the tree is unpacked: asked for, the site's, TMPDIR, roomy memory, /tmp."""
    if tmpdir is not None:
        # The engine works elsewhere.
        return tmpdir.absolute()
    site = plan.site.engine.tmpdir
    if site and Path(site).is_dir():
        return Path(site)
    folder = variables.folder(host.environ, variables.TEMPORARY)
    if folder is not None:
        return folder
    need = plan.recipe.space_mb * _MEMORY_SHARE
    limit = machine.cgroup_memory_mb()
    mount = machine.mount_of(_MEMORY_FOLDER)
    roomy = min(machine.free_mb(_MEMORY_FOLDER), machine.available_memory_mb()) >= need // 2
    if (
        mount.kind == "tmpfs"
        and "noexec" not in mount.options
        and roomy
        and host.memory_mb >= need
        and (limit is None or limit >= need)
    ):
        return _MEMORY_FOLDER
    return variables.USUAL_TEMPORARY


def check_space(plan: Plan, output: Path, scratch: Path, progress: Progress) -> None:
    """Refuse a build that can't end well: no space, programs may not run, not writable."""
    if not scratch.is_dir():
        raise BuildError(f"no folder {scratch}", next_step="name a folder that exists: --tmpdir")
    apptainer.require_bindable(scratch)
    if not guarded_files.is_private(Path(os.path.realpath(scratch))):
        # The engine works there by path: whoever renames our folder puts another in its place.
        progress.note(
            f"other users can rename files in {scratch} or in a folder above it, and so "
            "replace the tree of a build; name a private or sticky folder with --tmpdir"
        )
    mount = machine.mount_of(scratch)
    if "noexec" in mount.options:
        raise BuildError(
            f"{scratch} is mounted noexec ({mount.point}, {mount.kind})",
            why="builds run programs from their tree in this folder",
            next_step="name another folder: --tmpdir",
        )
    if mount.is_network:
        progress.note(
            f"{scratch} is on {mount.kind}, which is slow and may not support the user IDs "
            "that a build needs; name a node-local folder with --tmpdir"
        )
    need = plan.recipe.space_mb
    for folder, needed_mb, option in ((scratch, need, "--tmpdir"), (output, need // 2, "-o")):
        free = machine.free_mb(folder)
        if free < needed_mb:
            raise BuildError(
                f"{folder} has {free} MB free; the build needs about {needed_mb} MB",
                next_step=f"free space, or name another folder with {option}",
            )


def make_folder(output: Path) -> None:
    """Make the folder for the image; raises BuildError that says why it can't be made."""
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BuildError(
            f"can't make {output}: {error.strerror}", next_step="name another folder with -o"
        ) from None
