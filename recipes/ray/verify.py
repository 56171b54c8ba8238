"""Prove that this image's Ray works: two workers compute in processes of their own, offline.

Prints one JSON object; exits 1 when a result is wrong, or a process of Ray is left. Ray's files lie
in a private folder, which goes at the end.
"""

import ctypes
import json
import os
import shutil
import sys
import tempfile
import time

TASKS = 20
# A socket's name has at most 107 bytes, and Ray adds about 65 to its folder.
LONGEST = 35
ADOPT = 36  # PR_SET_CHILD_SUBREAPER, prctl(2)


def folder():
    """Make a folder of our own whose name is short enough for Ray's sockets."""
    usual = tempfile.gettempdir()
    return tempfile.mkdtemp(prefix="ray-", dir=usual if len(usual) < LONGEST else "/tmp")


def children():
    """Number the processes whose parent this one is; those that lost theirs come to it."""
    with open("/proc/self/task/{}/children".format(os.getpid())) as file:
        return [int(word) for word in file.read().split()]


def left(seconds=60):
    """Wait until all processes of Ray have ended; return how many did not, and kill these."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for number in children():
            try:
                os.waitpid(number, os.WNOHANG)
            except ChildProcessError:
                pass
        if not children():
            return 0
        time.sleep(0.1)
    count = len(children())
    for number in children():
        os.kill(number, 9)
    return count


def squares(place):
    """Compute squares in two actors and two tasks, each with a CPU of its own."""
    import ray

    ray.init(
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        object_store_memory=80 * 1000 * 1000,
        _temp_dir=os.path.join(place, "ray"),
    )

    @ray.remote(num_cpus=1)
    class Worker:
        def square(self, number):
            return os.getpid(), number * number

    @ray.remote(num_cpus=1)
    def total(numbers):
        return sum(numbers)

    workers = [Worker.remote() for _ in range(2)]
    told = ray.get([workers[i % 2].square.remote(i) for i in range(TASKS)])
    # A CPU each: they go before tasks get any.
    del workers
    halves = [total.remote(ray.put([told[i][1] for i in range(k, TASKS, 2)])) for k in range(2)]
    sums = ray.get(halves)
    ray.shutdown()
    expected = [i * i for i in range(TASKS)]
    processes = {process for process, _ in told}
    good = [square for _, square in told] == expected and sum(sums) == sum(expected)
    return good and len(processes) == 2 and os.getpid() not in processes


def main():
    ctypes.CDLL(None).prctl(ADOPT, 1, 0, 0, 0)
    place = folder()
    os.environ.update(
        HOME=place,
        RAY_USAGE_STATS_ENABLED="0",
        RAY_AUTH_MODE="token",
        RAY_AUTH_TOKEN=os.urandom(32).hex(),
    )
    os.environ.pop("RAY_ADDRESS", None)
    try:
        good = squares(place)
    finally:
        stayed = left()
        shutil.rmtree(place, ignore_errors=True)
    what = "{} tasks on 2 workers of Ray".format(TASKS)
    if stayed:
        what += "; {} processes of Ray were left".format(stayed)
    print(json.dumps({"ok": good and not stayed, "what": what}, sort_keys=True))
    return 0 if good and not stayed else 1


if __name__ == "__main__":
    sys.exit(main())
