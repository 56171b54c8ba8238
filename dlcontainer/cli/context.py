"""What the commands work with: this host, the folders, the loaded site, recipe and plan."""

import datetime
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from dlcontainer import config
from dlcontainer.cli import user_folders
from dlcontainer.config import Document, SelectedDocument, resources
from dlcontainer.config.resources import Kind, ResourceFolders
from dlcontainer.errors import ConfigError, EngineError, MisfitError, UsageError
from dlcontainer.sites import loading
from dlcontainer.sites.site import USUAL, Site, SiteTarget, read_target
from dlcontainer.system import centre_files, digests
from dlcontainer.system.environ import variables
from dlcontainer.system.machine import HostMachine, read_host

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dlcontainer.cli.output import Console
    from dlcontainer.engines.capabilities import EngineCapabilities
    from dlcontainer.engines.execution import Execution
    from dlcontainer.planning.matrix import Combination
    from dlcontainer.planning.plan import Plan, PlanContext
    from dlcontainer.recipes.extends import WrittenRecipe

# What overrides.yaml may hold: site or recipe -> its overrides.
OVERRIDES = ("sites", "recipes")


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanWords:
    """What was typed of a plan beside its recipe and site."""

    target: SiteTarget = USUAL
    variant: str | None = None
    cpu: bool = False
    settings: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class CliContext:
    """This run's surroundings; the environment is read here and nowhere below."""

    environ: dict[str, str]
    # A variable that is there and counts as not set: told once, where it is asked for.
    note: str | None = None
    user_environ: dict[str, str] | None = None

    @property
    def of_user(self) -> dict[str, str]:
        """The environment as the user has it, for programs of the user's own and for jobs."""
        return self.environ if self.user_environ is None else self.user_environ

    @cached_property
    def host(self) -> HostMachine:
        """This machine."""
        return read_host(self.environ)

    def _folder(self, variable: str, default: str) -> Path:
        return user_folders.folder(self.environ, variable, self.host.home, default)

    @cached_property
    def user_folder(self) -> Path:
        """The user's own recipes, site configs, templates and overrides.yaml."""
        return self._folder("XDG_CONFIG_HOME", ".config")

    @cached_property
    def cache(self) -> Path:
        """What can be made again: bases, the engine's trial."""
        return self._folder("XDG_CACHE_HOME", ".cache")

    @property
    def scratch(self) -> Path:
        """Where small private folders are made."""
        return variables.temporary(self.environ)

    @cached_property
    def resources(self) -> ResourceFolders:
        """The folders of recipes, templates and site configs.

        Raises ConfigError for a folder of $DLCONTAINER_PATH that is none.
        """
        centre = [
            resources.Root(origin="centre", path=path, vet=centre_files.require_trusted)
            for path in user_folders.centre(self.environ)
        ]
        return resources.locate(self.user_folder, centre=centre)

    @cached_property
    def overrides(self) -> Document | None:
        """The user's overrides.yaml, if there is one."""
        path = self.user_folder / "overrides.yaml"
        if not path.exists():
            return None
        document = config.load(path, layer="user", display=str(path))
        for key in document.data:
            if key not in OVERRIDES:
                raise ConfigError(
                    f"{key}: unknown key{config.suggest(key, OVERRIDES)}",
                    where=document.origin((key,)).where,
                    next_step="write overrides under sites.NAME or recipes.NAME",
                )
        return document

    @property
    def pins_file(self) -> Path:
        """Where `base pin` writes: in the form of overrides.yaml, and below it."""
        return self.user_folder / "pins.yaml"

    @cached_property
    def pins(self) -> Document | None:
        """The bases that `base pin` wrote down, if there are any."""
        path = self.pins_file
        return config.load(path, layer="pins", display=str(path)) if path.exists() else None

    def override(self, kind: str, name: str) -> Document | None:
        """Return the user's overrides of one site or recipe, over the pins."""
        files = [file for file in (self.pins, self.overrides) if file is not None]
        parts = [part for file in files if (part := config.subtree(file, (kind, name)))]
        return config.merge(*parts) if parts else None

    def locate(self, kind: Kind, name: str) -> Path:
        """Find a site or recipe by name, or take it as a path."""
        path = Path(name)
        if _is_path(name):
            return path / "recipe.yaml" if kind == "recipes" and path.is_dir() else path
        return self.resources.find(kind, name)

    def site(
        self,
        name: str,
        target: SiteTarget = USUAL,
        changes: Document | None = None,
        *,
        read: loading.FileReader = config.load,
    ) -> SelectedDocument[Site]:
        """Load a site: SITE[@EPOCH][:NODE_TYPE] or a path; overrides and --set site.* over it."""
        bare, meant = read_target(name)
        meant = SiteTarget(
            node_type=target.node_type or meant.node_type, epoch=target.epoch or meant.epoch
        )
        path = self.locate("site-configs", bare)
        layers = [
            layer for layer in (self.override("sites", path.stem), changes) if layer is not None
        ]
        return loading.load(
            path,
            files=loading.SiteFiles(
                display=self.resources.display,
                find=lambda name: self.locate("site-configs", name),
                read=read,
            ),
            overrides=config.merge(*layers) if layers else None,
            host=self.host,
            target=meant,
        )

    def recipe(self, name: str) -> Document:
        """Read a recipe as written, over what it extends, by name or path."""
        return self.written_recipe(name).document

    def written_recipe(self, name: str) -> "WrittenRecipe":
        """Read a recipe as written, with the folders that its files are in."""
        from dlcontainer.recipes import extends
        from dlcontainer.recipes import recipe as recipes

        finder = extends.RecipeFinder(
            find=lambda name: self.resources.find("recipes", name), display=self.resources.display
        )
        written = extends.read(self.locate("recipes", name), finder)
        if not _is_path(name):
            recipes.require_named(written.document, name)
        return written

    def execution(self, console: "Console") -> "Execution":
        """Find the engine and a mode of it that works; raises EngineError."""
        from dlcontainer.engines import apptainer, execution

        engine = apptainer.find(self.environ)
        if self.note:
            console.note(self.note)
        runner = console.runner(self.environ)
        return execution.prepare(engine, self.host, runner, self.cache, console)

    def recalled_trial(self) -> "EngineCapabilities | None":
        """Recall what was found out about the engine; starts no process."""
        from dlcontainer.engines import apptainer, capabilities

        try:
            engine = apptainer.find(self.environ)
        except EngineError:
            return None
        return capabilities.recall(self.cache, engine, self.host)

    def plan(
        self,
        recipe: str | None,
        site_name: str,
        settings: list[str] | None = None,
        target: SiteTarget = USUAL,
        variant: str | None = None,
        *,
        cpu: bool = False,
    ) -> "Plan":
        """Settle a recipe for a site; starts no process.

        `cpu` asks for a variant without device code.
        """
        settings_over = config.from_settings(settings or [])
        if "site" in settings_over.data and not isinstance(settings_over.data["site"], dict):
            raise UsageError(
                "--set site=…: a site is not a single value",
                next_step="name it with --site; change one value with --set site.KEY=VALUE",
            )
        site = self.site(site_name, target, config.subtree(settings_over, ("site",)))
        name = recipe or site.value.default_recipe
        written, rest = self.written_recipe(name), config.without(settings_over, "site")
        try:
            return self._settle(site, written, rest, variant, cpu=cpu)
        except MisfitError as error:
            from dlcontainer.planning import matrix, refusals

            over = config.subtree(settings_over, ("site",))
            sources = matrix.PlanSources(
                site=lambda _, target: self.site(site_name, target, over),
                recipe=lambda _: written.document,
                settle=lambda of, _, kind: self._settle(of, written, rest, kind, cpu=cpu),
            )
            # Found out only here, by trying: where many are settled, nobody asks.
            steps = error.next_step.split(refusals.OR) if error.next_step else []
            options = [*steps, *matrix.that_go(site, name, variant, sources)]
            error.next_step = refusals.OR.join(dict.fromkeys(options)) or None
            raise

    def plan_written(self, written: "WrittenRecipe", site_name: str, words: PlanWords) -> "Plan":
        """Settle a recipe that need not stand in a file as it is."""
        over = config.from_settings(list(words.settings))
        return self._settle(
            self.site(site_name, words.target, config.subtree(over, ("site",))),
            written,
            config.without(over, "site"),
            words.variant,
            cpu=words.cpu,
        )

    def _settle(
        self,
        site: SelectedDocument[Site],
        written: "WrittenRecipe",
        settings_over: Document,
        variant: str | None,
        *,
        cpu: bool,
    ) -> "Plan":
        from dlcontainer.planning import plan as planning

        overrides = (self.override("recipes", name) for name in written.names)
        changes = [*overrides, settings_over]
        return planning.resolve(
            site=site,
            recipe=written,
            changes=[change for change in changes if change is not None],
            setting=self.setting,
            variant=variant,
            cpu=cpu,
        )

    @cached_property
    def setting(self) -> "PlanContext":
        """What surrounds every plan of this run."""
        from dlcontainer.planning.plan import PlanContext

        return PlanContext(
            host=self.host,
            trial=self.recalled_trial(),
            templates=self.template_digests(),
            probe=resources.probe_files(),
            today=datetime.date.today(),
        )

    def matrix(
        self, recipe: str | None, site: str | None, *, cpu: bool = False
    ) -> "Iterator[Combination]":
        """Settle every recipe for every site that is no archive; or for the one that is named.

        `cpu` asks for variants without device code.
        """
        from dlcontainer.planning import matrix

        # Read when it is asked for: one that is wrong does not stop the others.
        read, read_site = cache(self.written_recipe), cache(config.load)
        nothing = config.from_data({}, layer="--set")
        sources = matrix.PlanSources(
            site=lambda name, target: self.site(name, target, read=read_site),
            recipe=lambda name: read(name).document,
            settle=lambda of, name, kind: self._settle(of, read(name), nothing, kind, cpu=cpu),
            cpu=cpu,
        )
        names = [site] if site else self.resources.names("site-configs")
        recipes = [recipe] if recipe is not None else self.resources.names("recipes")
        return matrix.combinations(names, recipes, sources, archived=site is not None)

    def template_digests(self) -> dict[str, str]:
        """Return the SHA-256 of each image template in use: a changed one is another plan."""
        by_name: dict[str, str] = {}
        for folder in reversed(self.resources.template_folders()):
            for path in sorted((folder / "image").glob("*.j2")):
                by_name[path.name] = digests.of_file(path)
        return by_name


def _is_path(name: str) -> bool:
    return "/" in name or name.endswith((".yaml", ".yml"))


def here() -> CliContext:
    """Return the world of this process; variables that count as not set are not in it."""
    settled = variables.settled(os.environ)
    return CliContext(environ=settled.environ, note=settled.note, user_environ=dict(os.environ))
