"""A micro-probe of a file system: latency, metadata rate, read latency and bandwidth.

Names that do not exist, each another one, are looked up: no client can have them in its cache.
What an import waits is a sum, so means are taken: a median would leave a queue's slow answers out.
Reads are of a file whose pages were dropped; mincore says whether they really had gone.
"""

import ctypes
import mmap
import os
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from dlcontainer.errors import UsageError
from dlcontainer.sites.facts import FileSystemSpeed

_SINGLE = 200
_SINGLE_S = 5.0
_WINDOW_S = 1.5
_THREADS = (4, 8, 16, 32, 64)
# From one step to the next the rate grows by less: the server, or this client, is full.
_FLAT = 1.10
_READS = 40
_PAGE = mmap.PAGESIZE
_BLOCK = 1 << 20
_MOST_READ = 256 << 20
_MOST_ENTRIES = 5000


@dataclass(frozen=True, kw_only=True, slots=True)
class MicrobenchmarkResult:
    """What was found, and what can't be said of it."""

    speed: FileSystemSpeed
    samples_ms: tuple[float, ...]
    rates: tuple[tuple[int, float], ...]
    saturated: bool
    cold_proved: bool | None
    notes: tuple[str, ...]


def probe(folder: Path, file: Path | None = None) -> MicrobenchmarkResult:
    """Probe the file system of a folder; `file` is what is read, else the largest file found.

    Raises UsageError for a folder or a file that isn't there.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such folder")
    if file is not None and not file.is_file():
        raise UsageError(f"--file {file}: no such file")
    samples = _latencies(folder)
    rates = _rates(folder, 1.0 / fmean(samples))
    saturated = rates[-1][1] < rates[-2][1] * _FLAT
    notes = [] if saturated else ["the rate was still growing: the server does more than this"]
    top = max(rate for _, rate in rates)
    chosen = file or _largest(folder)
    reading = _reading(chosen) if chosen else None
    if reading is None:
        notes.append("no file of 1 MiB or more here: reads were not probed (give one: --file)")
    elif reading.cold is not True:
        notes.append("the file's pages can't be shown to have left memory: cold is not proved")
    speed = FileSystemSpeed(
        latency_ms=max(0.0, fmean(samples) - 1.0 / top) * 1000,
        operations_per_s=top,
        read_latency_ms=reading.latency_s * 1000 if reading else None,
        client_mb_s=reading.mb_s if reading else None,
    )
    return MicrobenchmarkResult(
        speed=speed,
        samples_ms=tuple(sample * 1000 for sample in samples),
        rates=tuple(rates),
        saturated=saturated,
        cold_proved=reading.cold if reading else None,
        notes=tuple(notes),
    )


def _missing(folder: Path) -> Callable[[int], None]:
    stem = os.fspath(folder / f".dlcontainer-{uuid.uuid4().hex}-")

    def ask(number: int) -> None:
        with suppress(FileNotFoundError):
            os.stat(f"{stem}{number}")  # noqa: PTH116 - pathlib costs more than a quick server

    return ask


def _latencies(folder: Path) -> list[float]:
    ask, samples = _missing(folder), []
    ask(-1)  # the folder itself is looked up once
    began = time.perf_counter()
    for number in range(_SINGLE):
        start = time.perf_counter()
        ask(number)
        samples.append(time.perf_counter() - start)
        if time.perf_counter() - began > _SINGLE_S:
            break
    return samples


def _rates(folder: Path, alone: float) -> list[tuple[int, float]]:
    """Ask with more and more threads until the rate stands still.

    In a folder each, where there are so many: some clients ask one thing at a time in a folder.
    """
    folders = [folder, *_below(folder, max(_THREADS))][-max(_THREADS) :]
    rates = [(1, alone)]
    for threads in _THREADS:
        rates.append((threads, _rate(folders, threads)))
        if rates[-1][1] < rates[-2][1] * _FLAT:
            break
    return rates


def _rate(folders: Sequence[Path], threads: int) -> float:
    until = time.perf_counter() + _WINDOW_S
    done: list[int] = []

    def work(folder: Path) -> None:
        ask, number = _missing(folder), 0
        ask(-1)
        while time.perf_counter() < until:
            ask(number)
            number += 1
        done.append(number)

    workers = [
        threading.Thread(target=work, args=(folders[number % len(folders)],))
        for number in range(threads)
    ]
    began = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sum(done) / (time.perf_counter() - began)


@dataclass(frozen=True, kw_only=True, slots=True)
class _SpeedSample:
    latency_s: float
    mb_s: float
    cold: bool | None


def _below(folder: Path, most: int) -> list[Path]:
    """List some folders below one."""
    folders: list[Path] = []
    for root, names, _ in os.walk(folder):
        folders += [Path(root, name) for name in names]
        if len(folders) >= most:
            break
    return folders[:most]


def _largest(folder: Path) -> Path | None:
    """Find the largest file among the first few thousand below a folder."""
    best, size, looked_at = None, _BLOCK - 1, 0
    for root, _, names in os.walk(folder):
        for name in names:
            path = Path(root, name)
            with suppress(OSError):
                info = path.lstat()
                if info.st_size > size and path.is_file() and not path.is_symlink():
                    best, size = path, info.st_size
        looked_at += len(names)
        if looked_at > _MOST_ENTRIES:
            break
    return best


def _reading(path: Path) -> _SpeedSample | None:
    size = path.stat().st_size
    if size < _BLOCK:
        return None
    number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        cold = _dropped(number, size)
        os.posix_fadvise(number, 0, 0, os.POSIX_FADV_RANDOM)
        # Far from each other: what is read ahead for one is not the next.
        stride = max(_PAGE, size // _READS // _PAGE * _PAGE)
        times = []
        for offset in range(0, size - _PAGE + 1, stride):
            start = time.perf_counter()
            os.pread(number, _PAGE, offset)
            times.append(time.perf_counter() - start)
        again = _dropped(number, size)
        os.posix_fadvise(number, 0, 0, os.POSIX_FADV_NORMAL)
        rate = _sequential(number, size)
    finally:
        os.close(number)
    is_cold = None if cold is None or again is None else cold and again
    return _SpeedSample(latency_s=fmean(times), mb_s=rate, cold=is_cold)


def _sequential(number: int, size: int) -> float:
    start, done = time.perf_counter(), 0
    while done < min(size, _MOST_READ):
        done += len(os.pread(number, _BLOCK, done)) or size
    return min(done, size) / 1e6 / (time.perf_counter() - start)


def _dropped(number: int, size: int) -> bool | None:
    """Drop a file's pages from memory; tell whether they have gone, None where nobody can say."""
    os.posix_fadvise(number, 0, 0, os.POSIX_FADV_DONTNEED)
    share = resident(number, size)
    return None if share is None else share == 0.0


def resident(number: int, size: int) -> float | None:
    """Return the share of a file's pages in memory, as mincore(2) tells; None where it can't.

    Since Linux 5.2 it tells the truth only of files that the caller owns or may write.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        view = mmap.mmap(
            number, size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE
        )
    except (OSError, ValueError):
        return None
    with view:
        pages = (size + _PAGE - 1) // _PAGE
        flags = (ctypes.c_ubyte * pages)()
        start = ctypes.c_char.from_buffer(view)
        try:
            failed = libc.mincore(
                ctypes.c_void_p(ctypes.addressof(start)), ctypes.c_size_t(size), flags
            )
        finally:
            del start
        return None if failed else sum(flag & 1 for flag in flags) / pages
