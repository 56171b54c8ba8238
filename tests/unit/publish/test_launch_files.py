"""Launch files: an epoch's facts in the wrapper's words, and which epoch's they are."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.errors import PublishError
from dlcontainer.image.contents import elf
from dlcontainer.publish import launch_files, modulefiles
from dlcontainer.publish.modulefiles import ModuleRelease
from dlcontainer.sites.site import Site, SiteTarget
from tests.jobs import SWAP
from tests.publishing import image_of, put
from tests.unit.publish.test_modulefiles import RELEASE
from tests.values import HOSTILE, SITE, TEMPLATES, shipped_site, shipped_sites, site_of

MPICH = replace(RELEASE, mpi="mpich")
KNOWN = {"version_variable": "M_VERSION", "known_versions": ["1.0", "1.1"]}
JOBS = {
    "binds": ["/scratch"],
    "flags": ["--pwd", "/x y"],
    "inside": {"A": "$TEAM/a", "MIOPEN_USER_DB_PATH": "/tmp/shared"},
    "environment": {"B": "2"},
}


def text(release: ModuleRelease = MPICH, **site: Any) -> str:
    written = site_of(SITE, **site).value
    [(name, found)] = launch_files.texts({"site": written}, release, [TEMPLATES]).items()
    assert name == "site.sh"
    return found


def alone(found: str) -> str:
    return found.partition("dlc_alone() {")[2].partition("\n}")[0]


def swapped(found: str) -> str:
    return found.partition("dlc_swapped() {")[2].partition("\n}")[0]


def test_a_swap_site_has_both_ways() -> None:
    found = text(jobs=JOBS, mpi={**SWAP, **KNOWN, "modules": ["load m/1.0"]})
    for line in (
        "dlc_mpi_family=mpich",
        "dlc_mpi_name='Cray MPICH'",
        "dlc_mpi_load='module load m/1.0'",
        "dlc_mpi_variable=M_VERSION",
        "dlc_mpi_versions='1.0\n1.1'",
    ):
        assert f"\n{line}\n" in found
    for line in (
        "dlc_host B 2",
        'if dlc_need TEAM; then dlc_inside A "${TEAM}"/a; else dlc_without; fi',
        "dlc_bind_in /scratch",
        "dlc_flag '/x y'",
    ):
        assert line in alone(found)
        assert line in swapped(found)
    for line in (
        "dlc_host MPICH_GPU 1",
        'dlc_libraries /usr/lib64/libcxi.so.1 "${CRAY}"/lib/libnl.so',
        'dlc_pass LD_PRELOAD "${CRAY}"/gtl.so',
        "dlc_bind_in /opt/cray",
    ):
        assert line not in alone(found)
        assert line in swapped(found)


def test_never_the_host_s_whole_library_path() -> None:
    path = swapped(text(mpi=SWAP))
    assert 'dlc_path "${CRAY}"/gtl /opt/rocm/lib "${ROOTS}"/x;' in path
    assert "LD_LIBRARY_PATH" not in path


def test_what_the_host_s_mpi_needs_is_looked_for_first() -> None:
    ready = text(mpi=SWAP).partition("dlc_ready() {")[2].partition("\n}")[0]
    # ROOTS is set by the site's own facts.
    assert "dlc_need CRAY || return 1" in ready
    assert "dlc_file /usr/lib64/libcxi.so.1 || return 1" in ready
    assert 'dlc_bound "${CRAY}"/gtl.so /opt/cray "${PWD}" || return 1' in ready


def test_caches_stay_where_no_other_user_can_write() -> None:
    assert "MIOPEN_USER_DB_PATH" not in text(jobs=JOBS)


@pytest.mark.parametrize(
    ("release", "site", "mpi"),
    [
        (RELEASE, {"mpi": SWAP}, None),
        (MPICH, {"mpi": {**SWAP, "mode": "container"}}, None),
        (MPICH, {"mpi": {**SWAP, "libraries": []}, "engine": {"runtime": "podman-hpc"}}, None),
        (MPICH, {}, None),
        (MPICH, {"mpi": {**SWAP, "mode": "compile", "root": "/m"}}, "Cray MPICH"),
    ],
)
def test_where_nothing_takes_the_place_of_the_image_s_mpi(
    release: ModuleRelease, site: dict[str, Any], mpi: str | None
) -> None:
    found = text(release, jobs=JOBS, **site)
    assert ("dlc_swapped" in found) == (mpi is not None)
    assert "dlc_bind_in /scratch" in alone(found)


def test_the_facts_of_the_image_s_own_mpi_hold_in_every_launch() -> None:
    found = text(mpi={**SWAP, "mode": "container", "libraries": []})
    assert "dlc_host MPICH_GPU 1" in alone(found)


def test_flags_of_another_runtime_are_none_of_a_wrapper_s() -> None:
    jobs = {"flags": ["com.hooks.cxi.enabled=true"], "inside": {"A": "1"}}
    found = text(jobs=jobs, engine={"runtime": "container-engine"})
    assert "dlc_inside A 1" in found
    assert "hooks" not in found


def test_one_file_an_epoch_and_the_loaded_version_chooses() -> None:
    def at(target: SiteTarget) -> Site:
        return shipped_site("frontier", target).value

    site = at(SiteTarget())
    sites = launch_files.sites_of(site, at, MPICH)
    assert list(sites) == ["cpe-25.09", "cpe-24.11"]
    around = launch_files.around(sites, MPICH, modulefiles.epoch_of(site))
    assert around.epoch == "cpe-25.09"
    # The image's own epoch comes last, and wins.
    assert around.choose == (
        "case ${CRAY_MPICH_VERSION-} in 8.1.31) dlc_epoch=cpe-24.11 ;; esac",
        "case ${CRAY_MPICH_VERSION-} in 9.0.1) dlc_epoch=cpe-25.09 ;; esac",
    )
    assert "Cray MPICH 9.0.1 (epoch cpe-25.09)" in around.mpi[1]
    assert set(launch_files.sites_of(site, None, MPICH)) == {"cpe-25.09"}
    files = launch_files.texts(sites, MPICH, [TEMPLATES])
    assert "dlc_mpi_versions=8.1.31" in files["cpe-24.11.sh"]


def test_an_epoch_whose_gpu_aware_mpi_is_for_another_rocm_is_left_out() -> None:
    def at(target: SiteTarget) -> Site:
        return shipped_site("frontier", target).value

    # ROCm 6.4, 6.2 and 7.0: libmpi_gtl_hsa wants the HIP of its own major release.
    for epoch, others in (
        ("cpe-25.09", {"cpe-24.11"}),
        ("cpe-24.11", {"cpe-25.09"}),
        ("cpe-26.03", set()),
    ):
        own = at(SiteTarget(epoch=epoch))
        assert set(launch_files.sites_of(own, at, MPICH)) == {epoch, *others}
        # Nothing of the host's MPI comes into an image without one.
        every = {"cpe-24.11", "cpe-25.09", "cpe-26.03"}
        assert set(launch_files.sites_of(own, at, RELEASE)) == every


def test_an_epoch_whose_libraries_the_image_cannot_load_is_left_out() -> None:
    mpi = {**SWAP, **KNOWN}
    epochs: dict[str, Any] = {
        name: {"summary": "s", "changes": {"os": {"glibc": glibc}}}
        for name, glibc in (("old", "2.31"), ("new", "2.38"))
    }

    def at(target: SiteTarget) -> Site:
        os = {"distribution": "sles", "release": "15", "glibc": "2.38"}
        return site_of(SITE, epochs=epochs, epoch=target.epoch, mpi=mpi, os=os).value

    own = at(SiteTarget(epoch="old"))
    for glibc, names in (("2.36", {"old"}), ("2.38", {"old", "new"}), (None, {"old", "new"})):
        release = replace(MPICH, glibc=glibc)
        assert set(launch_files.sites_of(own, at, release)) == names
    bare = replace(RELEASE, glibc="2.36")  # swaps nothing
    assert set(launch_files.sites_of(own, at, bare)) == {"old", "new"}


def test_the_help_names_the_mpi() -> None:
    around = modulefiles.WrapperContext(mpi=("", "MPI: the host's X"))
    for found in modulefiles.modulefiles(RELEASE, Path("/m"), [TEMPLATES], around):
        assert "MPI: the host's X" in found


@pytest.mark.parametrize("value", [one for one in HOSTILE if "$" not in one and "\n" not in one])
def test_hostile_facts_stay_words(value: str) -> None:
    found = text(jobs={"inside": {"A": value}, "binds": [value]}, mpi={**SWAP, "name": value})
    assert value in found.replace("'\"'\"'", "'")


SWAPPING = {**SITE, "name": "lab", "mpi": {"family": "mpich", "mode": "swap", "name": "M"}}
STACK = {"mpi": {"family": "mpich", "name": "MPICH 5"}}
BASE = {"distribution": "debian", "release": "bookworm"}


def test_a_published_version_has_its_launch_file(tmp_path: Path) -> None:
    image = image_of(tmp_path / "images", stack=STACK)
    folder = put(image, tmp_path / "root", site_of(SWAPPING).value).folder
    assert "\ndlc_mpi_family=mpich\n" in (folder / "launch" / "site.sh").read_text()
    assert (
        "MPI: the host's M in place of the image's, in jobs" in (folder / "module.lua").read_text()
    )
    assert "launch/site.sh" in (folder / "SHA256SUMS").read_text()
    assert not put(image, tmp_path / "root", site_of(SWAPPING).value).new


def test_a_library_that_the_image_cannot_load_stops_the_publication(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "libcxi.so.1"
    file.write_bytes(b"x")
    monkeypatch.setattr(elf, "version_needs", lambda path: frozenset({"GLIBC_2.38"}))
    mpi = {"family": "mpich", "mode": "swap", "name": "M", "libraries": ["$CXI/libcxi.so.1"]}
    site = site_of({**SWAPPING, "mpi": mpi}).value
    image = image_of(tmp_path / "images", stack=STACK, base=BASE)
    environ = {"CXI": str(tmp_path)}
    with pytest.raises(PublishError, match=r"needs GLIBC_2\.38, but the image has glibc 2\.36"):
        put(image, tmp_path / "root", site, environ=environ)
    assert list((tmp_path / "root").iterdir()) == []
    # An image that uses no MPI loads none of it.
    put(image_of(tmp_path / "others", base=BASE), tmp_path / "root", site, environ=environ)


def test_the_site_is_read_as_the_image_was_built_for_it(tmp_path: Path) -> None:
    asked: list[SiteTarget] = []

    def at(target: SiteTarget) -> Site:
        asked.append(target)
        vendor = {"vendor": "amd", "model": "X", "per_node": 4}
        return site_of(SWAPPING, accelerator=vendor).value

    image = image_of(tmp_path / "images", more={"node_type": "gpu"})
    folder = put(image, tmp_path / "root", site_of(SWAPPING).value, at=at).folder
    assert asked == [SiteTarget(node_type="gpu")]
    assert "case --rocm in" in (folder / "bin" / "python").read_text()


def test_each_shipped_site_s_facts_are_words_that_wrappers_know() -> None:
    around = (TEMPLATES / "module" / "around.sh.j2").read_text()
    wrapper = (TEMPLATES / "module" / "wrapper.sh.j2").read_text()
    known = set(re.findall(r"^(dlc_\w+)\(\)", around + wrapper, re.MULTILINE))
    seen = set()
    for _, site in shipped_sites():
        family = site.mpi.family if site.mpi else "mpich"
        files = launch_files.texts({"x": site}, replace(RELEASE, mpi=family), [TEMPLATES])
        for line in files["x.sh"].splitlines():
            if line.startswith("    ") and line.strip() != ":":
                seen |= set(re.findall(r"(?:^ +|then |if |else |&& )(dlc_\w+)", line))
    assert {"dlc_bind_in", "dlc_inside", "dlc_path", "dlc_libraries", "dlc_read"} <= seen <= known
