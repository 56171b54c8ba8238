"""Transfers by PyTorch's copy_: in the host's memory, and to and from accelerators.

Python >= 3.6. Each place has a block to copy from and one to copy to, as large as its largest row;
smaller rows take its beginning. Values differ by place and position: (i + salt) % PERIOD.
"""

import os
import time

import torch

import accelerator
import memory_nodes
import rows

WIDTH = 4
# A prime: what arrives shifted by a page, or comes from another place, has other values.
PERIOD = 65521
_SALT = 7919


class Transfers(object):
    """All transfers of one process; see probe_transfers.py."""

    framework = torch

    def __init__(self, listed, threads):
        self._allowed, self._nodes = os.sched_getaffinity(0), memory_nodes.known()
        self._blocks, self._told = {}, {}
        self._threads_before = torch.get_num_threads()
        torch.set_num_threads(threads)
        ends = [(row[end], row) for row in listed for end in ("from", "to")]
        self._salts = {
            name: number for number, name in enumerate(sorted({name for name, _ in ends}))
        }
        self._devices = sorted({_number(name) for name, _ in ends if _is_device(name)})
        self._on = accelerator.chosen(torch, "auto" if self._devices else accelerator.CPU)
        if self._devices:
            _require(self._on, self._devices)
        for name, row in sorted(ends, key=lambda end: -end[1]["bytes"]):
            self._make(name, row)

    def _make(self, name, row):
        key = _key(name, row)
        if key in self._blocks:  # the largest row comes first
            return
        count = row["bytes"] // WIDTH
        if _is_device(name):
            pair = [self._on_device(count, _number(name)) for _ in range(2)]
        else:
            self._enter(name)
            pair = [_host(count, row["memory"] == "pinned") for _ in range(2)]
        _pattern(pair[0], self._salts[name])
        pair[1].fill_(-1)
        if not _is_device(name):
            self._require_placed(name, pair)
        self._blocks[key] = pair

    def _on_device(self, count, number):
        return torch.empty(count, dtype=torch.int32, device=self._on.place(number))

    def _enter(self, name):
        """Go to a node's processors: what is touched first then lies there."""
        if len(self._nodes) < 2:
            return
        cpus = memory_nodes.processors(_number(name)) & self._allowed
        if not cpus:
            raise RuntimeError("{}: this process may use none of its processors".format(name))
        memory_nodes.bind(cpus)

    def _require_placed(self, name, pair):
        for block in pair:
            found = memory_nodes.of(block.data_ptr(), block.numel() * WIDTH)
            if found is not None and found != [_number(name)]:
                raise RuntimeError("memory for {} lies on nodes {}".format(name, found))
            self._told[name] = self._told.get(name, True) and found is not None

    def check(self, row):
        """Copy once, and hold every value that arrived against the known one."""
        source, target = self._ends(row)
        self._enter_for(row)
        target.fill_(-1)
        self._settle(row)
        _copy(source, target, row)
        self._settle(row)
        # Made where it must have arrived, so that no second transfer stands between.
        known = _pattern(torch.empty_like(target), self._salts[row["from"]])
        wrong = int((target != known).sum().item())
        if wrong:
            raise rows.WrongError(
                "{transfer}, {memory}, {from} to {to}, {bytes:,} bytes: ".format(**row)
                + "{:,} of {:,} values did not arrive right".format(wrong, target.numel())
            )
        return target.numel()

    def timed(self, row, repeats):
        """Give the seconds of each repetition, after one that is not timed."""
        source, target = self._ends(row)
        self._enter_for(row)
        clock, times = time.perf_counter, []
        for _ in range(repeats + 1):
            begin = clock()
            _copy(source, target, row)
            self._settle(row)
            times.append(clock() - begin)
        return times[1:]

    def _ends(self, row):
        count = row["bytes"] // WIDTH
        source, target = (self._blocks[_key(row[end], row)] for end in ("from", "to"))
        return source[0][:count], target[1][:count]

    def _enter_for(self, row):
        """Call from the node whose memory is read, or of a device from the host's side."""
        hosts = [row[end] for end in ("from", "to") if not _is_device(row[end])]
        if hosts:
            self._enter(hosts[0])

    def _settle(self, row):
        """Wait until the devices of a row are idle."""
        for end in ("from", "to"):
            if _is_device(row[end]):
                self._on.settle(_number(row[end]))

    def facts(self):
        """Give whether memory lies where it should, and which devices reach each other."""
        places = {name: "checked" if told else "not told" for name, told in self._told.items()}
        access = {
            "gpu {} gpu {}".format(one, other): self._on.reaches(one, other)
            for one in self._devices
            for other in self._devices
            if one != other
        }
        return {"memory_places": places, **({"peer_access": access} if access else {})}

    def close(self):
        """Give back processors, memory and the number of threads."""
        self._blocks.clear()
        if len(self._nodes) > 1:
            memory_nodes.bind(self._allowed)
        torch.set_num_threads(self._threads_before)


def _copy(source, target, row):
    # Pageable memory is copied into a pinned block first, and the call waits for that.
    target.copy_(source, non_blocking=row["memory"] == "pinned")


def _host(count, is_pinned):
    if not is_pinned:
        return torch.empty(count, dtype=torch.int32)
    block = torch.empty(count, dtype=torch.int32, pin_memory=True)
    if not block.is_pinned():
        raise RuntimeError("memory that was asked for as pinned is pageable")
    return block


def _pattern(block, salt):
    torch.arange(block.numel(), out=block)
    return block.add_(_SALT * salt).remainder_(PERIOD)


def _require(seen, devices):
    if devices[-1] >= seen.count():
        raise RuntimeError(
            "gpu {} is asked for, and PyTorch sees {} GPUs here".format(devices[-1], seen.count())
        )


def _key(name, row):
    return name, "device" if _is_device(name) else row["memory"]


def _is_device(name):
    return name.startswith("gpu ")


def _number(name):
    return int(name.rpartition(" ")[2])
