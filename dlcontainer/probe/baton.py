"""A resident process: trains a turn of steps whenever it is handed the baton. Python >= 3.6.

Processes of both arms are alive at once, and the session lets one of them run at a time. It writes
an order, one line, into the named pipe NAME.to; the answer is one line of JSON in NAME.from:

    make       a new trainer with new buffers, and its warm-up steps
    turn K     a step that is dropped, then K steps that are timed
    stop       what is measured once, after the last turn
    end        no answer: the report follows as that of any probe

Between two orders a process waits in a blocking read, which takes no processor time of its own;
threads of the framework that spin after a step do. So each answer says how much processor time
went by since the answer before it.
"""

import json
import os
import resource
import sys
import time

_DIGITS = 9


class Baton(object):
    """The process's ends of its two pipes."""

    def __init__(self, folder, name):
        # Each open waits until the session has the other end, which it had first.
        self._orders = open(os.path.join(folder, name + ".to"))
        self._answers = open(os.path.join(folder, name + ".from"), "w")

    def order(self):
        """Wait for the next order; the session's end is the order to end."""
        words = self._orders.readline().split()
        return words or ["end"]

    def answer(self, body):
        """Answer an order."""
        self._answers.write(json.dumps(body) + "\n")
        self._answers.flush()

    def close(self):
        """Close both pipes."""
        self._orders.close()
        self._answers.close()


def pin(cpus):
    """Bind every thread of this process, those that an import has started too."""
    os.sched_setaffinity(0, cpus)
    for thread in os.listdir("/proc/self/task"):
        try:
            os.sched_setaffinity(int(thread), cpus)
        except OSError:  # a thread that has ended meanwhile
            pass


def leave():
    """End this process at once: its report is out, and to clear a framework away takes a while."""
    sys.stdout.flush()
    os._exit(0)


class Resident(object):
    """Answers orders; `make` gives a new trainer, `warmup` is the number of its first steps.

    `begin` is called once, when this process is bound and has the processors for itself; `stop`
    once more so, after its last turn.
    """

    def __init__(self, make, warmup, cpus, begin, stop):
        self._make, self._warmup, self._cpus = make, warmup, cpus
        self._begin, self._stop = begin, stop
        self.trainer, self._number, self._cpu = None, 0, 0.0
        self.losses, self.steps, self.waited, self.idle = [], [], [], 0.0
        self.wall = self.cpu = 0.0

    def serve(self, baton):
        """Say that this process is ready, answer until the order to end; tell whether it had a turn."""
        self._cpu = time.process_time()
        baton.answer({"ready": os.getpid()})
        while True:
            words = baton.order()
            idle = time.process_time() - self._cpu
            if words[0] == "end":
                break
            # The first making follows the start, which is no wait between two turns.
            waited = idle if self.trainer is not None else 0.0
            self.idle = max(self.idle, waited)
            body = self._answer(words)
            body["idle_cpu_s"] = round(waited, _DIGITS)
            self._cpu = time.process_time()
            baton.answer(body)
        if self.steps and not self.losses:
            self.losses = self.trainer.losses()
        return bool(self.steps)

    def _answer(self, words):
        if words[0] == "turn":
            return self._turn(int(words[1]))
        if words[0] == "stop":
            self._stop()
            return {}
        return self._made()

    def _made(self):
        begin = time.time()
        if self.trainer is None:
            pin(self._cpus)
            self._begin()
        elif not self.losses:
            self.losses = self.trainer.losses()
        # The old one is dropped after the new one was made: it lies elsewhere in memory.
        self.trainer = self._make()
        for number in range(self._warmup):
            self.trainer.step(number)
        self.trainer.settle()
        self._number = self._warmup
        return {"made_s": round(time.time() - begin, _DIGITS)}

    def _turn(self, count):
        trainer, clock, start = self.trainer, self.trainer.clock(), time.perf_counter()
        # Caches are the others' when a turn begins: the first step fills them, in every arm.
        self._step()
        trainer.settle()
        first = time.perf_counter() - start
        before, cpu = resource.getrusage(resource.RUSAGE_SELF), time.process_time()
        clock.mark()
        for _ in range(count):
            self._step()
            clock.mark()
        trainer.settle()
        cpu, after = time.process_time() - cpu, resource.getrusage(resource.RUSAGE_SELF)
        steps = [round(step, _DIGITS) for step in clock.steps_s()]
        self.steps += steps
        # Of the timed steps alone; a trainer on noise waits for none.
        self.waited += getattr(trainer, "waited_s", [])[-count:]
        self.wall, self.cpu = self.wall + sum(steps), self.cpu + cpu
        return {
            "start_s": round(start, _DIGITS),
            "first_s": round(first, _DIGITS),
            "wall_s": round(sum(steps), _DIGITS),
            "steps_s": steps,
            "cpu_s": round(cpu, _DIGITS),
            "voluntary": after.ru_nvcsw - before.ru_nvcsw,
            "involuntary": after.ru_nivcsw - before.ru_nivcsw,
            "faults": after.ru_minflt - before.ru_minflt,
        }

    def _step(self):
        self.trainer.step(self._number)
        self._number += 1
