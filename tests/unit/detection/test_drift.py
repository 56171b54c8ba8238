"""Drift: each planted move names exactly the published images that it concerns."""

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.cli import main
from dlcontainer.detection import concerns, moves, node_report, published_image
from dlcontainer.detection.evidence import CxxLibrary, NodeEvidence, NodeProcess
from dlcontainer.detection.node_report import Detection
from dlcontainer.detection.published_image import PublishedImage
from dlcontainer.image.record import Record
from dlcontainer.sites.site import Site
from tests.publishing import image_of, put
from tests.unit.detection.machines import (
    BASE,
    FLAGS_V3,
    FLAGS_V4,
    H100,
    MI300,
    QUERY,
    answer,
    having,
    topology,
)
from tests.values import SITE, folder_of, plan_of, shipped_plan, site_of, write_yaml

LAB: dict[str, Any] = {
    **SITE,
    "name": "lab",
    "sources": {"staff": "the staff, 2026"},
    "source": "staff",
    "os": {"distribution": "rocky", "release": "9.4", "glibc": "2.34", "kernel": "5.14.0"},
    "cpu": {"model": "EPYC 9654", "cores": 8, "threads_per_core": 2, "target": "znver4"},
    "memory": {"gb": 768},
    "accelerator": {
        "vendor": "nvidia",
        "model": "H100",
        "per_node": 4,
        "memory_gb": 80,
        "target": "sm_90",
        "driver": "565",
    },
    "network": {"kind": "infiniband", "model": "NDR"},
    "mpi": {
        "family": "openmpi",
        "mode": "swap",
        "name": "Open MPI 5.0.5",
        "version": "5.0.5",
        "soname": "libmpi.so.40",
    },
    "scheduler": {"kind": "slurm", "launcher": ["srun"]},
    "engine": {"version": "1.3.6"},
    "filesystems": [
        {"path": "/home", "kind": "nfs", "purpose": "home"},
        {"path": "/lus/scratch", "kind": "lustre", "purpose": "scratch"},
    ],
}
STACKS: Mapping[str, dict[str, Any]] = {
    "cuda": {"stack": {"cuda": "12.4", "gpu_targets": ["sm_90"]}},
    "oldcuda": {"stack": {"cuda": "11.8", "gpu_targets": ["sm_80", "sm_90"]}},
    "cpu": {},
    "znver": {"stack": {"cpu_target": "znver4"}},
    "mpi": {
        "stack": {"mpi": {"family": "openmpi", "name": "Open MPI 4.1.4", "fabrics": ["infiniband"]}}
    },
    "threads": {"environment": {"OMP_NUM_THREADS": "12"}},
    "tree": {},
}
ADOPTED = {
    "site": "lab",
    "adopted": {
        "name": "adopted",
        "version": "1.0",
        "summary": "of others",
        "prefix": "/opt/x",
        "exposes": ["python"],
        "source": "docker://registry.example.org/x:1",
        "digest": f"sha256:{'ab' * 32}",
        "python": "/usr/bin/python3",
        "glibc": "2.31",
        "stack": {"cuda": "12.6"},
    },
}
GPU = frozenset({"adopted", "cuda", "oldcuda"})
EVERY = frozenset({*STACKS, "adopted"})
NONE = frozenset[str]()


def is_gpu(name: str) -> bool:
    return "cuda" in STACKS[name].get("stack", {})


def body(content: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "schema": "dlcontainer/record/1",
        "image": {"sha256": "0" * 64, "size": 1},
        "digest": "0" * 64,
        "content": content,
    }


def image(module: str, content: Mapping[str, Any], **changes: Any) -> PublishedImage:
    plain = body(content)
    record = Record.model_validate_json(json.dumps(plain))
    return replace(published_image.of_record(module, plain, record), **changes)


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> tuple[PublishedImage, ...]:
    """Plan an image of each kind, with the record's content that a build writes."""
    site, planned = site_of(LAB), []
    for name, changes in STACKS.items():
        folder = folder_of(tmp_path_factory.mktemp(name), name=name, **changes)
        content = json.loads(json.dumps(plan_of(folder, site=site, cpu=not is_gpu(name)).content))
        is_tree = name == "tree"
        planned.append(image(name, content, has_job=True, is_unpacked=is_tree))
    return (*planned, image("adopted", ADOPTED))


def process(**changes: Any) -> NodeProcess:
    return replace(BASE.process, **changes)


def lost(*names: str, node: NodeEvidence = H100) -> NodeEvidence:
    """Take away what programs said."""
    answers = {name: said for name, said in node.answers.items() if name not in names}
    return replace(node, answers=answers)


def text(path: str, old: str, new: str) -> NodeEvidence:
    return having({path: H100.files[path].replace(old, new)}, base=H100)


def said(command: str, out: str, node: NodeEvidence = H100) -> NodeEvidence:
    return having(answers={command: answer(out)}, base=node)


MOUNTS, RELEASE = "/proc/self/mounts", "/etc/os-release"
NO_GPU = lost(
    QUERY,
    "nvidia-smi",
    node=replace(H100, files={path: t for path, t in H100.files.items() if "nvidia" not in path}),
)
PBS = replace(
    said("qstat --version", "pbs_version = 2022.1.3\n", lost("sinfo --version")),
    programs={**H100.programs, "qsub": "/usr/bin/qsub"},
)
WITHOUT_CORES = {path: t for path, t in H100.files.items() if "/topology/" not in path}
FEWER_CORES = having(topology(2, 2, 2), base=replace(H100, files=WITHOUT_CORES))
SLINGSHOT = having(folders={"/sys/class/cxi": ("cxi0",)}, base=H100)
AMD = replace(
    MI300,
    files={
        **MI300.files,
        **{path: t for path, t in H100.files.items() if "infiniband" in path},
    },
    links=H100.links,
    folders=H100.folders,
)
# A move: what it is called, the machine with it, and the images that it concerns.
PLANTED: Mapping[str, "tuple[str, NodeEvidence, frozenset[str]]"] = {
    "a kernel's update": ("os.kernel", replace(H100, process=process(kernel="5.15.1")), NONE),
    "a kernel too old": ("os.kernel", replace(H100, process=process(kernel="2.6.32")), EVERY),
    "glibc newer than images'": (
        "os.glibc",
        replace(H100, process=process(libc="glibc 2.39")),
        frozenset({"mpi"}),
    ),
    "glibc older": ("os.glibc", replace(H100, process=process(libc="glibc 2.28")), NONE),
    "another distribution": ("os.distribution", text(RELEASE, "rocky", "almalinux"), NONE),
    "another release": ("os.release", text(RELEASE, "9.4", "9.6"), NONE),
    "fewer cores": ("cpu.cores", FEWER_CORES, frozenset({"threads"})),
    "an older processor": (
        "cpu.target",
        text("/proc/cpuinfo", FLAGS_V4, FLAGS_V3),
        frozenset({"znver"}),
    ),
    "less memory": (
        "memory.gb",
        having({"/proc/meminfo": "MemTotal:       395692082 kB\n"}, base=H100),
        NONE,
    ),
    "a driver too old": (
        "accelerator.driver",
        text("/proc/driver/nvidia/version", "565.57.01", "470.82.01"),
        frozenset({"adopted", "cuda"}),
    ),
    "a newer driver": (
        "accelerator.driver",
        text("/proc/driver/nvidia/version", "565.57.01", "580.65.06"),
        NONE,
    ),
    "an older GPU": (
        "accelerator.target",
        said(QUERY, "NVIDIA H100 80GB HBM3, 8.0, 81559\n" * 4),
        frozenset({"cuda"}),
    ),
    "another GPU's name": (
        "accelerator.model",
        said(QUERY, "NVIDIA GH200, 9.0, 81559\n" * 4),
        NONE,
    ),
    "GPUs of another vendor": ("accelerator.vendor", AMD, GPU),
    "no GPU any more": ("accelerator.per_node", NO_GPU, GPU),
    "half of the GPUs": (
        "accelerator.per_node",
        said(QUERY, "NVIDIA H100 80GB HBM3, 9.0, 81559\n" * 2),
        GPU,
    ),
    "GPUs with less memory": (
        "accelerator.memory_gb",
        said(QUERY, "NVIDIA H100 80GB HBM3, 9.0, 40960\n" * 4),
        GPU,
    ),
    "another fabric": ("network.kind", SLINGSHOT, GPU | {"mpi"}),
    "a newer engine": (
        "engine.version",
        said("apptainer --version", "apptainer version 1.4.5-1.el9\n"),
        EVERY,
    ),
    "no user namespaces": (
        "engine.user_namespaces",
        replace(H100, process=process(namespace_error=1)),
        EVERY,
    ),
    "no /dev/fuse": ("engine.fuse", replace(H100, process=process(fuse=False)), EVERY - {"tree"}),
    "another MPI's library": (
        "mpi.libraries",
        said("ldconfig -p", "\tlibmpi.so.12 (libc6,x86-64) => /lib64/libmpi.so.12\n"),
        frozenset({"mpi"}),
    ),
    "a newer MPI": (
        "mpi.version",
        said("mpirun --version", "mpirun (Open MPI) 5.0.9\n"),
        frozenset({"mpi"}),
    ),
    "a newer UCX": (
        "network.ucx",
        said("ucx_info -v", "# Library version: 1.19.0\n"),
        frozenset({"mpi"}),
    ),
    "a newer libstdc++": (
        "os.glibcxx",
        replace(H100, libstdcxx=CxxLibrary(path="/lib64/libstdc++.so.6", versions=("3.4.33",))),
        frozenset({"mpi"}),
    ),
    "locked memory is limited": (
        "limits.memlock",
        replace(H100, process=process(memlock=65536)),
        GPU | {"mpi"},
    ),
    "another scheduler": ("scheduler.kind", PBS, EVERY - {"adopted"}),
    "scratch is not mounted": (
        "filesystems./lus/scratch",
        text(MOUNTS, "1@tcp:/scr /lus/scratch lustre rw 0 0\n", ""),
        EVERY,
    ),
    "homes are not mounted": (
        "filesystems./home",
        text(MOUNTS, "home:/vol /home nfs4 rw 0 0\n", ""),
        NONE,
    ),
    "another architecture": (
        "arch",
        replace(H100, process=process(machine="aarch64")),
        EVERY - {"adopted"},
    ),
    "larger pages": ("memory.page_bytes", replace(H100, process=process(page=65536)), EVERY),
    "SELinux": ("os.selinux", having({"/sys/fs/selinux/enforce": "1"}, base=H100), EVERY),
}
USUAL = having(
    {"/sys/fs/selinux/enforce": "0"},
    base=replace(H100, libstdcxx=CxxLibrary(path="/lib64/libstdc++.so.6", versions=("3.4.29",))),
)


@cache
def detected(number: int | None = None) -> Detection:
    """Detect the machine as it was, or with a move."""
    node = USUAL if number is None else list(PLANTED.values())[number][1]
    if number is not None and not node.libstdcxx.versions:
        node = replace(node, libstdcxx=USUAL.libstdcxx)
    if "/sys/fs/selinux/enforce" not in node.files:
        node = having({"/sys/fs/selinux/enforce": "0"}, base=node)
    facts = node_report.facts(node)
    return Detection(taken="2026-11-27T20:00:00Z", allocation="SLURM_JOB_ID=1", here=facts)


@pytest.fixture(scope="module")
def site() -> Site:
    return site_of(LAB).value


def test_twenty_and_more() -> None:
    assert len(PLANTED) >= 20


@pytest.mark.parametrize("number", range(len(PLANTED)), ids=list(PLANTED))
def test_a_move_names_its_images(
    number: int, site: Site, images: tuple[PublishedImage, ...]
) -> None:
    key, _, expected = list(PLANTED.values())[number]
    comparison = moves.between(site, detected(number), detected())
    by_key = {found.move.key: found for found in concerns.of(comparison, images)}
    assert key in by_key
    assert {concern.module for concern in by_key[key].images} == expected
    # What follows of it moves too; nothing else does.
    related = key.partition(".")[0] if key != "mpi.version" else "mpi"
    assert {other.partition(".")[0] for other in by_key} <= {related, *ALSO.get(key, ())}


# One move of a machine may be several facts.
ALSO = {"network.kind": ("network",), "arch": ("cpu",), "accelerator.vendor": ("accelerator",)}


def test_a_machine_that_stayed(site: Site, images: tuple[PublishedImage, ...]) -> None:
    comparison = moves.between(site, detected(), detected())
    assert comparison.moves == ()
    assert moves.between(site, detected()).moves == ()
    assert concerns.of(comparison, images) == ()


@pytest.mark.parametrize(
    ("key", "old", "new", "is_same"),
    [
        ("os.kernel", "5.14", "5.14.0-427.el9", True),
        ("os.kernel", "5.14", "5.140.1", False),
        ("accelerator.driver", "550", "550.54.15", True),
        ("accelerator.driver", "550.54", "550.90.07", False),
        ("accelerator.model", "H100", "H100 80GB HBM3", True),
        ("accelerator.model", "A100", "H100 80GB HBM3", False),
        ("memory.gb", "768", "755", True),
        ("memory.gb", "768", "512", False),
        ("cpu.target", "znver3", "x86-64-v3", True),
        ("cpu.target", "znver3", "x86-64-v2", False),
        ("cpu.target", "power9", "power9", True),
    ],
)
def test_what_is_the_same(key: str, old: str, new: str, is_same: bool) -> None:
    assert moves._KEYS[key](old, new) is is_same


def test_a_login_node_speaks_for_no_compute_node(site: Site) -> None:
    login = replace(detected(10), allocation=None)
    comparison = moves.between(site, login, detected())
    assert comparison.moves == ()
    assert {skipped.why for skipped in comparison.skipped} == {"this node is outside of jobs"}
    # With a node of a job beside it, that one is compared.
    both = replace(replace(detected(), allocation=None), job=detected(9).here)
    assert [move.key for move in moves.between(site, both).moves] == ["accelerator.driver"]


def test_what_is_unknown_now_is_no_move(site: Site) -> None:
    facts = tuple(
        replace(fact, value=None, why="no nvidia-smi on PATH")
        if fact.name.startswith("accelerator.")
        else fact
        for fact in detected().here
    )
    comparison = moves.between(site, replace(detected(), here=facts))
    assert comparison.moves == ()
    assert ("accelerator.driver", "no nvidia-smi on PATH") in [
        (skipped.key, skipped.why) for skipped in comparison.skipped
    ]


def test_the_first_gpus_of_a_site(images: tuple[PublishedImage, ...]) -> None:
    plain = {key: part for key, part in LAB.items() if key != "accelerator"}
    comparison = moves.between(site_of(plain).value, detected())
    assert [(move.key, move.old) for move in comparison.moves] == [("accelerator.per_node", "0")]
    assert concerns.of(comparison, images)[0].images == ()


def test_crays_mpi_by_its_known_versions(images: tuple[PublishedImage, ...]) -> None:
    mpi = {
        **LAB["mpi"],
        "family": "mpich",
        "name": "Cray MPICH",
        "soname": "libmpi.so.12",
        "version_variable": "CRAY_MPICH_VERSION",
        "known_versions": ["8.1.31"],
    }
    node = replace(USUAL, variables={**USUAL.variables, "CRAY_MPICH_VERSION": "9.0.1"})
    now = replace(detected(), here=node_report.facts(node))
    comparison = moves.between(site_of({**LAB, "mpi": mpi}).value, now)
    assert [(move.old, move.new) for move in comparison.moves] == [("8.1.31", "9.0.1")]


def test_a_setuid_program_that_is_gone(site: Site, images: tuple[PublishedImage, ...]) -> None:
    with_it = replace(USUAL, starters=("/usr/libexec/apptainer/bin/starter-suid",))
    before = replace(detected(), here=node_report.facts(with_it))
    answers = concerns.of(moves.between(site, detected(), before), images)
    assert [found.move.key for found in answers] == ["engine.setuid"]
    assert {concern.grade for concern in answers[0].images} == {"check"}
    assert len(answers[0].images) == len(images)
    # With it user namespaces are not needed.
    no_more = replace(with_it, process=process(namespace_error=1))
    now = replace(detected(), here=node_report.facts(no_more))
    answers = concerns.of(moves.between(site, now, before), images)
    assert {concern.grade for found in answers for concern in found.images} == {"check"}


@pytest.mark.parametrize(
    ("recipe", "site_name"),
    [
        *(("pytorch", "alps"), ("pytorch", "frontier"), ("horovod", "summit")),
        *(("tensorflow", "example-slurm"), ("caffe", "generic-gridengine")),
    ],
)
def test_the_record_of_a_shipped_recipe_is_judged_whole(recipe: str, site_name: str) -> None:
    content = json.loads(json.dumps(shipped_plan(site_name, recipe).content))
    shipped = image(recipe, content)
    assert shipped.doubt is None
    assert shipped.recipe.steps
    assert shipped.arch == content["arch"]


def test_a_record_of_another_version(site: Site) -> None:
    content = {
        "site": "lab",
        "recipe": {
            "name": "demo",
            "version": "1.0",
            "summary": "x",
            "prefix": "/opt/demo",
            "exposes": ["python"],
            "steps": "as a later version writes them",
            "stack": {"cuda": "12.4", "gpu_targets": ["sm_90", "of the future"]},
        },
    }
    old = image("demo/1.0", content)
    assert old.doubt == "its record is of another version: base and steps are not judged"
    assert old.stack.cuda == "12.4"
    comparison = moves.between(site, detected(9), detected())
    assert [found.module for found in concerns.of(comparison, [old])[0].images] == ["demo/1.0"]


def test_a_published_tree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    root, plain = tmp_path / "root", {key: part for key, part in LAB.items() if key != "mpi"}
    path = write_yaml(tmp_path / "lab.yaml", plain)
    for name in ("cuda", "cpu"):
        folder = folder_of(tmp_path / name, name=name, **STACKS[name])
        planned = json.loads(
            json.dumps(plan_of(folder, site=site_of(plain), cpu=not is_gpu(name)).content)
        )
        put(image_of(tmp_path / f"images-{name}", **planned["recipe"]), root)
    put(
        image_of(tmp_path / "other", more={"site": "elsewhere"}, name="far"),
        root,
        site_of(name="elsewhere").value,
    )
    now, before = tmp_path / "now.json", tmp_path / "before.json"
    for target, number in ((now, 9), (before, None)):
        document = {"schema": node_report.SCHEMA, **detected(number).body()}
        target.write_text(json.dumps(document))
    words = ["site", "drift", str(path), "--root", str(root), "--before", str(before)]
    assert main._run([*words, "--detected", str(before)], as_json=False) == 0
    said = capsys.readouterr().out
    assert "0 facts moved; concerned: 0 of 2 published images" in said
    assert main._run([*words, "--detected", str(now)], as_json=False) == 1
    out = capsys.readouterr().out
    assert "accelerator.driver: 565 -> 470.82.01" in out
    assert "cuda/1.0" in out
    assert "it was built for elsewhere" in out
    assert main._run([*words, "--detected", str(now), "--json"], as_json=True) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "dlcontainer/site-drift/1"
    [move] = document["moves"]
    assert move["old_in"] == "the site's file"
    assert [(found["module"], found["grade"]) for found in move["images"]] == [
        ("cuda/1.0", "fails")
    ]
    assert document["not_judged"] == [{"module": "far/1.0", "why": "it was built for elsewhere"}]
