"""`dlcontainer recipe outdated`: newer releases beside a recipe's pins, and how to take them."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dlcontainer.cli import completion, options, output, own_recipes, wrong_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from dlcontainer.authoring.bumps import BumpPlan, PlannedVariant
    from dlcontainer.authoring.pin_ages import VariantAge
    from dlcontainer.authoring.releases import ReleaseLedger
    from dlcontainer.cli.context import CliContext
    from dlcontainer.errors import ConfigError
    from dlcontainer.packages.resolve.index_access import IndexAccess
    from dlcontainer.packages.resolve.resolve import Asker
    from dlcontainer.planning.plan import Plan


@dataclass(frozen=True, kw_only=True, slots=True)
class _PinDesk:
    """One run's way to indexes; `work` is private."""

    world: "CliContext"
    console: output.Console
    work: Path
    ledger: "ReleaseLedger"
    accesses: "dict[str, IndexAccess]" = field(default_factory=dict)

    def asker(self, plan: "Plan", number: int) -> "Asker":
        folder = self.work / str(number)
        folder.mkdir(exist_ok=True)
        return own_recipes.asker_of(self._access(plan), self.world, self.console, folder)

    def _access(self, plan: "Plan") -> "IndexAccess":
        """Return the way to indexes; each way is tried once, for one out of reach takes seconds."""
        upstreams = [str(upstream.url) for upstream in plan.recipe.upstreams.values()]
        key = " ".join((plan.site.routing.model_dump_json(), *upstreams))
        if key not in self.accesses:
            self.accesses[key] = own_recipes.access_of(plan, self.world)
        return self.accesses[key]


def outdated(
    recipe: Annotated[
        str | None,
        typer.Argument(
            metavar="[RECIPE]",
            help="A recipe's name or its file. Default: all.",
            autocompletion=completion.recipes,
        ),
    ] = None,
    site: options.OptionalSite = None,
    write: Annotated[
        bool,
        typer.Option(
            "--write",
            help="Write the newest versions that fit together into the recipe's files; comments "
            "stay. Versions that its variants share must fit all of them.",
        ),
    ] = False,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Show newer releases beside each Python pin of a recipe; with --write take them.

    Each variant is asked once, for the first site that takes it; --site asks for that site's.
    """
    from dlcontainer.authoring.releases import ReleaseLedger
    from dlcontainer.cli.context import here
    from dlcontainer.errors import UsageError
    from dlcontainer.system.workspace import workspace

    if write and recipe is None:
        raise UsageError("--write needs a recipe", next_step="name one: recipe outdated RECIPE")
    world, console = here(), output.Console(verbose=verbose, events=as_json)
    runner = console.runner(world.environ)
    with workspace(world.scratch, runner, console.note) as work, console.beating():
        desk = _PinDesk(world=world, console=console, work=work, ledger=ReleaseLedger())
        if write and recipe is not None:
            _undo(recipe, desk)
        survey = _surveyed(world, recipe, site)
        variants = _aged(survey.plans, desk)
        bumped = _write(variants, desk) if write else None
    ages = [variant.age for variant in variants]
    if as_json:
        output.emit("recipe-outdated", _facts(ages, bumped, survey))
    else:
        _say(ages, bumped, every=verbose)
        _say_untaken(survey.untaken)
    wrong_files.raise_all(survey.wrong)


def _undo(recipe: str, desk: _PinDesk) -> None:
    """Put back the files of a bump that was cut off."""
    from dlcontainer.recipes import bump_journal

    for path in bump_journal.undo(desk.world.locate("recipes", recipe).parent):
        desk.console.note(f"put {path} back: an earlier --write was cut off")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Survey:
    """A plan of each variant with its site as it is typed; variants that no site takes."""

    plans: "Sequence[tuple[str, Plan]]"
    untaken: "Mapping[str, Sequence[str]]"
    wrong: "Sequence[ConfigError]"


def _surveyed(world: "CliContext", recipe: str | None, site: str | None) -> _Survey:
    """Settle each variant once: at the first site that chooses it, else that takes it by name."""
    plans: dict[tuple[str, str | None], tuple[str, Plan]] = {}
    by_name: dict[tuple[str, str], str] = {}
    wrong: dict[str, ConfigError] = {}
    for combination in world.matrix(recipe, site):
        if combination.plan is not None:
            choice = combination.plan.choice
            key = (combination.recipe, choice.name if choice else None)
            plans.setdefault(key, (combination.target, combination.plan))
            for name in choice.fitting if choice and site is None else ():
                by_name.setdefault((combination.recipe, name), combination.target)
        elif combination.error is not None:
            wrong.setdefault(str(combination.error), combination.error)
    for (of, name), target in by_name.items():
        if (of, name) not in plans:
            plan = _named(world, of, name, target)
            if plan is not None:
                plans[of, name] = (target, plan)
    untaken = {} if site else _untaken(world, plans)
    return _Survey(plans=list(plans.values()), untaken=untaken, wrong=list(wrong.values()))


def _named(world: "CliContext", recipe: str, variant: str, site: str) -> "Plan | None":
    """Settle a variant at a site by its name; None where it is refused after all."""
    from dlcontainer.cli.context import PlanWords
    from dlcontainer.errors import DlcontainerError
    from dlcontainer.sites.site import read_target

    bare, target = read_target(site)
    try:
        words = PlanWords(target=target, variant=variant)
        return world.plan_written(world.written_recipe(recipe), bare, words)
    except DlcontainerError:
        return None


def _untaken(
    world: "CliContext", plans: "Mapping[tuple[str, str | None], tuple[str, Plan]]"
) -> dict[str, list[str]]:
    """Name the variants of these recipes that have no plan, and that the recipe does not refuse."""
    from dlcontainer import config

    untaken: dict[str, list[str]] = {}
    for recipe in dict.fromkeys(recipe for recipe, _ in plans):
        variants = config.subtree(world.recipe(recipe), ("variants",))
        for name, variant in variants.data.items() if variants else ():
            is_refused = isinstance(variant, dict) and "refused" in variant
            if (recipe, name) not in plans and not is_refused:
                untaken.setdefault(recipe, []).append(name)
    return untaken


def _aged(plans: "Sequence[tuple[str, Plan]]", desk: _PinDesk) -> "list[PlannedVariant]":
    from dlcontainer.authoring import outdated as ages
    from dlcontainer.authoring.bumps import PlannedVariant

    desk.console.expect(len(plans))
    variants = []
    for number, (site, plan) in enumerate(plans):
        variant = plan.choice.name if plan.choice else plan.site.target
        desk.console.step(f"{plan.recipe.name}: {variant}")
        age = ages.age_of(plan, desk.asker(plan, number), desk.ledger)
        variants.append(PlannedVariant(plan=plan, site=site, age=age))
    return variants


def _write(variants: "Sequence[PlannedVariant]", desk: _PinDesk) -> "BumpPlan":
    """Write what fits, after the resolver took each variant as it will be; raises MisfitError."""
    from dlcontainer.authoring import bumps
    from dlcontainer.authoring import outdated as ages
    from dlcontainer.errors import MisfitError

    paths = _own_files(variants, desk.world)
    texts = {name: path.read_text(encoding="utf-8") for name, path in paths.items()}
    bumped = bumps.plan_bumps(variants, texts)
    pairs = list(zip(variants, bumped.versions, strict=True))
    for number, (variant, versions) in enumerate(pairs):
        if not versions:
            continue
        asker = desk.asker(variant.plan, number)
        reason = ages.resolves(variant.plan, versions, asker, desk.ledger)
        if reason is not None:
            raise MisfitError(
                f"the newer versions do not fit together for {variant.age.variant}",
                why=reason,
                next_step="nothing was written; bump fewer of them by hand",
            )
    for folder in {variant.plan.folder for variant in variants}:
        bumps.write(bumped, folder, paths, lambda: _check(pairs, desk.world))
    return bumped


def _own_files(variants: "Sequence[PlannedVariant]", world: "CliContext") -> dict[str, Path]:
    """Name the recipe's own files as places name them."""
    folders = {variant.plan.folder for variant in variants}
    files = [file for folder in folders for file in sorted(folder.rglob("*.yaml"))]
    return {world.resources.display(file): file for file in files}


def _check(
    pairs: "Sequence[tuple[PlannedVariant, Mapping[str, str]]]", world: "CliContext"
) -> None:
    """Read the recipe again: each variant must have the versions that were written."""
    from dlcontainer.authoring import parent_pins
    from dlcontainer.cli.context import PlanWords
    from dlcontainer.errors import ConfigError
    from dlcontainer.packages.resolve.stand_ins import version_of
    from dlcontainer.sites.site import read_target

    for variant, versions in pairs:
        bare, target = read_target(variant.site)
        written = world.written_recipe(str(variant.plan.folder / "recipe.yaml"))
        words = PlanWords(target=target, variant=variant.age.variant)
        again = world.plan_written(written, bare, words)
        pins = {
            str(pin.requirement.name).lower().replace("_", "-"): str(version_of(pin))
            for pin in parent_pins.pins_of(again)
        }
        wrong = [name for name, version in versions.items() if pins.get(name) != version]
        if wrong:
            raise ConfigError(
                f"{wrong[0]} is not {versions[wrong[0]]} after the bump",
                where=str(variant.plan.folder),
                why="its version stands in another place too",
                next_step="nothing was written; bump it by hand",
            )


def _say(ages: "Sequence[VariantAge]", bumped: "BumpPlan | None", *, every: bool) -> None:
    for age in ages:
        name = f"{age.recipe} {age.variant or ''}".strip()
        python = f", Python {age.target.python} on {age.target.arch}" if age.target else ""
        output.title(f"{name} ({age.site}{python})")
        if age.why is not None:
            output.say(f"  not checked: {age.why}\n")
            continue
        rows = [
            (
                f"  {pin.name}",
                pin.pinned,
                pin.newest or "-",
                pin.fitting or "-",
                pin.state,
                pin.origin,
            )
            for pin in age.pins
            if every or pin.state != "newest"
        ]
        newest = sum(pin.state == "newest" for pin in age.pins)
        if rows:
            head = ("  pin", "has", "newest", "fits", "state", "where")
            output.say(output.table(rows, head=head))
        reasons: dict[str, list[str]] = {}
        for pin in age.pins:
            if pin.why and pin.state != "newest":
                reasons.setdefault(pin.why, []).append(pin.name)
        for why, names in reasons.items():
            output.say(f"  {', '.join(names)}: {why}")
        more = "" if every else f"{newest} of {len(age.pins)} pins are the newest"
        needed = f"the fitting versions need {', '.join(age.needed)} too" if age.needed else ""
        unneeded = f"no pin needs {', '.join(age.unneeded)} any more" if age.unneeded else ""
        output.say("".join(f"  {line}\n" for line in (more, needed, unneeded) if line))
    for line in _written(bumped) if bumped else ():
        output.say(line)
    if bumped is not None and not bumped.bumps:
        output.say("nothing written")


def _written(bumped: "BumpPlan") -> "Iterator[str]":
    for place, version in bumped.bumps.items():
        yield f"{place.file}:{place.line}: {place.name} {place.version} -> {version}"
    for (file, line), pins in bumped.additions.items():
        yield f"{file}:{line}: below it {', '.join(pins)}"
    yield from (*bumped.unwritten, *bumped.stale)


def _say_untaken(untaken: "Mapping[str, Sequence[str]]") -> None:
    for recipe, names in untaken.items():
        noun = "variant" if len(names) == 1 else "variants"
        output.say(f"no site takes the {noun} {', '.join(names)} of {recipe}: not compared")


def _facts(
    ages: "Sequence[VariantAge]", bumped: "BumpPlan | None", survey: _Survey
) -> dict[str, object]:
    variants = []
    for age in ages:
        body = asdict(age)
        body["pins"] = [{**asdict(pin), "state": pin.state} for pin in age.pins]
        variants.append(body)
    written = [
        {**asdict(place), "new": version}
        for place, version in (bumped.bumps if bumped else {}).items()
    ]
    return {
        "variants": variants,
        "written": written,
        "added": [
            {"file": file, "line": line, "pins": list(pins)}
            for (file, line), pins in (bumped.additions if bumped else {}).items()
        ],
        "unwritten": list(bumped.unwritten) if bumped else [],
        "stale": list(bumped.stale) if bumped else [],
        "untaken": survey.untaken,
        "errors": [str(error) for error in survey.wrong],
    }
