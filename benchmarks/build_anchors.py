"""What builds step by step are held against: the same image, made by Apptainer alone."""

import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from dlcontainer.build.base.bootstrap import BaseMaker
from dlcontainer.build.base.root_tree import prepare
from dlcontainer.build.preflight import choose_tmpdir
from dlcontainer.cli.context import CliContext
from dlcontainer.engines import apptainer, capabilities
from dlcontainer.engines.apptainer import SQUASH
from dlcontainer.engines.engine import BuildSpec
from dlcontainer.formats import build_context, texts
from dlcontainer.packages import routing
from dlcontainer.packages.apt import apt_config
from dlcontainer.packages.routing import PreparedRouting
from dlcontainer.planning.plan import Plan
from dlcontainer.system.process import ProcessRunner


@dataclass(frozen=True, kw_only=True, slots=True)
class Bench:
    """A user with an empty home below `folder`, who has the recipe; what the engine needs there."""

    recipe: str
    folder: Path
    environ: Mapping[str, str]
    world: CliContext
    runner: ProcessRunner

    def fresh(self, name: str) -> Path:
        """Return an empty folder."""
        path = self.folder / name
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        return path


def settle(bench: Bench) -> Plan:
    """Settle the recipe for this machine."""
    return bench.world.plan(bench.recipe, "local")


def plain(bench: Bench) -> float:
    """Build as Apptainer's users do by hand: debootstrap, its own settings."""
    settled = settle(bench)
    work = bench.fresh("plain")
    routed = _routed(bench, settled, work)
    text = texts.text(settled, "apptainer", bench.world.resources.template_folders())
    base = settled.recipe.base
    head = f"Bootstrap: debootstrap\nOSVersion: {base.release}\nMirrorURL: {_mirror(routed)}\n"
    definition = head + text[text.index("%files") :]
    return _engine(
        bench,
        settled,
        (work, routed),
        definition,
        BuildSpec(definition="a.def", image=work / "a.sif", mode=mode(bench), binds=routed.binds),
    )


def fair(bench: Bench) -> float:
    """Build with the same base maker, squash settings and folder as ours, in one go."""
    settled = settle(bench)
    work = bench.fresh("fair")
    routed = _routed(bench, settled, work)
    start = time.perf_counter()
    maker = BaseMaker(
        host=bench.world.host,
        runner=bench.runner,
        cache=bench.fresh("fair-cache"),
        on_line=lambda _: None,
        on_wait=lambda _: None,
    )
    base = prepare(settled, routed, maker, bench.fresh("fair-work"), work / "log")
    # Lists that the base's maker hands to our steps are no part of a base: apt fetches its own.
    for path in (routed.folder / apt_config.LISTS).glob("*_*"):
        path.unlink()
    (work / base.path.name).symlink_to(base.path)
    made = time.perf_counter() - start
    definition = texts.text(settled, "apptainer", bench.world.resources.template_folders())
    spec = BuildSpec(
        definition="a.def",
        image=work / "a.sif",
        mode=mode(bench),
        binds=routed.binds,
        squash=SQUASH,
    )
    return made + _engine(bench, settled, (work, routed), definition, spec)


def _engine(
    bench: Bench, plan: Plan, places: tuple[Path, PreparedRouting], definition: str, spec: BuildSpec
) -> float:
    work, _ = places
    (work / spec.definition).write_text(definition)
    build_context.stage(plan, work)
    folder = choose_tmpdir(plan, bench.world.host, None) if spec.squash else Path("/tmp")
    with tempfile.TemporaryDirectory(prefix="dlcontainer-bench-", dir=folder) as scratch:
        inner = Path(scratch) / "inner-tmp"
        inner.mkdir(mode=0o1777)
        binds = (*spec.binds, (inner, "/tmp"))
        env = apptainer.environment(bench.environ, tmpdir=Path(scratch))
        argv = apptainer.find(bench.environ).build_argv(replace(spec, binds=binds))
        done = bench.runner(argv, env=env, cwd=work, log=work / "log")
    return done.elapsed


def _routed(bench: Bench, plan: Plan, work: Path) -> PreparedRouting:
    folder = work / "routing"
    folder.mkdir()
    return routing.prepare(plan, bench.world.host, bench.runner, folder)


def _mirror(routed: PreparedRouting) -> str:
    if not routed.apt_sources:
        raise SystemExit("this machine has no apt sources of its release")
    return routed.apt_sources[0].uri


def mode(bench: Bench) -> str:
    """Return in which mode the engine builds here; found out once, for all sides."""
    engine = apptainer.find(bench.environ)
    tried = capabilities.require(bench.folder / "trial", engine, bench.world.host, bench.runner)
    return tried.build_mode or "plain"


def sizes(bench: Bench) -> dict[str, float]:
    """Pack our image's content as the engine would by itself; tell both sizes in MB."""
    (ours,) = (bench.folder / "ours").glob("*.sif")
    target = bench.folder / "gzip.sif"
    engine = apptainer.find(bench.environ)
    argv = [str(engine.program), "build", "--disable-cache"]
    argv += apptainer.BUILD_MODES[mode(bench)]
    env = apptainer.environment(bench.environ, tmpdir=bench.fresh("gzip"))
    bench.runner([*argv, str(target), str(ours)], env=env)
    return {"ours": ours.stat().st_size / 1e6, "default": target.stat().st_size / 1e6}
