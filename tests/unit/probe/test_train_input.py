"""The train probe on samples from files: made once, checked, in a seeded order, shared by ranks."""

import fcntl
import json
import re
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dlcontainer.bench.probes import PROBES, input_
from dlcontainer.bench.probes.inputs import training
from dlcontainer.bench.probes.probe import ParameterContext, ProbeCell, ProbeSubject
from tests.unit.probe.test_probe import copied

FORMATS = ["files", "tar", "raw", "npz", "tfrecord"]
SIZE = 3074


def words(folder: Path, name: str = "raw", **more: Any) -> list[str]:
    given = {
        "samples": 60,
        "sample-bytes": SIZE,
        "shards": 6,
        "window": 10,
        "input-seed": 7,
        **more,
    }
    own = [str(word) for key, value in given.items() for word in (f"--{key}", value)]
    return ["--input", name, "--at", str(folder), *own]


def samples(
    probe: Any, folder: Path, name: str = "raw", rank: int = 0, size: int = 1, **more: Any
) -> Any:
    wanted = probe("train_options").options(words(folder, name, **more))
    wanted.place = SimpleNamespace(rank=rank, size=size)
    return probe("train_input").Samples(wanted)


def taken(found: Any, batch: int, count: int) -> list[bytes]:
    stream = found.batches(batch)
    return [bytes(next(stream)) for _ in range(count)]


def test_the_session_calls_it_as_it_understands(probe: Any) -> None:
    known = probe("train_options")
    contents = ProbeSubject(image="x.sif", recipe="demo", modules=("torch", "pyarrow"))
    for name in (*FORMATS, "parquet"):
        values = PROBES["train"].values({"input": name}, ParameterContext(contents=contents))
        cell = ProbeCell(values=values, threads=1, steps=2)
        wanted = known.options([*PROBES["train"].words(cell)[1:], "--at", "x"])
        assert {key: getattr(wanted, key) for key in known.INPUT} == {
            key: values[key] for key in known.INPUT
        }
    assert training.SEED == input_._SEED
    assert training.SHUFFLES == probe("input_order").SHUFFLES


@pytest.mark.parametrize(
    ("workload", "device", "size"),
    [
        ("convnet", "auto", 3 * 32 * 32 + 2),
        ("resnet50", "auto", 3 * 224 * 224 + 2),
        ("tiramisu", "cpu", 17 * 96 * 96),
        ("deeplabv3plus", "cuda", 17 * 768 * 1152),
        ("transformer", "cpu", 2 * 129),
    ],
)
def test_the_bytes_of_a_sample(probe: Any, workload: str, device: str, size: int) -> None:
    typed = {"input": "raw", "workload": workload, "device": device}
    contents = ProbeSubject(image="x.sif", recipe="demo", modules=("torch",))
    values = PROBES["train"].values(typed, ParameterContext(contents=contents))
    cell = ProbeCell(values=values, threads=1, steps=2)
    assert cell.values["sample_bytes"] == size
    own = probe("workloads_torch").WORKLOADS[workload]
    of = own["cpu" if device == "auto" else device]
    assert probe("input_torch").size(own["kind"], of["shape"]) == size
    # A published network's images are as published: nothing says how large they are.
    assert "--size" not in PROBES["train"].words(cell)


@pytest.mark.parametrize("shuffle", ["full", "window"])
def test_every_format_gives_the_same_batches(probe: Any, tmp_path: Path, shuffle: str) -> None:
    found = []
    for name in FORMATS:
        one = samples(probe, tmp_path, name, shuffle=shuffle)
        one.make()
        assert one.check() == 60
        found.append(taken(one, 16, 9))
    assert all(one == found[0] for one in found)
    assert {len(batch) for batch in found[0]} == {16 * SIZE}
    # 60 samples are 3 batches of 16: what is left is dropped, and the next epoch has another order.
    cut = [batch[at : at + SIZE] for batch in found[0] for at in range(0, 16 * SIZE, SIZE)]
    epochs = [cut[:48], cut[48:96], cut[96:]]
    assert [len(set(epoch)) for epoch in epochs] == [48, 48, 48]
    assert epochs[0] != epochs[1] != epochs[2]
    # They are the samples of the input probe, by their numbers.
    layout = probe("input_order").Layout(60, SIZE, 6, 7)
    made = {probe("input_data").sample(layout, number) for number in range(60)}
    assert set(cut) <= made


@pytest.mark.parametrize("shuffle", ["full", "window"])
def test_ranks_share_an_epoch(probe: Any, tmp_path: Path, shuffle: str) -> None:
    samples(probe, tmp_path).make()
    own = [samples(probe, tmp_path, rank=rank, size=3, shuffle=shuffle) for rank in range(3)]
    # Each checks its own, together all.
    assert sum(one.check() for one in own) == 60
    cut = []
    for one in own:
        batches = taken(one, 5, 4)
        cut += [batch[at : at + SIZE] for batch in batches for at in range(0, 5 * SIZE, SIZE)]
    assert len(set(cut)) == 60


def test_a_share_without_a_whole_batch(probe: Any, tmp_path: Path) -> None:
    samples(probe, tmp_path).make()
    with pytest.raises(probe("rows").WrongError, match="--samples 60: no batch of 40 in the share"):
        taken(samples(probe, tmp_path, rank=1, size=2), 40, 1)


def damaged(probe: Any, folder: Path, name: str, shard: int, record: int) -> Path:
    """Change a bit of a record of a shard; give the path that a message names."""
    end = "" if name == "files" else f".{'bin' if name == 'raw' else name}"
    path = folder / f"{name}/shard-{shard:05d}{end}"
    file = path / f"{record:06d}.bin" if name == "files" else path
    data = bytearray(file.read_bytes())
    layout = probe("input_order").Layout(60, SIZE, 6, 7)
    place = data.index(probe("input_data").sample(layout, 10 * shard + record))
    data[place + SIZE // 2] ^= 0x40
    file.write_bytes(data)
    return path


@pytest.mark.parametrize("shuffle", ["full", "window"])
@pytest.mark.parametrize("name", FORMATS)
def test_a_corrupt_shard_is_named(probe: Any, tmp_path: Path, name: str, shuffle: str) -> None:
    one = samples(probe, tmp_path, name, shuffle=shuffle)
    one.make()
    path = damaged(probe, tmp_path, name, 4, 2)
    with pytest.raises(probe("rows").WrongError, match=re.escape(f"{path}: ")) as caught:
        one.check()
    assert "record 2" in str(caught.value)


@pytest.mark.parametrize("name", ["tar", "raw", "tfrecord"])
def test_a_shard_that_is_cut_after_the_check(probe: Any, tmp_path: Path, name: str) -> None:
    one = samples(probe, tmp_path, name, shuffle="window")
    one.make()
    one.check()
    path = tmp_path / f"{name}/shard-00003.{'bin' if name == 'raw' else name}"
    path.write_bytes(path.read_bytes()[: 4 * SIZE + SIZE // 2])
    with pytest.raises(probe("rows").WrongError, match=re.escape(f"{path}: ")) as caught:
        taken(one, 10, 12)
    assert re.search("record [34]", str(caught.value)), caught.value


def test_only_one_of_a_group_writes(
    probe: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, begun = samples(probe, tmp_path), list[Any]()
    make = probe("input_data").make

    def noted(*words: Any) -> Any:
        begun.append(words)
        return make(*words)

    monkeypatch.setattr(probe("input_data"), "make", noted)
    with (tmp_path / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        waiting = threading.Thread(target=one.make)
        waiting.start()
        waiting.join(0.2)
        assert waiting.is_alive()
        assert begun == []
        fcntl.flock(held, fcntl.LOCK_UN)
        waiting.join(30)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "raw").iterdir()}
    samples(probe, tmp_path).make()
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "raw").iterdir()} == before
    assert len(begun) == 2


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--input", "cd"), "--input cd: there is files, tar, raw, npz, tfrecord, hdf5"),
        (("--input", "tar", "--framework", "mxnet"), "mxnet trains on noise only"),
        (("--input", "tar", "--framework", "tensorflow"), "tensorflow trains on noise only"),
        (("--input", "tar"), "takes --at"),
        (("--input", "tar", "--at", "x"), "takes --samples, --sample-bytes"),
        (("--input", "parquet", "--at", "x"), "take --shuffle window"),
    ],
)
def test_what_is_refused(
    probe: Any, capsys: pytest.CaptureFixture[str], more: tuple[str, ...], says: str
) -> None:
    with pytest.raises(SystemExit):
        probe("train_options").options(more)
    assert says in capsys.readouterr().err


def test_a_report_says_what_was_read_and_not_where(probe: Any, tmp_path: Path) -> None:
    known = probe("train_options")
    plain = ["parallel", "micro_batches", "apart"]
    places = ["at", "script", "script_at", "gate", "axes"]
    unsaid = known.unsaid(known.options(words(tmp_path)))
    assert unsaid == ["workload", "optimizer", *plain, *places]


# A framework of nothing, fed as PyTorch is.
TRAINER = """
import time, zlib
import probe_train


class Trainer(object):
    framework = None
    device = "cpu"

    def __init__(self, wanted):
        probe_train.stamp("import")
        probe_train.settle_sizes(wanted, self.device)
        self.kept, self.waited_s = [], []
        probe_train.stamp("device")

    def feed(self, samples, wanted):
        self.batches = samples.batches(wanted.batch)
        return self

    def step(self, number):
        begin = time.perf_counter()
        data = next(self.batches)
        time.sleep(0.004)
        self.waited_s.append(time.perf_counter() - begin)
        self.kept.append(float(zlib.crc32(data)))

    def settle(self):
        pass

    def clock(self):
        return probe_train.Clock()

    def losses(self):
        return self.kept

    def counts(self):
        return {}
"""


def launched(folder: Path, argv: list[str]) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-S", str(folder), "train", "--steps", "3", "--warmup", "2", *argv]
    return subprocess.run(line, capture_output=True, text=True, check=False)


@pytest.mark.usefixtures("real_processes")
def test_a_launch_says_what_it_waited(probe: Any, tmp_path: Path) -> None:
    folder, at = copied(tmp_path / "p"), tmp_path / "at"
    at.mkdir()
    (folder / "train_torch.py").write_text(TRAINER)
    losses = []
    for name in ("tar", "tfrecord"):
        done = launched(folder, words(at, name))
        assert done.returncode == 0, done.stderr
        said = json.loads(done.stdout.splitlines()[-1])
        losses.append(said["losses"])
        assert 0.004 <= said["values"]["input_s_per_step"] <= said["values"]["wall_s"] / 3
        assert said["stamps_ns"]["device"] <= said["stamps_ns"]["input"]
        work = said["workload"]
        assert (work["input"], work["samples"]) == (name, 60)
        assert "at" not in work
    assert losses[0] == losses[1]
    # Noise says nothing of it, and is read from nowhere.
    (folder / "train_torch.py").write_text(TRAINER.replace("next(self.batches)", "b''"))
    plain = json.loads(launched(folder, []).stdout.splitlines()[-1])
    assert "input" not in plain["workload"]
    assert "input" not in plain["stamps_ns"]
    # A record that is not the one that was written ends it before its first step.
    shard = damaged(probe, at, "tar", 3, 5)
    done = launched(folder, words(at, "tar"))
    assert done.returncode == 1
    assert done.stdout == ""
    last = done.stderr.splitlines()[-1]
    assert f"WrongError: {shard}: sample 35, record 5, is not the one that was written" in last
