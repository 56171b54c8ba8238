"""Build a recipe with Docker or Podman, step by step, as the build's story drives a workbench.

A program of its own, so that tests can kill it: prints JSON of what was done.
"""

import json
import os
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from dlcontainer import growing, ocibase, ocibench, pipreport, record, stepwork, workshop
from dlcontainer.cli.world import World
from dlcontainer.engines import apptainer, oci_connect, trial
from dlcontainer.engines.oci import OciKind
from dlcontainer.errors import BuildError
from dlcontainer.formats import context
from dlcontainer.growing import Policy
from dlcontainer.ocibench import OciWork
from dlcontainer.ociroutes import Deliverer, Outcome, Packer, Route
from dlcontainer.progress import Steps
from dlcontainer.rootfs import BaseTree
from dlcontainer.shell import CommandFailedError, ProcessRunner
from dlcontainer.stepwork import StepWork
from dlcontainer.workshop import Workshop
from dlcontainer.workspace import workspace

SUFFIXES: dict[Outcome, str] = {"sif": ".sif", "docker-archive": ".tar", "image": ""}


@dataclass(frozen=True, kw_only=True, slots=True)
class Order:
    """What is to be built; read from the command line as JSON."""

    kind: OciKind
    recipe: str
    output: str
    outcome: Outcome = "sif"
    registry: str | None = None
    settings: tuple[str, ...] = ()
    # nothing kept is taken
    fresh: bool = False


class Told:
    """A Progress that prints on stderr."""

    def step(self, title: str) -> None:
        sys.stderr.write(f"{title}\n")
        sys.stderr.flush()

    line = note = step


def build(order: Order) -> dict[str, object]:
    world = World(environ=dict(os.environ))
    plan = world.plan(order.recipe, "local", list(order.settings))
    runner, engine = ProcessRunner(environ=world.environ), apptainer.find(world.environ)
    tried = trial.require(world.cache, engine, world.host, runner)
    shop = Workshop(
        engine=engine,
        trial=tried,
        host=world.host,
        runner=runner,
        cache=world.cache,
        templates=tuple(world.resources.template_folders()),
        progress=Told(),
    )
    output, progress, start = Path(order.output), Steps(Told()), time.monotonic()
    output.mkdir(parents=True, exist_ok=True)
    client = oci_connect.connect(order.kind, world.environ, world.host.uid)
    with workspace(Path(world.environ["TMPDIR"]), runner) as work:
        log = output / f"{plan.name}.log"
        routed = workshop.route(plan, shop, work)
        base = workshop.base(plan, shop, routed, (work, log), progress)
        assert isinstance(base, BaseTree)
        context.stage(plan, work / "context")
        root = stepwork.root(base.sha256, plan.site.arch, order.kind)
        todo = stepwork.work(plan, work / "context", root)
        route = Route(
            outcome=order.outcome, registry=order.registry, plain_http=bool(order.registry)
        )
        packer = Packer(engine=engine, trial=tried, host=world.host, runner=runner)
        oci_work = OciWork(
            plan=plan,
            base=lambda folder: ocibase.tar(base.path, folder, world.host, runner),
            base_key=base.sha256,
            binds=routed.binds,
            folder=work,
            log=log,
            on_line=progress.line,
        )
        deliverer = Deliverer(route=route, packer=packer, on_line=progress.line)
        with ocibench.opened(client, oci_work, deliverer) as bench:
            done = growing.grow(
                bench,
                todo,
                progress,
                Policy(
                    failure=_failure,
                    installed=lambda: pipreport.take_installed(routed),
                    worth_keeping_s=0.0,
                    keep_last=True,
                    fresh=order.fresh,
                ),
            )
            progress.begin("finish", "finish")
            image = output / f"{plan.name}{SUFFIXES[order.outcome]}"
            bench.finish(work / "image", work / "no bill")
            if order.outcome != "image":
                shutil.move(work / "image", image)
            progress.end()
        packages = tuple(package for one in done for package in one.packages)
        if order.outcome == "sif":
            facts = record.Facts(
                plan=plan,
                host=world.host,
                trial=tried,
                image=image,
                base=base,
                text=shop.text(plan),
                provenance={},
                packages=packages,
                done=tuple(done),
                steps=tuple(progress.times),
                seconds=time.monotonic() - start,
            )
            record.write(record.beside(image), facts)
    client.close()
    delivered = bench.delivered
    assert delivered is not None
    return {
        "image": str(image),
        "name": delivered.name,
        "digest": delivered.digest,
        "packages": [package["name"] for package in packages],
        "ran": [one.step.name for one in done if one.kept is None],
        "kept": [one.step.name for one in done if one.kept is not None],
        "times": progress.times,
        "seconds": round(time.monotonic() - start, 1),
    }


def _failure(step: StepWork | str, error: CommandFailedError) -> BuildError:
    name = step if isinstance(step, str) else step.name
    return BuildError(f"step {name}: {error}", why=error.completed.stdout)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(build(Order(**json.loads(sys.argv[1])))))
