"""Wishes on an image -> the layer's files in a folder, held against the image below them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name, parse_wheel_filename
from packaging.version import Version
from pydantic import TypeAdapter, ValidationError

from dlcontainer.authoring import module_names, wheels
from dlcontainer.authoring.extension import base_survey, layer_rules, layer_trial, wheel_files
from dlcontainer.authoring.extension.base_survey import BaseSurvey
from dlcontainer.authoring.extension.interpreter import BaseProgram
from dlcontainer.authoring.extension.layer_content import LayerContents
from dlcontainer.authoring.extension.layer_rules import BelowLayer
from dlcontainer.authoring.extension.wheel_files import LayerFile
from dlcontainer.authoring.module_names import WheelModules
from dlcontainer.config.field_types import Url
from dlcontainer.engines.execution import Execution
from dlcontainer.errors import BuildError, MisfitError, UsageError
from dlcontainer.image.contents import FolderTree, elf
from dlcontainer.image.contents.following import LeavesError, follow
from dlcontainer.packages import routing
from dlcontainer.packages.resolve import index_access, resolve
from dlcontainer.packages.resolve.resolution import ParentPin, Resolution, ResolveRequest, Target
from dlcontainer.packages.resolve.wishes import WishList
from dlcontainer.sites.site import Site


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerMaker:
    """Who makes a layer: `work` is private and empty, `most` the bytes that it may unpack to."""

    base: BaseSurvey
    program: BaseProgram
    wishes: WishList
    site: Site
    execution: Execution
    work: Path
    most: int

    def make(self, folder: Path) -> LayerContents:
        """Choose the packages, and lay their files out below a folder, byte code beside them.

        Raises MisfitError for packages that contradict the base or would change what is in it.
        """
        progress, paths = self.execution.progress, self.program.paths
        target = Target(python=paths.python, arch=self.site.arch, glibc=self.base.glibc)
        progress.step(f"choose the packages (Python {target.python}, {target.arch})")
        sites = self._sites()
        resolution = self._resolve(target, base_survey.pins(self.base, sites))
        pins = {pin.name: pin.version for pin in resolution.pins}
        noun = "wheel" if len(pins) == 1 else "wheels"
        progress.step(f"fetch {len(pins)} {noun}")
        fetched = self._fetch(pins)
        progress.step("lay out the packages and compare them with the base")
        wished = {canonicalize_name(wish.requirement.name) for wish in self.wishes.wishes}
        modules = self._modules(fetched, wished)
        files: list[LayerFile] = []
        for wheel in fetched:
            is_asked = parse_wheel_filename(wheel.name)[0] in wished
            files += wheel_files.plan(wheel, paths, self.program.python, is_asked=is_asked)
        files = self._once(files)
        below = BelowLayer(kinds=self.base.kinds, sites=sites, scripts=paths.scripts)
        layer_rules.require(files, below, self.base.image.path.name)
        wheel_files.lay(files, folder, self.program.python, self.most)
        for note in layer_trial.run(self.program, folder).notes:
            progress.note(note)
        tree = FolderTree(folder=folder)
        listed = [entry.path for entry in tree.entries() if elf.is_library(entry)]
        return LayerContents(
            files=files,
            modules=modules,
            commands=wheel_files.commands(files, paths),
            wishes=[str(wish.requirement) for wish in self.wishes.wishes],
            resolution=resolution,
            libraries=elf.libraries(tree.fetch(listed, self.work)),
        )

    def _sites(self) -> list[str]:
        """List the folders of modules as they lie in the image: where Python looks and installs."""
        paths, sites = self.program.paths, []
        for entry in (*paths.path, paths.purelib, paths.platlib):
            try:
                real = follow(entry, self.base.links).end
            except LeavesError as error:
                raise MisfitError(
                    f"{entry} of {self.base.image.path.name} leads {error}",
                    next_step="choose an image whose Python has its folders in the image",
                ) from None
            is_standard = real.endswith((f"/python{paths.python}", "/lib-dynload", ".zip"))
            if not is_standard:
                sites.append(real)
        return list(dict.fromkeys(sites))

    def _resolve(self, target: Target, pins: Sequence[ParentPin]) -> Resolution:
        """Choose versions; all that lies in the base stays."""
        execution = self.execution
        asker = resolve.Asker(
            access=index_access.access_of(self.site.routing, execution.host, self._upstreams()),
            host=execution.host,
            runner=execution.runner,
            folder=self.work,
            cache=execution.cache,
            note=execution.progress.note,
        )
        request = ResolveRequest(wishes=self.wishes, target=target, pins=tuple(pins))
        self._require_possible(pins)
        try:
            resolution = resolve.resolve(request, asker)
        except MisfitError as error:
            raise self._contradiction(error) from None
        if not resolution.pins:
            raise UsageError(
                f"{self.base.image.path.name} has all packages of {self.wishes.path.name} already",
                next_step="use the image as it is, or name packages that it does not have",
            )
        return resolution

    def _require_possible(self, pins: Sequence[ParentPin]) -> None:
        """Refuse wishes that exclude what the base has, before any index is asked."""
        installed = {canonicalize_name(pin.requirement.name): pin for pin in pins}
        for wish in (*self.wishes.wishes, *self.wishes.constraints):
            pin = installed.get(canonicalize_name(wish.requirement.name))
            if pin is None or wish.requirement.marker is not None:
                continue
            (specifier,) = pin.requirement.specifier
            if not wish.requirement.specifier.contains(specifier.version, prereleases=True):
                raise MisfitError(
                    f"{wish.requirement} contradicts {pin.requirement} of the base",
                    where=wish.origin,
                    why=f"it lies in {pin.origin}, and nothing of the base is replaced",
                    next_step=self._advice,
                )

    def _contradiction(self, error: MisfitError) -> MisfitError:
        return MisfitError(error.what, where=error.where, why=error.why, next_step=self._advice)

    @property
    def _advice(self) -> str:
        return (
            f"change {self.wishes.path.name}, take another base, or build an image of a recipe "
            "with these packages: dlcontainer build FILE"
        )

    def _upstreams(self) -> list[str]:
        """Return the further indexes of the base's recipe, where it has one."""
        if self.base.image.record is None:
            return []
        recipe: Mapping[str, Any] = self.base.image.record.body["content"].get("recipe") or {}
        urls = [upstream.get("url") for upstream in dict(recipe.get("upstreams") or {}).values()]
        try:
            return [TypeAdapter(Url).validate_python(url) for url in urls]
        except ValidationError:
            return []

    def _fetch(self, pins: Mapping[str, str]) -> list[Path]:
        host, runner = self.execution.host, self.execution.runner
        fetcher = wheels.fetcher_at(self.site, host, runner, self.execution.cache)
        fetcher = replace(fetcher, on_line=self.execution.progress.line)
        pip = fetcher.pip_for(self.program.paths.python, self.base.glibc, self.site)
        address = ""
        if any(Version(version).local for version in pins.values()):
            for url in self._upstreams()[:1]:
                address, _ = routing.upstream_of(
                    self.site.routing, url, fetcher.proxies, fetcher.ca
                )
        folder = self.work / "wheels"
        folder.mkdir()
        packages = [f"{name}=={version}" for name, version in pins.items()]
        files = wheels.fetch_by(pip, packages, address, folder)
        fetched = {str(parse_wheel_filename(file.name)[0]) for file in files}
        if fetched != set(pins):
            lost = ", ".join(sorted(set(pins) - fetched)) or "none"
            raise BuildError(
                "the index gave other wheels than it was asked for",
                why=f"missing: {lost}",
                next_step="check that routing.pip of the site names the right index",
            )
        return files

    def _modules(self, files: Sequence[Path], wished: Collection[str]) -> list[WheelModules]:
        """Look into the wheels of what was asked for; of a closure, of what no other needs."""
        read = [module_names.read(file) for file in files]
        chosen = [wheel for wheel in read if wheel.package in wished]
        if not self.wishes.is_locked:
            return chosen
        needed = {name for wheel in read for name in wheel.needs - {wheel.package}}
        return [wheel for wheel in chosen if wheel.package not in needed]

    def _once(self, files: Sequence[LayerFile]) -> list[LayerFile]:
        """Lay out a path once, of whichever wheel comes last, as pip does."""
        by_path: dict[str, LayerFile] = {}
        for file in files:
            before = by_path.get(file.path)
            if before is not None:
                self.execution.progress.note(
                    f"{before.wheel.title} and {file.wheel.title} both have {file.path}: the "
                    "second's is taken"
                )
            by_path[file.path] = file
        return list(by_path.values())
