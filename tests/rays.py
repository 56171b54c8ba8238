"""A program that is called as Ray's `ray start`, and a module that counts what these started.

It writes down what it was started with, where the job's folder is, and leaves a process behind as
Ray's own do when they are killed. Its cluster is a folder: a file for each node that runs.
"""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests import processes


@contextlib.contextmanager
def watched() -> Iterator[dict[str, str]]:
    """Give variables for a job: at the end no process of it, and no file of Ray's, is left."""
    mark = processes.new_mark()
    # Ray's sockets need a short name.
    with tempfile.TemporaryDirectory(prefix="dlc", dir="/tmp") as folder:
        yield {processes.MARK: mark, "TMPDIR": folder}
        assert processes.left_of(mark) == {}
        assert list(Path(folder).iterdir()) == []


# `FAKE_RAY` of its environment says what goes wrong: `no-worker`, `no-head`, `late`.
FAKE = """\
import json, os, pathlib, signal, subprocess, sys, time
words = dict(word[2:].partition("=")[::2] for word in sys.argv[2:])
wrong = os.environ.get("FAKE_RAY", "")
head = "head" in words
assert sys.argv[1] == "start" and "block" in words, sys.argv
names = ("HOME", "RANK", "MASTER_ADDR", "RAY_ADDRESS", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN",
         "RAY_USAGE_STATS_ENABLED", "XDG_CACHE_HOME", "SLURMD_NODENAME")
place = pathlib.Path("started")
place.mkdir(exist_ok=True)
said = {"argv": sys.argv[1:], **{name: os.environ.get(name) for name in names}}
said["home_is_folder"] = os.path.isdir(os.environ["HOME"])
(place / f"{'head' if head else 'worker'}-{os.getpid()}.json").write_text(json.dumps(said))
if wrong == ("no-head" if head else "no-worker"):
    print("a reason that Ray gave")
    sys.exit(9)
# Its own session, and its parent gone.
child = "import os, time; os.setsid(); os.fork() and os._exit(0); time.sleep(600)"
subprocess.run([sys.executable, "-c", child], check=True)
if not head:
    assert words["address"] == pathlib.Path("cluster-address").read_text(), words
address = f"127.0.0.1:{words['port']}" if head else words["address"]
cluster = pathlib.Path("cluster")
cluster.mkdir(exist_ok=True)
if head:
    pathlib.Path("cluster-address").write_text(address)
if wrong != "late" or head:
    (cluster / str(os.getpid())).write_text(words["temp-dir"])
os.makedirs(words["temp-dir"])
pathlib.Path(words["temp-dir"], "ray_current_cluster").write_text(address)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
while True:
    time.sleep(1)
"""
MODULE = """\
import os, pathlib
def init(address, **options):
    assert address == pathlib.Path("cluster-address").read_text(), address
def nodes():
    return [{"Alive": True} for _ in pathlib.Path("cluster").iterdir()]
def cluster_resources():
    return {"CPU": 4.0}
"""
