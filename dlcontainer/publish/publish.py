"""Publish: image -> a release in the published tree. Whatever a user can see there works.

An image is checked before the tree is held; then it becomes a release, and the next generation
has it. Killed anywhere, a publication leaves nothing visible, and the next run removes the rest.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from dlcontainer.errors import ConfigError, PublishError
from dlcontainer.image.record import Record
from dlcontainer.planning import built_for
from dlcontainer.proof import reach
from dlcontainer.publish import (
    access,
    host_libraries,
    launch_files,
    offered,
    ownership,
    releases,
    roots,
    staging,
)
from dlcontainer.publish.modulefiles import FallbackPrograms, ModuleRelease
from dlcontainer.publish.offered import PublishCandidate
from dlcontainer.publish.staging import Checks, Version
from dlcontainer.publish.tree import changes, layout, numbers, store, transaction
from dlcontainer.publish.tree.generation import numbered
from dlcontainer.publish.tree.layout import Admit, PublishedTree
from dlcontainer.publish.tree.numbers import Succession
from dlcontainer.publish.tree.site_commands import SiteCommands
from dlcontainer.publish.tree.store import ReleaseDraft
from dlcontainer.publish.tree.transaction import Publisher
from dlcontainer.publish.unpacked import unpack
from dlcontainer.publish.unpacked.unpack import UnpackedTree
from dlcontainer.sites.site import Site, SiteTarget
from dlcontainer.system import digests, foreign_files
from dlcontainer.system.process import Runner, quote
from dlcontainer.system.progress import Progress


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishContext:
    """Everything a publication needs; `check` looks at an image, by its record, for its site."""

    resort: FallbackPrograms
    runner: Runner
    templates: tuple[Path, ...]
    progress: Progress
    check: Callable[[Path, Record, Site], Checks]
    # The site in another epoch, or on another kind of node; without it, it has one of each.
    at: Callable[[SiteTarget], Site] | None = None
    # Of the publisher: what the site's facts about files use.
    environ: Mapping[str, str] = field(default_factory=dict)
    # By which `module help` says how far the site got.
    proofs: reach.EvidenceFiles | None = None
    # Requires signature and evidence of what was opened; gives the evidence that holds, by name.
    verify: Callable[[PublishCandidate], Mapping[str, bytes]] | None = None
    # The same of a release in the tree: of the bytes that go live.
    admit: Admit = layout.admit_any
    # Refuses an image by the known vulnerabilities of its bill, where its site asks for that.
    scan: Callable[[PublishCandidate], None] | None = None
    # The image as a folder of its files, not as one file.
    unpacked: bool = False
    # Another image becomes the next release of its version; None: it is refused.
    succession: Succession | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Publication:
    """A version in the tree; `new` is false where just this was live already."""

    root: Path
    name: str
    version: str
    # Which release of the version it is.
    number: int
    digest: str
    generation: int
    new: bool
    # Folders that other users can't enter.
    closed: tuple[access.AccessBarrier, ...] = ()

    @property
    def module(self) -> str:
        """NAME/VERSION, as users load it."""
        return f"{self.name}/{self.version}"

    @property
    def release(self) -> str:
        """NAME/VERSION-NUMBER, which loads this release whatever follows it."""
        return f"{self.name}/{numbered(self.version, self.number)}"

    @property
    def folder(self) -> Path:
        """The release's folder, with everything in it."""
        return self.root / layout.RELEASES / self.digest


@dataclass(frozen=True, kw_only=True, slots=True)
class _Publishing:
    """One image on its way to its place."""

    candidate: PublishCandidate
    release: ModuleRelease
    site: Site
    epochs: Mapping[str, Site]
    root: Path
    context: PublishContext


def publish(image: Path, site: Site, root: Path | None, context: PublishContext) -> Publication:
    """Publish an image as a module of its recipe's name and version.

    Raises PublishError for an image that isn't what its record says or fails a check, for another
    image under the same version, for a published one that is damaged, for a root that can't be
    written or is a tree of an earlier version.
    """
    chosen = roots.chosen(root, site)
    with roots.explained(chosen), offered.opened(image, site.owners) as candidate:
        release = releases.described(candidate, site)
        site = _site_of(candidate.record.record, site, context)
        epochs = launch_files.sites_of(site, context.at, release)
        owner = roots.prepared(chosen, site, context.progress.note)
        work = _Publishing(
            candidate=candidate,
            release=release,
            site=site,
            epochs=epochs,
            # Modulefiles name it, and users are anywhere.
            root=chosen.absolute(),
            context=context,
        )
        done = _published(work)
        trees = (work.root / layout.MODULES / kind for kind in layout.KINDS)
        closed = access.closed((done.folder, *trees), context.resort.engine, owner)
        return replace(done, closed=closed)


def _site_of(written: Record, site: Site, context: PublishContext) -> Site:
    """Return the site as the image was built for it: in its epoch, on its kind of node."""
    content = written.content
    target = built_for.target(content)
    if context.at is None or target == SiteTarget(epoch=site.epoch, node_type=site.node_type):
        return site
    try:
        return context.at(target)
    except ConfigError as error:
        raise PublishError(
            f"the image is for {target.named(site.name)}, which is not in the site config",
            why=str(error),
            next_step="publish it with the site config that it was built with, or build it again",
        ) from error


def _published(work: _Publishing) -> Publication:
    """Publish; `new` is false where the generation stayed what it was."""
    version, verify = _version(work), work.context.verify
    unpacks = work.context.unpacked
    # Its checks or the comparison, and the release; an unpacked copy is verified once more.
    verified = 0 if verify is None else 1 + unpacks
    scan = work.context.scan
    work.context.progress.expect(verified + unpacks + (scan is not None) + 2)
    if verify is not None:
        version = replace(version, evidence=verify(work.candidate))
    if scan is not None:
        scan(work.candidate)
    with _unpacked(work) as tree:
        return _published_as(work, replace(version, tree=tree))


@contextlib.contextmanager
def _unpacked(work: _Publishing) -> Iterator[UnpackedTree | None]:
    """Unpack the image where that is asked for."""
    context = work.context
    if not context.unpacked:
        yield None
        return
    context.progress.step("unpack the image")
    owner = ownership.of_root(work.root, work.site.modules.group)
    tools = unpack.UnpackTools(
        runner=context.runner,
        environ=context.environ,
        note=context.progress.note,
        admit=lambda copy: _verified_copy(copy, work),
    )
    with unpack.unpacked(
        work.candidate.image, work.release.sha256, work.root, owner, tools
    ) as tree:
        yield tree


def _verified_copy(copy: Path, work: _Publishing) -> None:
    """Verify the private copy: what was opened may have changed since it was verified."""
    if work.context.verify is not None:
        with foreign_files.opened(copy) as file:
            work.context.verify(replace(work.candidate, image=file))


def _published_as(work: _Publishing, version: Version) -> Publication:
    progress, succession = work.context.progress, work.context.succession
    missing = staging.job(version).missing
    if missing:
        progress.note(f"no job script is published with it: {missing}")
    live = changes.standing(work.root, staging.key(version), succession)
    version = staging.numbered(version, live.number)
    draft = staging.draft(version)
    digest = store.digest_of_draft(draft)
    same = live.digest == digest
    if same:
        _require_image(work)
    else:
        # Checks and their date are no part of the digest.
        version = replace(version, checks=_checked(work))
        if live.digest is None:
            roots.require_space(work.candidate.size, work.root)
    progress.step(f"publish {draft.name}/{draft.version} in {work.root}")
    with transaction.opened(work.root, _hand(work)) as tree:
        before = layout.current(tree.top)
        if same and changes.standing(work.root, draft.key, succession) != live:
            raise PublishError(
                f"{draft.name}/{draft.version} changed while dlcontainer read it",
                next_step="try again",
            )
        draft = _numbered_draft(tree, work, version)
        published = changes.publish(tree, draft, succession)
    return Publication(
        root=work.root,
        name=draft.name,
        version=draft.version,
        number=draft.number or 1,
        digest=store.digest_of_draft(draft),
        generation=published.number,
        new=published.number != before,
    )


def _numbered_draft(tree: PublishedTree, work: _Publishing, version: Version) -> ReleaseDraft:
    """Write the draft with the number that it gets: another publisher may have had the first."""
    key, succession = staging.key(version), work.context.succession
    number = numbers.of_image(tree.top, key, succession)
    draft = staging.draft(staging.numbered(version, number))
    if version.tree is not None:
        # An unpacked image was verified before it was unpacked.
        tree.admitted.add(store.digest_of_draft(draft))
    return draft


def _checked(work: _Publishing) -> Checks:
    """Look at the image, and at the host's libraries that come into it."""
    context = work.context
    checks = context.check(work.candidate.path, work.candidate.record.record, work.site)
    _require_ok(checks, work)
    mpi = launch_files.swaps(work.site, work.release)
    if mpi is not None:
        host_libraries.require_fit(mpi, work.release, context.environ, context.progress.note)
    return checks


def _hand(work: _Publishing) -> Publisher:
    progress = work.context.progress
    return Publisher(
        admit=work.context.admit,
        runner=work.context.runner,
        note=progress.note,
        line=progress.phase,
        group=work.site.modules.group,
        commands=SiteCommands.of(work.site),
        templates=work.context.templates,
    )


def _require_image(work: _Publishing) -> None:
    work.context.progress.step("compare the image with its record")
    if (
        digests.of_open(work.candidate.image, tell=work.context.progress.phase)
        != work.release.sha256
    ):
        raise PublishError(
            f"{work.candidate.path} does not match its record",
            next_step="copy the image and its record again, both from the folder of the build",
        )


def _version(work: _Publishing) -> Version:
    context = work.context
    return Version(
        offered=work.candidate,
        release=work.release,
        site=work.site,
        epochs=work.epochs,
        checks=(),
        resort=context.resort,
        templates=context.templates,
        reached=tuple(reach.lines(context.proofs, work.site)) if context.proofs else (),
    )


def _require_ok(checks: Checks, work: _Publishing) -> None:
    failed = [check for check in checks if not check.ok and check.state != "not tried"]
    if failed or not checks:
        names = ", ".join(check.name for check in failed)
        image, at = quote([str(work.candidate.path)]), built_for.named(work.site)
        steps = (check.next_step for check in failed if check.next_step)
        raise PublishError(
            f"{len(failed)} of {len(checks)} checks failed: {names}",
            why="an image is published only if it passes its checks",
            next_step=next(steps, f"see why: dlcontainer validate {image} --site {at}"),
        )
