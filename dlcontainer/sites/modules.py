"""The module system of a site, and how images are published in it."""

from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from dlcontainer.config.field_types import AbsolutePath, EnvPattern, GroupName, Line
from dlcontainer.sites.groups import SiteFacts


class Modules(SiteFacts):
    """The module system of the site."""

    kind: Literal["none", "lmod", "tcl"] = "none"
    root: AbsolutePath | None = Field(default=None, description="where modules are published")
    group: GroupName | None = Field(
        default=None, description="owner group of what is published; without it the root's"
    )
    bind_home: bool = Field(default=True, description="wrappers show the user's home")
    keep_mounted: int | None = Field(
        default=None,
        ge=0,
        le=86_400,
        description="seconds that wrappers and jobs keep an image mounted for a node's ranks and "
        "launches; 0: each rank mounts it; without it a job's ranks share a mount of their own",
    )

    pass_environment: tuple[EnvPattern, ...] = Field(
        default=(), description="further variables that wrappers and jobs let in: NAME or PREFIX_*"
    )
    keep_days: int | None = Field(
        default=None, ge=1, le=3650, description="that a generation stays after it was left"
    )
    longest_job_days: int | None = Field(
        default=None,
        ge=1,
        le=3650,
        description="that a job may wait, be held and run, with what its user had loaded",
    )
    release_days: int | None = Field(
        default=None,
        ge=1,
        le=3650,
        description="that a release stays loadable after the next one of its version took its "
        "place; without it, until it is taken back",
    )
    submissions: tuple[Line, ...] = Field(
        default=(),
        description="argv that prints the time of submission of each job, one a line; default: "
        "the scheduler's own",
    )
    after_publish: tuple[Line, ...] = Field(
        default=(),
        description="argv, run after each switch of the published tree: the update of Lmod's "
        "spider cache",
    )
    usage: tuple[Line, ...] = Field(
        default=(),
        description="argv that logs a line, which is added: logger -t TAG; wrappers run it on "
        "rank 0. Default: nothing is logged",
    )
    stripe: tuple[Line, ...] = Field(
        default=(),
        description="argv that sets the layout of new files in a folder, which is added: "
        "lfs setstripe -c 8; for an image's folder, before the copy",
    )

    @model_validator(mode="after")
    def _longer_than_jobs(self) -> Self:
        longest, stays = self.longest_job_days, self.release_days
        if longest is not None and stays is not None and stays < longest:
            raise ValueError(
                f"release_days is {stays}, less than longest_job_days, {longest}: a job that waits "
                "would no longer load the release that it names"
            )
        return self

    @field_validator("keep_mounted")
    @classmethod
    def _long_enough(cls, seconds: int | None) -> int | None:
        if seconds is not None and 0 < seconds < 10:
            raise ValueError("give at least 10 seconds, or 0 to keep no mount")
        return seconds
