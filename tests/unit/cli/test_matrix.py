"""`plan --all`, `render --all`, `site list`, `site show`, `site diff` with several sites."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.cli import main
from dlcontainer.cli.context import CliContext
from dlcontainer.errors import MisfitError
from dlcontainer.sites.site import SiteTarget, read_target
from tests.values import RECIPE, SITE, write_yaml

Run = Callable[..., tuple[int, str, str]]

MINE: dict[str, Any] = {
    **SITE,
    "name": "mine",
    "sources": {"guide": "the guide"},
    "node_types": {
        "small": {"summary": "s", "changes": {"environment": {"N": "s"}}},
        "big": {"summary": "b", "changes": {"environment": {"N": "b"}}},
    },
    "node_type": "small",
    "epochs": {
        "old": {"summary": "o", "changes": {"environment": {"E": "o"}}},
        "new": {"summary": "n", "changes": {"environment": {"E": "n"}}},
    },
    "epoch": "new",
    "network": {"kind": "omni-path", "model": "OPA", "remembered": ["kind", "model"]},
    "unknown": ["driver: no promise"],
}
VARIANTS = {
    "cuda": {
        "kind": "vendor",
        "summary": "for GPUs",
        "needs": {"accelerator": ["nvidia"]},
        "changes": {"versions": {"tool": "2"}},
    },
    "plain": {"kind": "distro", "summary": "for CPUs", "changes": {"versions": {"tool": "1"}}},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    config = tmp_path / "it's a home/.config/dlcontainer"
    write_yaml(config / "site-configs/mine.yaml", MINE)
    old = {**SITE, "name": "attic", "status": "archive"}
    write_yaml(config / "site-configs/attic.yaml", old)
    write_yaml(config / "recipes/demo/recipe.yaml", {**RECIPE, "variants": VARIANTS})
    (config / "recipes/demo/verify.py").write_text("")
    return config


@pytest.fixture
def run(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Run:
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "TMPDIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "it's a home"))
    monkeypatch.setenv("PATH", "/no/such")
    monkeypatch.chdir(tmp_path)

    def run(*argv: object) -> tuple[int, str, str]:
        words = [str(word) for word in argv]
        code = main._run(words, as_json="--json" in words)
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.mark.parametrize(
    ("text", "site", "target"),
    [
        ("a", "a", SiteTarget()),
        ("a@1", "a", SiteTarget(epoch="1")),
        ("a:n", "a", SiteTarget(node_type="n")),
        ("a@1:n", "a", SiteTarget(epoch="1", node_type="n")),
        ("./a@1:n", "./a@1:n", SiteTarget()),
        ("a@1.yaml", "a@1.yaml", SiteTarget()),
    ],
)
def test_targets(text: str, site: str, target: SiteTarget) -> None:
    assert read_target(text) == (site, target)
    if "/" not in text and "yaml" not in text:
        assert target.named(site) == text


def test_plan_all_of_one_site(run: Run) -> None:
    code, out, err = run("plan", "demo", "--all", "--site", "mine", "-v")
    assert (code, err) == (0, "")
    sense, nonsense = out.strip().split("\n\n")
    assert [line.split()[0] for line in sense.splitlines()[1:]] == [
        "mine@old:small",
        "mine@old:big",
        "mine@new:small",
        "mine@new:big",
    ]
    assert len({line.split()[-1] for line in sense.splitlines()[1:]}) == 4
    lines = nonsense.splitlines()
    assert lines[0].split()[:3] == ["target", "recipe", "kind"]
    assert len(lines) == 5
    assert all("vendor  cuda needs accelerator nvidia, the site's is none" in x for x in lines[1:])


def test_without_a_site_the_unsupported_are_counted(run: Run) -> None:
    code, out, _ = run("plan", "demo", "--all")
    assert code == 0
    assert out.splitlines()[0].split() == ["target", "recipe", "version", "variant"]
    assert "combinations are unsupported. For the reasons:" in out
    assert "needs accelerator" not in out
    assert "needs accelerator" in run("plan", "demo", "--all", "--site", "mine")[1]
    assert "needs accelerator" in run("plan", "demo", "--all", "-v")[1]


def test_a_target_restricts_it(run: Run) -> None:
    code, out, _ = run("plan", "demo", "--all", "--site", "mine@old:big", "--json")
    found = json.loads(out)
    assert (code, found["schema"]) == (0, "dlcontainer/matrix/1")
    assert {one["target"] for one in found["combinations"]} == {"mine@old:big"}
    code, _, err = run("plan", "--all", "--site", "mine@odl")
    assert code == 3
    assert "no epoch 'odl' in site mine; did you mean 'old'?" in err


def test_the_archive_is_left_out_unless_named(run: Run) -> None:
    _, out, _ = run("plan", "demo", "--all")
    assert "attic" not in out
    assert "mine@old:big" in out
    _, out, _ = run("plan", "demo", "--all", "--site", "attic")
    assert "attic" in out


def test_a_wrong_file_does_not_stop_the_others(run: Run, folder: Path) -> None:
    write_yaml(folder / "site-configs/broken.yaml", {**SITE, "arch": "vax"})
    code, out, err = run("plan", "demo", "--all")
    assert code == 3
    assert "mine@new:big" in out
    assert "broken.yaml:" in err
    assert err.count("expected one of") == 1


def test_render_all(run: Run, tmp_path: Path) -> None:
    argv = ("render", "demo", "--all", "--site", "mine@new", "-o", "a b/out")
    code, out, _ = run(*argv)
    assert code == 0
    assert "wrote 2 plans" in out
    folders = {path.name for path in (tmp_path / "a b/out").iterdir() if path.is_dir()}
    assert folders == {"demo-1.0-mine-new-small", "demo-1.0-mine-new-big"}
    text = (tmp_path / "a b/out/demo-1.0-mine-new-big/apptainer.def").read_text()
    assert "export N=b" in text
    # Once more: its own earlier folder is replaced, whole.
    (tmp_path / "a b/out/demo-0-gone").mkdir()
    assert run(*argv)[0] == 0
    assert not (tmp_path / "a b/out/demo-0-gone").exists()
    assert [path.name for path in (tmp_path / "a b").iterdir()] == ["out"]


def test_render_all_keeps_what_is_not_its_own(run: Run, tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis/draft.tex").write_text("years")
    code, _, err = run("render", "--all", "-o", "thesis")
    assert code == 3
    assert "thesis contains other files" in err
    assert [path.name for path in (tmp_path / "thesis").iterdir()] == ["draft.tex"]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["plan"], "Missing option '--site'"),
        (["render"], "Missing option '--site'"),
        (["plan", "--all", "--variant", "cuda"], "--variant can't be combined with --all"),
        (["plan", "--all", "--set", "a=1"], "--set can't be combined with --all"),
        (["render", "--all"], "--all requires a folder to write to"),
    ],
)
def test_usage(run: Run, argv: list[str], message: str) -> None:
    code, _, err = run(*argv)
    assert code == 2
    assert message in err


def test_site_list_has_a_line_a_target(run: Run) -> None:
    for more in ((), ("-v",)):
        _, out, _ = run("site", "list", *more)
        groups = [part.splitlines() for part in out.strip().split("\n\n")]
        assert [lines[0] for lines in groups] == [
            *("active", "example", "decommissioned", "archive")
        ]
        names = [{line.split()[0] for line in lines[2:]} for lines in groups]
        assert names[0] >= {"mine@old:small", "mine@new:big", "local"}
        assert "attic" in names[-1]
        assert all(lines[1].startswith("target ") for lines in groups)


def test_site_list_says_where_each_is_from(
    run: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    centre = tmp_path / "it's the centre's"
    for name in ("ours", "mine"):
        write_yaml(centre / f"site-configs/{name}.yaml", {**SITE, "name": name})
    write_yaml(centre / "recipes/ours/recipe.yaml", {**RECIPE, "name": "ours"})
    (centre / "recipes/ours/verify.py").write_text("")
    monkeypatch.setenv("DLCONTAINER_PATH", str(centre))
    body = json.loads(run("site", "list", "--json")[1])
    origins = {row["name"]: row["from"] for row in body["sites"]}
    assert (origins["ours"], origins["mine"], origins["summit"]) == (
        str(centre), "yours", "shipped",
    )  # fmt: skip
    taken, not_taken = folder / "site-configs/mine.yaml", centre / "site-configs/mine.yaml"
    assert body["hidden"] == [{"name": "mine", "file": str(not_taken), "by": str(taken)}]
    code, out, err = run("site", "list")
    assert (code, err) == (0, f"note: mine: {taken} is taken, {not_taken} is not\n")
    [line] = [line for line in out.splitlines() if line.startswith("ours ")]
    assert line.endswith(str(centre))
    assert str(centre) in run("recipe", "list")[1]
    assert run("plan", "ours", "--site", "ours")[0] == 0


def test_two_folders_of_a_centre_with_one_site(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = [tmp_path / "first", tmp_path / "second"]
    for at in folders:
        write_yaml(at / "site-configs/ours.yaml", {**SITE, "name": "ours", "summary": at.name})
    monkeypatch.setenv("DLCONTAINER_PATH", ":".join(map(str, folders)))
    taken, not_taken = (str(at / "site-configs/ours.yaml") for at in folders)
    code, out, err = run("site", "list")
    assert (code, err) == (0, f"note: ours: {taken} is taken, {not_taken} is not\n")
    assert [line.endswith(str(folders[0])) for line in out.splitlines() if "ours " in line] == [
        True
    ]
    code, out, err = run("site", "show", "ours")
    assert (code, err) == (0, f"note: ours: {taken} is taken, {not_taken} is not\n")
    assert "first" in out
    assert run("site", "show", "summit")[2] == ""


@pytest.mark.parametrize(
    ("typed", "what"), [("/no/such", "is no folder"), ("sites", "is not an absolute path")]
)
def test_a_wrong_folder_of_a_centre(
    run: Run, monkeypatch: pytest.MonkeyPatch, typed: str, what: str
) -> None:
    monkeypatch.setenv("DLCONTAINER_PATH", f":{typed}")
    code, _, err = run("site", "list")
    assert code == 3
    assert f"DLCONTAINER_PATH: {typed} {what}" in err


WRONG = {
    "site-configs/broken.yaml": "schema: 1\nname: broken\narch: vax\n",
    "recipes/broken/recipe.yaml": "schema: 1\nname: another\n",
    "recipes/empty/recipe.yaml": "",
    "recipes/broken/verify.py": "",
}


@pytest.mark.parametrize("wrong", [name for name in WRONG if "verify" not in name])
@pytest.mark.parametrize("words", ["site list", "recipe list", "plan --all"])
def test_one_wrong_file_of_the_user_s_stops_no_list(
    run: Run, folder: Path, words: str, wrong: str
) -> None:
    path = folder / wrong
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(WRONG[wrong])
    concerns = words == "plan --all" or wrong.startswith(words.split(maxsplit=1)[0])
    code, out, err = run(*words.split())
    assert code == (3 if concerns else 0), err
    assert (wrong.split("/")[1].removesuffix(".yaml") in err) is concerns
    assert ("demo" if words == "recipe list" else "mine@old:small") in out
    code, out, _ = run(*words.split(), "--json")
    assert code == (3 if concerns else 0)
    body, _ = json.JSONDecoder().raw_decode(out)
    found = json.dumps(body)
    assert ("demo" if words == "recipe list" else "mine@old:small") in found
    assert ("broken" in found or "empty" in found) is concerns


def test_one_wrong_site_stops_no_look_at_ages(run: Run, folder: Path) -> None:
    (folder / "site-configs/broken.yaml").write_text(WRONG["site-configs/broken.yaml"])
    code, out, err = run("site", "outdated")
    assert code == 3
    assert "broken" in err
    assert "mine: 1 source, 1 of an unknown day" in out
    assert "vista: " in out
    assert "attic" not in out


def test_site_show_says_what_is_not_known(run: Run) -> None:
    _, out, _ = run("site", "show", "mine@old:big")
    for line in (
        "  -  guide: the guide",
        "  -  network.kind",
        "  -  driver: no promise",
        "  -  fabric: OPA",
        "  -  old: o",
        "  -  big: b",
    ):
        assert line in out.splitlines()
    body = json.loads(run("site", "show", "mine", "--json")[1])
    assert body["never_run"] == ["fabric: OPA"]


def test_site_diff(run: Run) -> None:
    code, out, _ = run("site", "diff", "mine@old:big", "mine@new:big")
    assert code == 0
    assert [line.split() for line in out.splitlines()] == [
        ["key", "mine@old:big", "mine@new:big"],
        ["epoch", "old", "new"],
        ["environment.E", "o", "n"],
    ]
    body = json.loads(run("site", "diff", "mine", "attic", "--json")[1])
    assert {"key": "network.kind", "first": "omni-path", "second": None} in body["differences"]


@pytest.fixture
def gpu_site(folder: Path) -> str:
    accelerator = {"vendor": "nvidia", "model": "V100", "per_node": 4}
    remembered = {**accelerator, "remembered": list(accelerator)}
    data = {**SITE, "name": "lab", "arch": "aarch64", "accelerator": remembered}
    write_yaml(folder / "site-configs/lab.yaml", data)
    variants = {**VARIANTS, "cuda": {**VARIANTS["cuda"], "needs": {"arch": ["x86_64"]}}}
    variants["cuda"]["changes"] = {"stack": {"cuda": "12.6"}}
    write_yaml(folder / "recipes/demo/recipe.yaml", {**RECIPE, "variants": variants})
    return "lab"


@pytest.mark.parametrize(
    "command", [["plan", "demo"], ["render", "demo"], ["recipe", "show", "demo"]]
)
def test_cpu_is_asked_for(run: Run, gpu_site: str, command: list[str]) -> None:
    code, out, err = run(*command, "--site", gpu_site)
    assert (code, out) == (8, "")
    assert "the nearest is cuda (" in err
    assert "needs arch x86_64, the site's is aarch64" in err
    assert "next: add --cpu to use plain, which has no device code" in err
    assert "or --variant plain" in err
    assert run(*command, "--site", gpu_site, "--cpu")[0] == 0
    assert run(*command, "--site", gpu_site, "--variant", "plain")[0] == 0


@pytest.mark.parametrize(
    "command", [["build", "demo"], ["lock", "demo"], ["fetch", "demo", "-o", "bundle"]]
)
def test_no_work_begins_without_a_variant(
    run: Run, gpu_site: str, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, _, err = run(*command, "--site", gpu_site)
    assert (code, "add --cpu to use plain" in err) == (8, True)
    wished = []

    def plan(*args: object, cpu: bool, **more: object) -> None:
        wished.append(cpu)
        raise MisfitError("no further")

    monkeypatch.setattr(CliContext, "plan", plan)
    for options in (["--cpu"], []):
        assert run(*command, "--site", gpu_site, *options)[0] == 8
    assert wished == [True, False]


def test_all_of_a_site_with_accelerators(run: Run, gpu_site: str) -> None:
    def body(*options: str) -> list[dict[str, str]]:
        out = run("plan", "demo", "--all", "--site", gpu_site, "--json", *options)[1]
        found: list[dict[str, str]] = json.loads(out)["combinations"]
        return found

    (refused,) = body()
    assert refused["kind"] == "vendor"
    assert "the nearest is cuda" in refused["reason"]
    (for_cpus,) = body("--cpu")
    assert for_cpus["variant"] == "plain"
    assert for_cpus["plan"].endswith("-plain")
