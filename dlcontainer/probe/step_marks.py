"""When steps end by the queue of the device that a program computes on. Python >= 3.6.

A program hands its work over and goes on: on a GPU a step ends later than its optimizer returns. So
each step leaves a mark in the device's queue, which nobody waits for; the device is waited for
where a block of steps begins and where it ends. So a block has all the work of its steps, and none
of others. Where no device is in use the host's own times hold.
"""

import time


class StepMarks(object):
    """The marks of a block's steps; `find` gives the device in use, or None, and begins nothing."""

    def __init__(self, find):
        self._find, self._device = find, None

    def begin(self):
        """Begin a block: what was handed over before it is done now."""
        self._device, self._marks = None, []
        try:
            device = self._find()
            if device is not None:
                device.settle()
                self._marks.append(device.mark())
                device.settle()
                self._device, self._at = device, time.time()
        except Exception:
            pass  # the host's own times hold

    def step(self):
        """Mark that a step's work was handed over."""
        if self._device is not None:
            try:
                self._marks.append(self._device.mark())
            except Exception:
                self._device = None

    def are_refused(self):
        """Tell whether work is recorded now to be done later: no step, and no time to wait."""
        try:
            device = self._find() if self._device is None else self._device
            return device is not None and device.is_recording()
        except Exception:  # the program goes on, whatever its PyTorch can't tell
            return False

    def ends(self):
        """Give when each step ended, s since the epoch, and its length, s; None: by the host.

        Waits until the device is idle. A device that was lost tells nothing.
        """
        device, self._device = self._device, None
        if device is None:
            return None
        marks = self._marks
        try:
            device.settle()
            return [
                (self._at + device.between(marks[0], mark), device.between(before, mark))
                for before, mark in zip(marks, marks[1:])
            ]
        except Exception:
            return None
