"""The proof of a job: devices, ranks, NCCL's own words, bandwidth, mounts, import; one JSON.

`python /opt/dlcontainer/probe prove --out FOLDER` on each rank, as the job script starts ranks; by
path it works without an image too. Rank 0 gathers all ranks' reports and writes FOLDER/proof.json,
once and whole, with a digest over its content; `dlcontainer prove FILE` reads and judges it. A rank
that fails says so in its report: the proof of a failure is a proof too. Python >= 3.6.
"""

import argparse
import hashlib
import importlib.util
import json
import os
import runpy
import sys
import time

import attest_gpus
import nccl_log
import prove_devices
import prove_place
import prove_plugin
import scheduler_names

SCHEMA = "dlcontainer/proof/1"
FILE = "proof.json"
MANIFEST = "/opt/dlcontainer/manifest.json"
# framework -> the package that its ranks meet by
GROUPS = {"torch": "torch", "tensorflow": "horovod"}
# Where the scheduler's and the engine's own words stand.
# The last is set by jobs of a published image.
JOB = scheduler_names.JOBS + ("SLURM_STEP_NUM_TASKS", "DLCONTAINER_RELEASE")
IMAGE = ("APPTAINER_CONTAINER", "SINGULARITY_CONTAINER")
# Where the lines stand that nccl_log.py reads; GRAPH for NVLink.
_SUBSYSTEMS = "INIT,ENV,NET,GRAPH"


def options(arguments):
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="probe prove")
    parser.add_argument("--out", required=True, help="a folder that all ranks see")
    parser.add_argument("--framework", choices=prove_devices.FRAMEWORKS)
    parser.add_argument(
        "--minutes", type=float, default=10.0, help="how long ranks wait for each other"
    )
    parser.add_argument("--image-sha256", default=None, help="what the job knows of its image")
    return parser.parse_args(arguments)


def run(arguments, stamps):
    """Prove this rank's part; rank 0 writes the proof. Exits 1 where something failed."""
    wanted = options(arguments)
    wanted.framework = wanted.framework or prove_devices.present()
    try:
        os.makedirs(wanted.out, exist_ok=True)
    except OSError as problem:
        sys.exit("prove: {}: {}; name a folder that the image shows".format(wanted.out, problem))
    own = prove_place.place()
    report = {"error": None, "local_size": own.local_size}
    report.update(own.facts(), **prove_place.cpus())
    with _Errors(report):
        _looked(report, own, wanted)
    meeting, reports = None, [report]
    with _Errors(report):
        meeting = prove_place.meeting(own, wanted.out, wanted.minutes * 60)
        with _Errors(report):
            _together(report, own, wanted, meeting)
        reports = [json.loads(line) for line in meeting.exchange(canonical(report))]
    if own.rank == 0:
        _written(wanted, own, reports)
    if meeting is not None:
        with _Errors(report):
            meeting.wait()  # the file is there before any rank ends
        meeting.close()
    sys.exit(1 if faults(reports, own.size) else 0)


class _Errors(object):
    """Keep what went wrong in the report: the first of it is what brought down the rest."""

    def __init__(self, report):
        self._report = report

    def __enter__(self):
        return self

    def __exit__(self, kind, problem, _):
        if problem is None or not isinstance(problem, Exception):
            return False
        said = "{}: {}".format(kind.__name__, problem).strip()
        self._report["error"] = self._report["error"] or said[:1000]
        return True


def _looked(report, own, wanted):
    """Import, name the mount, prove the devices: what a rank does alone."""
    # Read once, when a library makes its first communicator. A site's own WARN would say nothing.
    os.environ.update(NCCL_DEBUG="INFO", NCCL_DEBUG_SUBSYS=_SUBSYSTEMS)
    os.environ["NCCL_DEBUG_FILE"] = _log(wanted.out, own.rank)
    report["present"], report["modes"] = prove_place.present(), attest_gpus.modes()
    if wanted.framework is None:
        _verified()
        return
    begin = time.time()
    framework = __import__(wanted.framework)
    report["import_s"] = time.time() - begin
    report["framework"] = "{} {}".format(wanted.framework, framework.__version__)
    report["mount"] = prove_place.mount(framework.__file__)
    # Where a device takes one process, each rank leaves the others' alone.
    exclusive = [one for one in report["modes"] or [] if one["mode"] not in (None, "default")]
    alone = own.local_rank if exclusive or own.local_rank else None
    report["devices"] = prove_devices.proved(wanted.framework, alone)
    if wanted.framework == "torch":
        import prove_torch

        report["device"] = prove_torch.own_device(own.local_rank, report["modes"])
        report["library"] = prove_torch.library()
    # After the framework, which brought its NCCL.
    report["plugin"] = plugin = prove_plugin.facts()
    if plugin and plugin["error"]:
        raise RuntimeError("NCCL's plug-in: " + plugin["error"])


def _verified(path=MANIFEST):
    """Run the image's own proof: all that there is to try where no framework is known."""
    try:
        with open(path) as file:
            script = json.load(file)["verify"]
    except (OSError, ValueError, KeyError):
        raise RuntimeError("no framework here: " + ", ".join(prove_devices.FRAMEWORKS))
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        if end.code:
            raise RuntimeError("the image's own proof ended with {}".format(end.code))


def _log(folder, rank):
    return os.path.join(folder, "rank-{:05d}.nccl".format(rank))


def _text(variable):
    """Give what an environment says as text: an id may hold any bytes, a reader takes UTF-8."""
    return os.fsencode(variable).decode("utf-8", "backslashreplace")


def _together(report, own, wanted, meeting):
    """Meet the other ranks by the framework's own group: sizes, sums, bandwidth, network."""
    failed = report["error"] or (report.get("devices") or {}).get("state") == "failed"
    said = {"device": report.get("device"), "node": own.node, "failed": bool(failed)}
    if own.rank == 0 and own.size > 1:
        said["master"] = _master(own)
    others = [json.loads(line) for line in meeting.exchange(json.dumps(said))]
    ended = [str(rank) for rank, other in enumerate(others) if other["failed"]]
    if ended:
        raise RuntimeError("ranks did not meet: rank {} failed before".format(", ".join(ended)))
    if not has_group(wanted.framework):
        name = wanted.framework or "a framework that is not known"
        report["collective"] = {"backend": None, "why": "no group of ranks for " + name}
        return
    for name, value in (others[0].get("master") or {}).items():
        os.environ.setdefault(name, value)
    report["collective"] = collective = {"backend": None, "why": None}
    try:
        group = _group(own, wanted, others, collective)
        try:
            collective.update(backend=group.backend, size=group.size, off=group.off())
            collective["bandwidth"] = group.bandwidth() if own.size > 1 else []
        finally:
            group.close()
    finally:
        # Of a group that failed too: there NCCL's warnings say why.
        report["nccl"] = _shown(wanted.out, own.rank)


def _shown(folder, rank):
    try:
        with open(_log(folder, rank), errors="replace") as file:
            return nccl_log.parsed(file.read())
    except OSError:
        return None


def has_group(framework):
    """Tell whether this Python has what the framework's ranks meet by."""
    needs = GROUPS.get(framework)
    return needs is not None and importlib.util.find_spec(needs) is not None


def _master(own):
    alone = own.local_size == own.size
    import socket

    free = socket.socket()
    try:
        free.bind(("", 0))
        port = str(free.getsockname()[1])
    finally:
        free.close()
    host = "127.0.0.1" if alone else os.uname().nodename
    return {"MASTER_ADDR": host, "MASTER_PORT": port}


def _group(own, wanted, others, collective):
    if wanted.framework != "torch":
        import prove_horovod

        return prove_horovod.Group(own)
    import prove_torch

    backend = prove_torch.backend()
    doubled = shared(others)
    if backend != "gloo" and doubled:
        # NCCL refuses it; that ranks find each other is still worth knowing.
        backend = "gloo"
        collective["why"] = "no NCCL: " + doubled
    if own.size == 1:
        os.environ.update(_master(own))
    return prove_torch.Group(own, backend, wanted.minutes * 60)


def shared(others):
    """Say which ranks have one device between them; an empty text where each has its own."""
    holders = {}
    for rank, other in enumerate(others):
        if other["device"] is not None:
            holders.setdefault((other["node"], other["device"]), []).append(rank)
    said = [
        "ranks {} on {} have device {} between them".format(
            ", ".join(map(str, holder)), node, device
        )
        for (node, device), holder in sorted(holders.items())
        if len(holder) > 1
    ]
    return "; ".join(said)


def faults(reports, size):
    """List what is wrong by the reports alone; what a site promises is judged elsewhere."""
    found = ["rank {}: {}".format(one["rank"], one["error"]) for one in reports if one["error"]]
    if len(reports) != size:
        found.append("{} of {} ranks came".format(len(reports), size))
    for one in reports:
        devices, collective = one.get("devices"), one.get("collective")
        if devices and devices["state"] == "failed":
            found.append("rank {}: {}".format(one["rank"], devices["detail"]))
        if collective and collective["backend"]:
            if collective["size"] != size or collective["off"] != 0:
                found.append(
                    "rank {}: a sum over {} of {} ranks is off by {}".format(
                        one["rank"], collective["size"], size, collective["off"]
                    )
                )
    return found


def _written(wanted, own, reports):
    content = {
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "image": image(wanted.image_sha256),
        "job": {name: _text(os.environ[name]) for name in JOB if name in os.environ},
        "framework": wanted.framework,
        "asked": own.size,
        "ranks": sorted(reports, key=lambda one: one["rank"]),
    }
    content["faults"] = faults(reports, own.size)
    content = json.loads(canonical(content))
    body = {"schema": SCHEMA, "digest": digest(content), "content": content}
    path = os.path.join(wanted.out, FILE)
    try:
        # Once: ranks that take themselves for one of one each must not overwrite each other's.
        prove_place.write_once(path, json.dumps(body, indent=1, sort_keys=True))
    except OSError as problem:
        sys.exit(
            "prove: can't write {}: {}; each proof needs a folder of its own, and ranks that don't "
            "know of each other (a launcher of another MPI) each write one".format(path, problem)
        )
    for fault in content["faults"]:
        print("FAILED  " + fault)
    nodes = len({one["node"] for one in reports})
    print(
        "proof: {} of {} ranks, nodes: {}, sha256 {}; read it: dlcontainer prove {}".format(
            len(reports), own.size, nodes, body["digest"][:12], path
        )
    )


def image(sha256, path=MANIFEST):
    """Say which image this is, by its own manifest; None by path, without one."""
    try:
        with open(path) as file:
            manifest = json.load(file)
    except (OSError, ValueError):
        return None
    content = manifest["content"]
    offer = content.get("recipe") or content.get("extended") or content["adopted"]
    return {
        "plan": manifest["digest"],
        "sha256": sha256,
        "file": next(map(os.path.basename, filter(None, map(os.environ.get, IMAGE))), None),
        "recipe": offer["name"],
        "version": offer["version"],
        "site": content["site"],
        "epoch": content.get("epoch"),
        "node_type": content.get("node_type"),
    }


def canonical(value):
    """Write JSON in its one form: sorted, no spaces, ASCII, no NaN."""
    return json.dumps(
        _finite(value), sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    )


def _finite(value):
    if isinstance(value, float):
        return value if abs(value) <= 1e300 else str(value)
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(inner) for inner in value]
    return value


def digest(content):
    """Give the SHA-256 of a content's canonical JSON."""
    return hashlib.sha256(canonical(content).encode("ascii")).hexdigest()
