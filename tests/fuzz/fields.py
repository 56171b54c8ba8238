"""Every text that a site or a recipe may hold, walked from the models: none is forgotten."""

import copy
import json
import types
from collections.abc import Iterator
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from tests.values import IMAGE_BASE

Path = tuple[str | int, ...]
# In a path: any key of a mapping, any item of a list, and a key itself.
ANY, ITEM, KEY = "*", 0, "(key)"
GROUPS = ("os", "cpu", "accelerator", "network", "collectives")

PAYLOADS = (
    *("a'; touch CANARY; '", 'a"; touch CANARY; "', "$(touch CANARY)", "`touch CANARY`"),
    *("; touch CANARY #", "a\ntouch CANARY", "a\r\ntouch CANARY", "\n%post\ntouch CANARY", "%post"),
    *("\nRUN touch CANARY", "back\\slash\\", "|| touch CANARY", "&& touch CANARY &", "> CANARY"),
    *("-o=APT::Update::Pre-Invoke::=touch CANARY", "--index-url=https://x.example.org", "libc6-"),
    *("--trusted-host=x", "-rf", "../../../CANARY", "/../CANARY", "~/CANARY", "$HOME/../CANARY"),
    *("\u202egnp.exe", "\u2066a\u2069", "a\0b", "\x1b]0;title\x07", "\x1b[2J", "a\u2028b", "\x85"),
    *("x" * 50_000, "x y " * 12_500, "{{ 7 * 7 }}", "{% raw %}{{ X }}{% endraw %}"),
    *("{{ ''.__class__.__mro__ }}", "{% include '/etc/passwd' %}", "{{ cycler.__init__ }}", "{{"),
    *("[exec touch CANARY]", '"]; os.execute("touch CANARY") --', "]] os.execute('touch CANARY')"),
    *(
        "'''\n__import__('os').system('touch CANARY')",
        "${EVIL}",
        "$EVIL",
        "${IFS}touch${IFS}CANARY",
    ),
    *("", " ", "ünïcode ' and \" 空", "#SBATCH --wrap=touch", "a: b # c", "!!python/object:x", "*"),
    *("http://x/'\"; touch CANARY", "docker://x/$(touch CANARY)", "a=b=c", "a:b:ro", "%(x)s %n"),
)
_RECIPE_ONLY = {
    "schema": 1,
    "name": "demo",
    "version": "1.0",
    "summary": "A recipe for tests",
    "homepage": "https://example.org/demo",
    "license": "MIT",
    "stack": {
        "cuda": "12.4",
        "gpu_targets": ["sm_90"],
        "cpu_target": "znver3",
        "gcc": "12.2",
        "llvm": "17.0",
        "mpi": {"family": "mpich", "name": "the same MPI", "fabrics": ["slingshot"]},
    },
    "upstreams": {
        "up": {"url": "https://example.org/whl", "source": "a page"},
        "tool": {"url": "https://example.org/t.tar.bz2", "source": "a page", "sha256": "ab" * 32},
    },
    "base": {
        **IMAGE_BASE,
        "digest": f"sha256:{'ab' * 32}",
        "system": {
            "distribution": "debian",
            "release": "bookworm",
            "glibc": "2.36",
            "python": "3.11",
            "source": "a page",
        },
        "source": "a page",
    },
    "prefix": "/opt/demo",
    "interpreter": "/usr/bin/python3",
    "versions": {"tool": "2.0"},
    "steps": [
        {"name": "system", "os_packages": ["python3"], "when": "true"},
        {"name": "wheels", "python_packages": {"packages": ["tool==2.0"], "upstream": "up"}},
        {
            "name": "conda",
            "conda_packages": {"channels": ["up"], "packages": ["x=1"], "tool": "tool"},
        },
        {"name": "files", "files": {"verify.py": "/opt/demo/verify.py"}},
        {"name": "work", "shell": "true", "build_packages": ["gcc"], "environment": {"A": "b"}},
    ],
    "environment": {"HOSTILE": "a"},
    "mount_points": ["/data"],
    "exposes": ["python"],
    "verify": {
        "script": "verify.py",
        "imports": {"tool": "2.0"},
        "before": [{"recipe": "other", "script": "verify.py"}],
    },
    "wishes": ["tool>=1"],
    "changed_pins": ["tool"],
    "held": {"tool": "a reason"},
}
_SITE_MORE = {
    "epoch": "today",
    "epochs": {
        "today": {
            "summary": "now",
            "since": "2026-01-01",
            "until": "2026-12-31",
            "changes": {"status": "active"},
        }
    },
    "node_type": "gpu",
    "node_types": {"gpu": {"summary": "with GPUs", "changes": {"status": "active"}}},
    "recipes": {"demo": {"environment": {"OF_SITE": "a"}}},
    "arch": "x86_64",
    "default_recipe": "demo",
    "name": "demo",
    "source": "s",
    "schema": 1,
    "routing": {
        "apt": ["deb https://example.org/debian bookworm main"],
        "pip": {"index": "https://example.org/simple", "extra_indexes": ["https://example.org/b"]},
        "ca": "/etc/ca.pem",
        "proxy": "http://proxy.example.org:3128",
        "wheels": ["/srv/wheels"],
        "plain_http": ["registry.example.org:5000"],
        "upstreams": {"https://example.org/whl": "https://mirror.example.org/whl"},
    },
    "trust": {
        "keys": [{"file": "/etc/signers/bench.pub", "for": ["bench"]}],
        "certificate_roots": "/etc/signers/ca.pem",
        "keyrings": ["/etc/signers/staff.pgp"],
        "sources": ["s"],
    },
    "vulnerabilities": {"database": "/srv/osv", "allowed": "/etc/allowed.yaml", "gate": "publish"},
    "images": {
        "docker://example.org/base/os:8": f"docker://example.org/base/os@sha256:{'ab' * 32}"
    },
}

# Leaves without a place in the data: names of keys, two ways of which only one is taken, and what a
# test of its own has.
ELSEWHERE = {
    *(
        (group, "remembered", ITEM)
        for group in (*GROUPS, "mpi", "scheduler", "jobs", "modules", "trust")
    ),
    *(("engine", "remembered", ITEM), ("memory", "remembered", ITEM)),
    *(("filesystems", ITEM, "remembered", ITEM), ("scheduler", "forms", ANY, "remembered", ITEM)),
    ("scheduler", "parallel_environment", "name"),
    *(("jobs", "rendezvous", "interface"), ("extends",), ("base", KEY)),
    *(
        ("base", "distribution"),
        ("base", "release"),
        ("slim", ITEM),
        ("variant",),
        ("image", "pack"),
    ),
    *(("stack", "rocm"), ("stack", "oneapi")),
}


def recipe() -> dict[str, Any]:
    """Give a recipe with every field that may hold a text."""
    return copy.deepcopy(_RECIPE_ONLY)


def site(rich: dict[str, Any]) -> dict[str, Any]:
    """Give a site with every field that may hold a text, of one with the hostile fields."""
    # Through JSON: a list that stands twice would be an anchor in YAML.
    data: dict[str, Any] = json.loads(json.dumps({**rich, **_SITE_MORE}))
    data["os"]["glibc"] = "2.36"
    data["cpu"]["target"] = "znver3"
    data["accelerator"] |= {"driver": "550.54", "toolkit": "12.4", "target": "sm_90", "near": [0]}
    data["collectives"] |= {"plugin": "host", "library": "/opt/ofi/lib/libnccl-net.so"}
    data["collectives"] |= {"interface": "hsn", "gloo_interface": "hsn0"}
    data["mpi"] |= {"scripts": ["/etc/mpi.sh"], "version_variable": "MPI_V"}
    data["mpi"] |= {"known_versions": ["1"]}
    data["scheduler"] |= {"resources": {"account": "ABC", "partition": "gpu", "time": "1:00"}}
    near = {"summary": "n", "launcher": ["srun"], "ranks_per_node": 1, "cpu_bind": "near"}
    data["scheduler"]["forms"]["near"] = near
    data["scheduler"]["directives"].append("#SBATCH --exclusive")
    data["cpu"] |= {"cores_per_domain": 1, "reserved": [1]}
    data["jobs"]["rendezvous"] = {"suffix": ".hsn", "ports": "20000-29999"}
    data["jobs"] |= {"warning": {"signal": "USR1", "seconds": 300}, "requeue": True}
    data["modules"] |= {"group": "sw", "pass_environment": ["MY_*"], "release_days": 365}
    data["engine"] |= {"tmpdir": "/tmp/x", "cache": "/srv/cache", "builders": ["ada"]}
    data["engine"] |= {"version": "1.4", "without_gpu_flag": "as the centre's jobs"}
    for group in GROUPS:
        data[group]["sources"] = ["s"]
    data["memory"] = {"gb": 64, "sources": ["s"]}
    data["filesystems"][0]["sources"] = ["s"]
    data["modules"]["sources"] = ["s"]
    return data


def leaves(annotation: Any, path: Path = ()) -> Iterator[Path]:
    """Walk a model: the path of every text, of every key of a mapping."""
    while hasattr(annotation, "__metadata__"):
        annotation = annotation.__origin__
    origin, members = get_origin(annotation), get_args(annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        for name, field in annotation.model_fields.items():
            yield from leaves(field.annotation, (*path, field.alias or name))
    elif annotation is str:
        yield path
    elif origin in (Union, types.UnionType):
        for member in members:
            yield from leaves(member, path)
    elif origin in (tuple, list, frozenset):
        yield from leaves(members[0], (*path, ITEM))
    elif origin is dict:
        yield from leaves(members[0], (*path, KEY))
        yield from leaves(members[1], (*path, ANY))
    else:
        assert origin is Literal or annotation in (int, float, bool, object, type(None)), annotation


def put(data: dict[str, Any], path: Path, text: str) -> bool:
    """Write a text at a leaf; False where the data has no such place."""
    places: list[Any] = [data]
    for part in path[:-1]:
        places = [inner for place in places for inner in _inner(place, part)]
    for place in places:
        last: Any = path[-1]
        if last == KEY and isinstance(place, dict) and place:
            place[text] = place.pop(next(iter(place)))
            return True
        if last == ANY and isinstance(place, dict) and place:
            last = next(iter(place))
        if (isinstance(place, dict) and last in place) or (
            isinstance(place, list) and isinstance(last, int) and len(place) > last
        ):
            place[last] = text
            return True
    return False


def _inner(place: Any, part: str | int) -> Iterator[Any]:
    if part == ITEM and isinstance(place, list):
        yield from place
    elif part == ANY and isinstance(place, dict):
        yield from place.values()
    elif isinstance(place, dict) and part in place:
        yield place[part]
