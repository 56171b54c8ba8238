"""From wishes to a recipe, with a resolver that is asked and answers by the test."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

from dlcontainer.authoring import author, parent_pins, parents
from dlcontainer.authoring.author import AuthoredRecipe, AuthorRequest, Workshop
from dlcontainer.authoring.module_names import WheelModules
from dlcontainer.cli.context import CliContext, PlanWords
from dlcontainer.errors import MisfitError
from dlcontainer.packages.resolve.resolution import Pin, PinChange, Resolution, ResolveRequest
from dlcontainer.packages.resolve.wishes import Wish, WishList
from dlcontainer.planning.plan import Plan
from dlcontainer.recipes.extends import WrittenRecipe
from tests.fakes import Quiet
from tests.values import HOST, _world, shipped_plan

LEONARDO, ALPS, CPUS = "leonardo:booster", "alps", "example-slurm"


def wishes(*wanted: str, python: str | None = None, locked: bool = False) -> WishList:
    return WishList(
        path=Path("requirements.txt"),
        format="requirements",
        wishes=tuple(
            Wish(requirement=Requirement(text), origin=f"requirements.txt:{number}")
            for number, text in enumerate(wanted, 1)
        ),
        python=python,
        is_locked=locked,
    )


@dataclass
class Desk:
    """A workshop: shipped recipes and sites, and pins by site's architecture or for all."""

    pins: dict[str, dict[str, str]]
    changes: tuple[PinChange, ...] = ()
    wheels: tuple[WheelModules, ...] = ()
    folder: Path = Path("/no/such/folder")
    asked: list[ResolveRequest] = field(default_factory=list)
    looked: list[Sequence[str]] = field(default_factory=list)

    def settle(self, site: str, written: WrittenRecipe) -> Plan:
        return _world_here().plan_written(written, site, PlanWords())

    def settle_for_cpus(self, site: str, written: WrittenRecipe) -> Plan:
        return _world_here().plan_written(written, site, PlanWords(cpu=True))

    def resolve(self, request: ResolveRequest, plan: Plan) -> Resolution:
        self.asked.append(request)
        versions = self.pins.get(request.target.arch, self.pins.get("all", {}))
        if "below" in self.pins and request.pins:
            versions = self.pins["below"]
        pins = tuple(Pin(name=name, version=version) for name, version in versions.items())
        return Resolution(pins=pins, changes=self.changes, resolver="uv 0.0")

    def look(
        self, packages: Sequence[str], upstream: str | None, plan: Plan
    ) -> Sequence[WheelModules]:
        self.looked.append(packages)
        names = {package.split("==")[0] for package in packages}
        return [wheel for wheel in self.wheels if wheel.package in names]

    def make(self, wanted: WishList, *sites: str, **more: Any) -> AuthoredRecipe:
        world = _world_here()
        request = AuthorRequest(name="sci", wishes=wanted, sites=sites, **more)
        return author.author(
            request,
            Workshop(
                recipes=world.resources.names("recipes"),
                scratch=self.folder,
                read=world.written_recipe,
                settle=self.settle,
                settle_for_cpus=self.settle_for_cpus,
                resolve=self.resolve,
                look=self.look,
                progress=Quiet(),
            ),
        )


def _world_here() -> CliContext:
    return _world(HOST)


def wheel(
    package: str, *modules: str, needs: tuple[str, ...] = (), **versions: str
) -> WheelModules:
    return WheelModules(package=package, modules=modules, versions=versions, needs=frozenset(needs))


def read(recipe: AuthoredRecipe) -> Any:
    return yaml.safe_load(recipe.files["recipe.yaml"])


def test_packages_on_the_recipe_of_the_framework_that_is_named() -> None:
    pins = {"all": {"einops": "0.8.1", "opencv-python-headless": "5.0"}}
    desk = Desk(pins=pins, wheels=(
        wheel("einops", "einops", einops="0.8.1"), wheel("opencv-python-headless", "cv2"),
    ))  # fmt: skip
    recipe = desk.make(wishes("torch", "einops>=0.8", "opencv-python-headless"), CPUS)
    body = read(recipe)
    assert recipe.below == body["extends"] == "pytorch"
    assert body["wishes"] == ["torch", "einops>=0.8", "opencv-python-headless"]
    assert body["steps"] == [
        {
            "name": "packages",
            "python_packages": {"packages": ["einops==0.8.1", "opencv-python-headless==5.0"]},
        }
    ]
    # A version is promised where the module states it.
    assert body["verify"] == {"script": "verify.py", "imports": {"einops": "0.8.1"}}
    assert '"einops",\n    "cv2",' in recipe.files["verify.py"]
    assert desk.looked == [["einops==0.8.1", "opencv-python-headless==5.0"]]
    head = recipe.files["recipe.yaml"].splitlines()[0]
    assert "requirements.txt for example-slurm with uv 0.0" in head


def test_what_the_resolver_is_asked() -> None:
    desk = Desk(pins={})
    desk.make(wishes("torch", "einops"), CPUS, may_change=frozenset({"numpy"}))
    (request,) = desk.asked
    assert (request.target.python, request.target.arch, request.target.glibc) == (
        ("3.11", "x86_64", "2.36")
    )
    pins = {pin.requirement.name: pin for pin in request.pins}
    assert str(pins["torch"].requirement) == "torch==2.13.0+cpu"
    assert pins["torch"].origin.startswith("recipes/pytorch/recipe.yaml:")
    hard = {name for name, pin in pins.items() if pin.strength == "hard"}
    assert (hard, len(pins)) == ({"torch"}, 11)
    assert request.verified == {"numpy", "torch"}
    assert request.may_change == {"numpy"}


def test_device_libraries_never_change() -> None:
    plan = shipped_plan("leonardo:booster", "pytorch")
    strengths = {pin.requirement.name: pin.strength for pin in parent_pins.pins_of(plan)}
    soft = {name for name, strength in strengths.items() if strength == "soft"}
    assert soft == {
        *("filelock", "fsspec", "jinja2", "markupsafe", "mpmath", "networkx", "numpy"),
        *("setuptools", "sympy", "typing-extensions"),
    }
    assert len(strengths) - len(soft) == 17


def test_one_list_for_several_sites_and_what_differs() -> None:
    both = {"einops": "0.8.1", "pydantic": "2.14"}
    pins = {"x86_64": both, "aarch64": {**both, "pydantic": "2.13", "anyio": "4"}}
    desk = Desk(pins=pins, wheels=(wheel("pydantic", "pydantic", pydantic="2.13"),))
    recipe = desk.make(wishes("torch", "pydantic"), ALPS, LEONARDO)
    body = read(recipe)
    assert body["steps"][0]["python_packages"]["packages"] == [
        *("anyio==4", "einops==0.8.1", "pydantic==2.13")
    ]
    assert body["variants"]["cuda"] == {
        "steps": {"packages": {"replace": ["pydantic==2.14"], "remove": ["anyio"]}},
        "imports": {"pydantic": "2.14"},
    }
    assert "cuda-13-arm" not in body["variants"]
    # The vendor's own image was better there, and takes no packages.
    assert "the base image has Python packages of its own" in body["variants"]["ngc"]["refused"]
    assert "packages were not chosen for it" in body["variants"]["wheels"]["refused"]


def test_the_same_for_all_sites_is_no_exception() -> None:
    recipe = Desk(pins={"all": {"einops": "0.8.1"}}).make(wishes("torch", "einops"), CPUS, LEONARDO)
    variants = read(recipe)["variants"]
    assert {"wheels", "cuda"}.isdisjoint(variants)
    assert all(set(entry) == {"refused"} for entry in variants.values())


@pytest.mark.parametrize("site", [CPUS, LEONARDO])
def test_a_framework_that_the_packages_need_is_the_recipe_below(site: str, tmp_path: Path) -> None:
    pins = {"all": {"peft": "0.18", "torch": "2.15.0"}, "below": {"peft": "0.18"}}
    desk = Desk(pins=pins, folder=tmp_path)
    recipe = desk.make(wishes("peft"), site)
    assert (recipe.below, len(desk.asked)) == ("pytorch", 2)
    assert "torch" not in recipe.files["recipe.yaml"].split("steps:")[1]
    assert "the packages need torch: on recipe pytorch" in recipe.notes


@pytest.mark.parametrize("wanted", [("jax",), ("jax", "flax", "optax"), ("flax",)])
def test_jax_and_what_needs_it_go_on_the_recipe_jax(
    wanted: tuple[str, ...], tmp_path: Path
) -> None:
    pins = {"all": {"flax": "0.12.8", "jax": "0.12"}, "below": {"flax": "0.12.8"}}
    desk = Desk(pins=pins, folder=tmp_path)
    recipe = desk.make(wishes(*wanted), LEONARDO, ALPS, CPUS)
    assert recipe.below == "jax"
    assert [site.at.variant for site in recipe.sites] == ["cuda", "cuda", "wheels"]
    assert set(recipe.refused) == {"cuda-13", "rocm"}
    hard = {pin.requirement.name for pin in desk.asked[-3].pins if pin.strength == "hard"}
    assert hard >= {"jax", "jaxlib", "jax-cuda12-plugin", "nvidia-cudnn-cu12"}


@pytest.mark.parametrize(
    ("wanted", "taken", "said"),
    [
        ("jax[cuda12,k8s]>=0.10", "jax[k8s]>=0.10", "jax[cuda12]"),
        ("jax[cuda13-local]", "jax", "jax[cuda13-local]"),
        ("jax[rocm7-local]==0.12", "jax==0.12", "jax[rocm7-local]"),
        ("jax[k8s]", "jax[k8s]", None),
        ("tensorflow[and-cuda]<3", "tensorflow<3", "tensorflow[and-cuda]"),
    ],
)
def test_the_recipe_below_has_the_libraries_of_the_device(
    wanted: str, taken: str, said: str | None
) -> None:
    desk = Desk(pins={"all": {}})
    recipe = desk.make(wishes("einops", wanted), LEONARDO)
    (asked,) = desk.asked
    assert [str(wish.requirement) for wish in asked.wishes.wishes] == ["einops", taken]
    # The recipe keeps what was asked for.
    assert read(recipe)["wishes"] == ["einops", wanted]
    notes = [note for note in recipe.notes if note.startswith("requirements.txt:2: ")]
    assert [said in note for note in notes if said] == ([True] if said else [])
    # On another recipe nothing has them.
    desk.asked.clear()
    desk.make(wishes(wanted), LEONARDO, below="pytorch")
    assert [str(wish.requirement) for wish in desk.asked[0].wishes.wishes] == [wanted]


def test_one_old_variant_has_the_exceptions_and_not_all_others() -> None:
    pins = {"x86_64": {"a": "2", "b": "1"}, "aarch64": {"a": "1", "b": "1", "old": "1"}}
    body = read(Desk(pins=pins).make(wishes("torch"), ALPS, LEONARDO, CPUS))
    assert body["steps"][0]["python_packages"]["packages"] == ["a==2", "b==1"]
    assert set(body["variants"]) >= {"cuda-13-arm"}
    assert body["variants"]["cuda-13-arm"]["steps"] == {
        "packages": {"replace": ["a==1"], "add": ["old==1"]}
    }
    assert "steps" not in body["variants"].get("cuda", {})


def test_plain_python(tmp_path: Path) -> None:
    desk = Desk(
        pins={"all": {"einops": "0.8.1"}}, folder=tmp_path, wheels=(wheel("einops", "einops"),)
    )
    recipe = desk.make(wishes("einops"), CPUS)
    body = read(recipe)
    assert recipe.below is None
    assert "extends" not in body
    assert body["base"] == {"distribution": "debian", "release": "bookworm"}
    assert [step["name"] for step in body["steps"]] == ["system", "packages"]
    assert body["verify"] == {"script": "verify.py"}


def test_a_version_of_its_own(tmp_path: Path) -> None:
    desk = Desk(
        pins={"all": {"einops": "0.8.1"}}, folder=tmp_path, wheels=(wheel("einops", "einops"),)
    )
    for wanted in (wishes("einops"), wishes("torch", "einops")):
        assert read(desk.make(wanted, CPUS, version="2026.11"))["version"] == "2026.11"
    # The framework's, unless one is given.
    assert "version" not in read(desk.make(wishes("torch", "einops"), CPUS))


@pytest.mark.parametrize(("python", "release"), [(">=3.12", "noble"), ("<3.11", "jammy")])
def test_the_base_has_the_python_that_the_file_asks_for(
    tmp_path: Path, python: str, release: str
) -> None:
    recipe = Desk(pins={}, folder=tmp_path).make(wishes("einops", python=python), CPUS)
    assert read(recipe)["base"]["release"] == release


def test_no_base_has_such_a_python() -> None:
    with pytest.raises(MisfitError, match="no base has a Python"):
        Desk(pins={}).make(wishes("einops", python="==2.7.*"), CPUS)


def test_a_plain_image_is_none_for_accelerators(tmp_path: Path) -> None:
    with pytest.raises(MisfitError, match="has no code for the accelerators of site") as error:
        Desk(pins={}, folder=tmp_path).make(wishes("einops"), LEONARDO)
    assert error.value.exit_code == 8


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (("einops",), "names no framework and needs none"),
        (("torch", "tensorflow"), "names tensorflow and torch, and no recipe has more than one"),
    ],
)
def test_why_a_file_is_on_no_recipe(tmp_path: Path, wanted: tuple[str, ...], reason: str) -> None:
    with pytest.raises(MisfitError, match=f"requirements.txt {reason}"):
        Desk(pins={}, folder=tmp_path).make(wishes(*wanted), LEONARDO)


def test_a_framework_that_no_recipe_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parents, "FRAMEWORKS", {"mlx": "mlx"})
    wanted = wishes("mlx", "einops")
    assert parents.of_wishes(wanted, ["pytorch"]) is None
    assert parents.without_one(wanted) == "names mlx, and there is no recipe mlx to put it on"


def test_a_site_s_own_base_has_another_python(tmp_path: Path) -> None:
    """The shipped site `local` takes this machine's release, whatever a plain recipe says."""
    asked = replace(wishes("einops", python=">=3.12"), python_at="pyproject.toml:4")
    with pytest.raises(MisfitError, match=r"debian bookworm .* whose Python is 3\.11") as error:
        Desk(pins={}, folder=tmp_path).make(asked, "local")
    assert error.value.where == "pyproject.toml:4"
    # The same distribution, whose sources the machine has.
    assert "release: trixie} (Python 3.13)" in str(error.value.next_step)


SLIPS = {
    "torhc": "torch",
    "numpyy": "numpy",
    "pands": "pandas",
    "trasformers": "transformers",
    "scikit-leran": "scikit-learn",
    "tensorfow": "tensorflow",
    "xarrray": "xarray",
    "astropyy": "astropy",
    "sklearn": "scikit-learn",
    "biopyton": "biopython",
}


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_is_said_where_its_line_is_refused(slip: str) -> None:
    """The index may have none of the name, or somebody's with a source archive alone."""

    class Refusing(Desk):
        def resolve(self, request: ResolveRequest, plan: Plan) -> Resolution:
            raise MisfitError("no wheel", where="requirements.txt:2", why="it is so")

    said = f"it is so; did you mean '{SLIPS[slip]}'?"
    with pytest.raises(MisfitError) as error:
        Refusing(pins={}).make(wishes("torch", slip), CPUS)
    assert error.value.why == said
    with pytest.raises(MisfitError) as other:
        Refusing(pins={}).make(wishes(slip, "torch", "einops"), CPUS, below="pytorch")
    assert other.value.why == "it is so"


def test_no_variant_with_device_code_takes_packages() -> None:
    with pytest.raises(MisfitError, match="no variant of recipe pytorch runs") as error:
        Desk(pins={}).make(wishes("torch"), "summit")
    assert "variant open-ce is not taken" in str(error.value.why)


def test_changed_pins_are_listed_with_what_they_promise() -> None:
    change = PinChange(name="numpy", before="2.3.5", after="2.2.6", origin="x.yaml:1")
    desk = Desk(pins={"all": {"numpy": "2.2.6", "vllm": "0.16.0"}}, changes=(change,))
    body = read(desk.make(wishes("torch", "vllm"), LEONARDO))
    assert body["changed_pins"] == ["numpy"]
    assert body["verify"]["imports"] == {"numpy": "2.2.6"}


@pytest.mark.parametrize("sites", [(CPUS, ALPS), (ALPS, CPUS)])
def test_a_pin_that_changes_in_one_variant_alone(sites: tuple[str, str]) -> None:
    change = PinChange(name="numpy", before="2.3.5", after="2.2.6", origin="x.yaml:1")
    pins = {"x86_64": {"a": "1", "numpy": "2.2.6"}, "aarch64": {"a": "1"}}
    body = read(Desk(pins=pins, changes=(change,)).make(wishes("torch", "a"), *sites))
    assert body["changed_pins"] == ["numpy"]
    arm = body["variants"]["cuda-13-arm"]
    assert arm["steps"]["packages"] == {"remove": ["numpy"]}
    of_arm = shipped_plan(ALPS, "pytorch", "cuda-13-arm").recipe.verify.imports["numpy"]
    versions = {
        name: body["variants"].get(name, {}).get("imports", body["verify"]["imports"])["numpy"]
        for name in ("wheels", "cuda-13-arm")
    }
    assert versions == {"wheels": "2.2.6", "cuda-13-arm": of_arm}


def test_of_a_closure_the_roots_are_imported() -> None:
    wheels = (wheel("peft", "peft", needs=("tqdm", "peft")), wheel("tqdm", "tqdm"))
    desk = Desk(pins={"all": {"peft": "1", "tqdm": "4"}}, wheels=wheels)
    frozen = wishes("torch==2.13.0", "peft==1", "tqdm==4", locked=True)
    assert desk.make(frozen, CPUS).modules == ("peft",)


def test_builds_of_the_framework_s_index_are_taken_from_there() -> None:
    desk = Desk(pins={"all": {"torchvision": "0.28.0+cpu"}})
    (step,) = read(desk.make(wishes("torch", "torchvision"), CPUS))["steps"]
    assert step["python_packages"]["upstream"] == "pytorch_cpu"
    with pytest.raises(MisfitError, match="the framework's own builds of packages differ"):
        desk.make(wishes("torch", "torchvision"), CPUS, LEONARDO)


def test_nothing_beside_the_recipe_below() -> None:
    recipe = Desk(pins={}).make(wishes("torch"), CPUS)
    assert "verify.py" not in recipe.files
    assert "verify" not in read(recipe)


def test_two_sites_of_one_variant_that_need_different_packages() -> None:
    desk = Desk(pins={})
    answers = iter(({"a": "1"}, {"a": "2", "b": "1"}))

    def resolve(request: ResolveRequest, plan: Plan) -> Resolution:
        pins = (Pin(name=name, version=version) for name, version in next(answers).items())
        return Resolution(pins=tuple(pins))

    desk.resolve = resolve  # type: ignore[method-assign]
    with pytest.raises(MisfitError, match="need different packages of one variant") as error:
        desk.make(wishes("torch", "a"), LEONARDO, "delta")
    assert error.value.why == "2 differ: a 1 and 2, b none and 1"
