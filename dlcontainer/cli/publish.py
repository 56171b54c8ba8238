"""`dlcontainer publish`: an image as a module that users load."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dlcontainer.cli import options, output
from dlcontainer.cli.scan import gate
from dlcontainer.cli.signing import trust_options
from dlcontainer.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dlcontainer.cli.context import CliContext
    from dlcontainer.image.checks_file import CheckRecord
    from dlcontainer.image.record import Record
    from dlcontainer.publish.access import AccessBarrier
    from dlcontainer.publish.publish import Publication, PublishContext
    from dlcontainer.sites.site import Site


def publish(
    image: Annotated[Path, typer.Argument(metavar="IMAGE", help="An image file (.sif).")],
    site: options.Site,
    root: Annotated[
        Path | None,
        typer.Option("--root", metavar="DIR", help="The published tree. Default: the site's."),
    ] = None,
    layout: Annotated[
        Literal["sif", "tree"],
        typer.Option(
            "--layout",
            help="Publish the image as one file (sif), or as a folder of its "
            "files (tree, for CernVM-FS).",
        ),
    ] = "sif",
    cvmfs: Annotated[
        Path | None,
        typer.Option(
            "--cvmfs",
            metavar="FILE",
            help="With --layout tree: write a script that publishes to CernVM-FS; publish nothing.",
        ),
    ] = None,
    release: Annotated[
        bool,
        typer.Option(
            "--release",
            help="Publish another image of a published version as its next release; the one before "
            "stays loadable by its number.",
        ),
    ] = False,
    proofs: options.Proofs = None,
    key: trust_options.Keys = None,
    certificate_roots: trust_options.Roots = None,
    pgp: trust_options.Keyrings = None,
    require_signed: trust_options.RequireSigned = False,
    require_evidence: trust_options.RequireEvidence = None,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Check an image and publish it as a module."""
    from dlcontainer.cli.context import here

    world, path = here(), options.image_file(image)
    request = _PublishRequest(
        image=path,
        site=site,
        facts=world.site(site).value,
        root=root,
        layout=layout,
        release=release,
        proofs=proofs or [],
        signers=trust_options.Signers(
            keys=key,
            roots=certificate_roots,
            keyrings=pgp,
            signed=require_signed,
            evidence=require_evidence,
        ),
    )
    if cvmfs is not None:
        _write_script(cvmfs, request, as_json=as_json)
        return
    done = _publish(request, world, output.Console(verbose=verbose, quiet=as_json))
    _show(done, request.facts.modules.kind, as_json=as_json)


@dataclass(frozen=True, kw_only=True, slots=True)
class _PublishRequest:
    """What was asked for: an image, of a site, into a tree, by signers; `facts` are the site's."""

    image: Path
    site: str
    facts: "Site"
    root: Path | None
    layout: Literal["sif", "tree"]
    release: bool
    proofs: list[Path]
    signers: trust_options.Signers


def _publish(
    request: _PublishRequest, world: "CliContext", console: output.Console
) -> "Publication":
    from dlcontainer.proof import reach
    from dlcontainer.publish import publish as publishing
    from dlcontainer.publish.tree.layout import admit_any
    from dlcontainer.publish.tree.numbers import Succession

    site, signers = request.facts, request.signers
    evidence = reach.read(request.proofs, site.engine.builders) if request.proofs else None
    trust = trust_options.trust_of(
        site, keys=signers.keys, roots=signers.roots, keyrings=signers.keyrings
    )
    demand = trust_options.demand_of(site, signers.evidence, signed=signers.signed)
    trust_options.note_unasked(demand, console, signers)
    signatures = trust_options.asking(trust, demand, world, console)
    context = replace(
        _context(request.site, world, console),
        proofs=evidence,
        verify=trust_options.verifier(signatures, console),
        scan=gate(request.site, site, world, console),
        admit=signatures.admit if signatures else admit_any,
        unpacked=request.layout == "tree",
        succession=Succession(days=site.modules.release_days) if request.release else None,
    )
    root = request.root.absolute() if request.root else None
    with console.beating():
        done = publishing.publish(request.image, site, root, context)
    for closed in done.closed:
        console.note(str(closed))
    return done


def _context(name: str, world: "CliContext", console: output.Console) -> "PublishContext":
    """Return what publishing takes of this machine."""
    from dlcontainer.engines import apptainer, execution
    from dlcontainer.publish.modulefiles import FallbackPrograms
    from dlcontainer.publish.publish import PublishContext
    from dlcontainer.sites.site import read_target
    from dlcontainer.system.machine import find_program
    from dlcontainer.validate import validate as validating
    from dlcontainer.validate.inspected import ValidateContext

    runner = console.runner(world.environ)
    program = apptainer.find(world.environ)

    def check(image: Path, written: "Record", built_for: "Site") -> "Sequence[CheckRecord]":
        console.step(f"check {image.name}")
        checked = ValidateContext(
            execution=execution.prepare(program, world.host, runner, world.cache, console),
            on_check=console.checked,
            on_begin=console.phase,
        )
        checks = validating.validate(image, built_for, checked, written)
        return [check.record for check in checks]

    return PublishContext(
        resort=FallbackPrograms(
            engine=program.program,
            squashfuse=find_program("squashfuse_ll", world.host.environ),
        ),
        runner=runner,
        templates=tuple(world.resources.template_folders()),
        progress=console,
        check=check,
        at=lambda target: world.site(read_target(name)[0], target).value,
        environ=world.environ,
    )


def _write_script(target: Path, request: _PublishRequest, *, as_json: bool) -> None:
    from dlcontainer.cli.context import here
    from dlcontainer.publish.unpacked import cvmfs
    from dlcontainer.system import report_files

    site, root, signers = request.site, request.root, request.signers
    if request.layout != "tree" or root is None:
        raise UsageError(
            "--cvmfs requires --layout tree and --root",
            next_step="add --layout tree --root /cvmfs/REPOSITORY/FOLDER",
        )
    if signers.are_named or signers.signed or signers.evidence:
        raise UsageError(
            "--cvmfs takes no signers and no demands on the command line",
            why="the script publishes later, without these options",
            next_step="set trust.require_signed in the site's file (docs/centre/signing.md)",
        )
    templates = here().resources.template_folders()
    named = str(Path(site).absolute()) if "/" in site or site.endswith((".yaml", ".yml")) else site
    more = ["--release"] if request.release else []
    script = cvmfs.script(request.image.absolute(), named, root, templates, more)
    report_files.write(script, target, "--cvmfs")
    if as_json:
        output.emit("publish-script", {"script": str(target), "root": str(root)})
        return
    output.copied(str(target), before="wrote ")
    output.say("next: run it on the release manager machine of the repository")


def _show(done: "Publication", kind: str, *, as_json: bool) -> None:
    uses = {name: str(done.root / "modules" / name) for name in ("lmod", "tcl")}
    if as_json:
        body = {
            "module": done.module,
            "release": done.release,
            "number": done.number,
            "new": done.new,
            "folder": str(done.folder),
            "generation": done.generation,
            "use": uses,
            "closed": [_closed(barrier) for barrier in done.closed],
        }
        output.emit("publish", body)
        return
    from dlcontainer.system.process import quote

    if not done.new:
        output.say(f"already published, identical: {done.folder}")
    for name, path in uses.items():
        if kind in (name, "none"):
            remark = "   # with Environment Modules" if (kind, name) == ("none", "tcl") else ""
            output.copied(quote(["module", "use", path]) + remark)
    remark = f"   # release {done.number}: {done.release}" if done.number > 1 else ""
    output.copied(f"module load {done.module}{remark}")


def _closed(closed: "AccessBarrier") -> dict[str, object]:
    paths = {"path": str(closed.path), "folder": str(closed.folder), "mode": f"{closed.mode:04o}"}
    return {"part": closed.part, **paths, "group": closed.group, "fix": closed.fix}
