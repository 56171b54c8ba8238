"""Image, record and site -> the job of a release: what a user of its module submits."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from dlcontainer.config.templating import Literal as FixedText
from dlcontainer.config.templating import Text
from dlcontainer.errors import ConfigError
from dlcontainer.formats import job_head, released_job
from dlcontainer.formats.released_job import PublishedJob
from dlcontainer.image.record import ImageContent, StackProvenance
from dlcontainer.planning.launch import surroundings
from dlcontainer.publish import modulefiles
from dlcontainer.publish.modulefiles import ModuleRelease
from dlcontainer.sites.launching import Staging
from dlcontainer.sites.site import Site

FOLDER = modulefiles.JOB.partition("/")[0]


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleasedForm:
    """The form of job that an image's recipe asks for."""

    form: Literal["ray"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleasedRecipe:
    """The part of a recipe that a record has, and its job's form."""

    name: str
    version: str
    prefix: str
    exposes: tuple[str, ...]
    stack: StackProvenance
    job: ReleasedForm | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleasePlan:
    """What a job reads of a plan, of a published image."""

    recipe: ReleasedRecipe
    site: Site
    python: str
    digest: str
    environment: Mapping[str, str] = field(default_factory=dict)
    trial: None = None

    @property
    def name(self) -> str:
        """Name of the image."""
        return f"{self.recipe.name}-{self.recipe.version}"

    def place_in_site(self, *path: str) -> str:
        """Return where a key of the site's file stands."""
        return f"site {self.site.name}: {'.'.join(path)}"

    def place_of(self, _text: str) -> None:
        """Return nothing: the record does not say where a text was written."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseJob:
    """The files of a release's job by name; where it has none, `missing` says why."""

    files: Mapping[str, str] = field(default_factory=dict)
    missing: str = ""


def submit(site: Site) -> str:
    """Return the command that submits the job of a module that is loaded."""
    return job_head.submitted(site, released_job.NAMED)


def of_release(
    content: ImageContent,
    release: ModuleRelease,
    site: Site,
    image: Path,
    templates: list[Path],
) -> ReleaseJob:
    """Render the job of a release whose image, a file or a folder of its files, is `image`."""
    if not surroundings.is_apptainer(site):
        return ReleaseJob(missing=f"jobs there start images with {site.engine.runtime}")
    if content.is_foreign:
        return ReleaseJob(missing="the image brings no proof of dlcontainer's")
    named = _named(site, release)
    plan = _plan(content, release, named if image.suffix else _in_place(named))
    job = PublishedJob(
        release=Text(modulefiles.shell(image.parent)),
        module=Text(modulefiles.shell(release.pinned)),
        image=image.name,
        folder=FOLDER,
    )
    try:
        texts = released_job.texts(plan, job, templates)
    except ConfigError as error:
        return ReleaseJob(missing=error.what)
    return ReleaseJob(files={f"{FOLDER}/{name}": text for name, text in texts.items()})


def _plan(content: ImageContent, release: ModuleRelease, site: Site) -> ReleasePlan:
    offer = content.offer
    # A record does not hold it, as it is no part of the image; recipes of this form expose it.
    form = ReleasedForm(form="ray") if "ray" in offer.exposes else None
    return ReleasePlan(
        recipe=ReleasedRecipe(
            name=release.name,
            version=release.version,
            prefix=release.prefix,
            exposes=offer.exposes,
            stack=offer.stack,
            job=form,
        ),
        site=site,
        python=content.extended.python if content.extended else f"{release.prefix}/bin/python",
        digest=release.digest,
        environment=release.environment,
    )


def _named(site: Site, release: ModuleRelease) -> Site:
    """Return the site with jobs that tell their image which release it is."""
    inside = {**site.jobs.inside, modulefiles.VARIABLE: FixedText(release.pinned)}
    return site.model_copy(update={"jobs": site.jobs.model_copy(update={"inside": inside})})


def _in_place(site: Site) -> Site:
    """Return the site without what needs an image file: a folder is neither copied nor mounted."""
    jobs = site.jobs.model_copy(update={"staging": Staging(how="none")})
    modules = site.modules.model_copy(update={"keep_mounted": 0})
    return site.model_copy(update={"jobs": jobs, "modules": modules})
