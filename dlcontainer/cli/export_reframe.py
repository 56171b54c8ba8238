"""`dlcontainer export reframe`: a test that runs the benchmark of an image."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dlcontainer.bench.probes import PROBES
from dlcontainer.cli import options, output, reframe_session
from dlcontainer.cli.bench import session_options, sessions
from dlcontainer.errors import UsageError

if TYPE_CHECKING:
    from dlcontainer.cli.context import CliContext
    from dlcontainer.formats.reframe import MetricReference
    from dlcontainer.sites.site import Site

_BOUNDS = 2
_USUAL = next(iter(PROBES))

Probes = Annotated[
    str,
    typer.Option(
        "--probe",
        metavar="NAMES",
        help=f"Probes to run: {', '.join(PROBES)}, or several, e.g. {','.join((*PROBES,)[:2])}.",
    ),
]
Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[-- OPTION...]", help="Options for `dlcontainer bench`, e.g. -- --pairs 8"
    ),
]
References = Annotated[
    list[str] | None,
    typer.Option(
        "--reference",
        metavar="PROBE.FIGURE=VALUE[,LOWEST[,HIGHEST]]",
        help="Reference value, with bounds as shares of it, e.g. import.ratio=1,,0.05.",
    ),
]
Settings = Annotated[
    Path | None,
    typer.Option(
        "--settings", metavar="FILE.py", help="Also write ReFrame's settings for the site."
    ),
]


def reframe(
    site: options.Site,
    image: session_options.Image,
    target: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE.py", help="File to write the test to.")
    ],
    words: Words = None,
    probes: Probes = _USUAL,
    references: References = None,
    settings: Settings = None,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Write a ReFrame test that runs the benchmark of an image and reads its figures."""
    from dlcontainer.cli.context import here
    from dlcontainer.formats import reframe as texts
    from dlcontainer.system.report_files import write

    named = str(Path(site).absolute()) if "/" in site or site.endswith((".yaml", ".yml")) else site
    chosen = _probes(probes)
    tasks = reframe_session.tasks(chosen, words or [], sessions.app)
    world = here()
    settled = world.site(site).value
    folders = world.resources.template_folders()
    request = texts.ReframeRequest(
        site=named,
        image=image.absolute(),
        probes=chosen,
        words=tuple(words or ()),
        references=_references(references or [], chosen),
        tasks=tasks,
        metrics={name: reframe_session.metrics(name) for name in chosen},
        stepped=tuple(name for name, probe in PROBES.items() if probe.repeats),
    )
    written = [(target, texts.test(settled, request, folders))]
    if settings is not None:
        written.append((settings, texts.settings(_node_types(world, site, settled), folders)))
    for path, text in written:
        write(text, path)
    system = f"{texts.system(settled)}:{texts.partition(settled)}"
    if as_json:
        body = {"test": str(target), "settings": str(settings) if settings else None}
        output.emit("export", {**body, "system": system})
        return
    for path, _ in written:
        output.copied(str(path), before="wrote ")
    settings_path = settings or "SETTINGS.py"
    output.copied(f"reframe -C {settings_path} -c {target} --system={system} -r", before="next: ")


def _probes(text: str) -> tuple[str, ...]:
    selected = tuple(dict.fromkeys(word.strip() for word in text.split(",")))
    # The package of configs reads YAML: --help does not need it.
    from dlcontainer.config.suggestions import suggest

    probes = tuple(PROBES)
    for word in selected:
        if word not in probes:
            raise UsageError(
                f"--probe: no probe is called {word!r}{suggest(word, probes)}",
                next_step=f"use one or more of: {', '.join(probes)}",
            )
    return selected


def _node_types(world: "CliContext", name: str, site: "Site") -> list["Site"]:
    """Return the site once for each of its node types, the one that is meant first."""
    from dlcontainer.sites.site import SiteTarget

    further = [kind for kind in site.node_types if kind != site.node_type]
    return [site, *(world.site(name, SiteTarget(node_type=kind)).value for kind in further)]


def _references(
    texts: Sequence[str], probes: Sequence[str]
) -> dict[str, dict[str, "MetricReference"]]:
    figures = {name: reframe_session.figures(name) for name in probes}
    references: dict[str, dict[str, MetricReference]] = {}
    for text in texts:
        key, equals, numbers = text.partition("=")
        probe, _, figure = key.partition(".")
        if figure not in figures.get(probe, ()) or not equals:
            from dlcontainer.config.suggestions import suggest

            figure_names = [f"{probe}.{name}" for probe, names in figures.items() for name in names]
            raise UsageError(
                f"--reference {text}: no figure {key!r}{suggest(key, figure_names)}",
                next_step="use PROBE.FIGURE=VALUE[,LOWEST[,HIGHEST]] with one of "
                + ", ".join(figure_names),
            )
        references.setdefault(probe, {})[figure] = _reference(text, numbers)
    return references


def _reference(text: str, numbers: str) -> "MetricReference":
    from math import isfinite

    from dlcontainer.formats.reframe import MetricReference

    value, *bounds = [part.strip() for part in numbers.split(",")]
    try:
        limits = [float(part) if part else None for part in bounds]
        values = [float(value), *(bound for bound in limits if bound is not None)]
    except ValueError:
        values = []
    if not values or not all(map(isfinite, values)) or len(bounds) > _BOUNDS:
        raise UsageError(
            f"--reference {text}: not VALUE[,LOWEST[,HIGHEST]]",
            next_step="give bounds as shares of the value, e.g. 1,-0.05,0.05; leave one empty "
            "for no bound",
        )
    lowest, highest = [*limits, None, None][:_BOUNDS]
    if (lowest or 0) > 0 or (highest or 0) < 0:
        raise UsageError(
            f"--reference {text}: bounds must include the value",
            next_step="give shares below and above the value, e.g. 1,-0.05,0.05",
        )
    return MetricReference(value=values[0], lowest=lowest, highest=highest)
