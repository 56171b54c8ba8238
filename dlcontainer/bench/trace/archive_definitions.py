"""What the events of an OTF2 archive refer to: nodes, processes, threads, regions; and clocks.

Times are written by each node's own clock. How far that was moved is a clock offset of each of its
locations, which readers of OTF2 add; of a node whose clock is not known there is none.
"""

import math
from typing import Any


class ArchiveDefinitions:
    """What an archive's events refer to; equal ones are one."""

    def __init__(self, otf2: Any, low_level: Any, archive: Any) -> None:
        self.otf2, self.archive = otf2, archive
        self._low_level, self.made = low_level, archive.definitions
        self._machine = self.made.system_tree_node("machine", class_name="machine")
        self._nodes: dict[str, Any] = {}
        self._regions: dict[str, Any] = {}
        # By group: by how much its node's clock is moved, and within what it is right, ns.
        self._clocks: dict[Any, tuple[int, int | None]] = {}
        self._written: list[Any] = []
        self.bytes = self.made.attribute("bytes", "what the rank puts in", type=otf2.Type.UINT64)

    def group(self, name: str, node_name: str, moved_ns: int, bound_ns: int | None) -> Any:
        """Define a process, with what was done to its node's clock."""
        node = self._nodes.get(node_name)
        if node is None:
            node = self.made.system_tree_node(node_name, class_name="node", parent=self._machine)
            self._nodes[node_name] = node
        group = self.made.location_group(name, system_tree_parent=node)
        self._clocks[group] = (moved_ns, bound_ns)
        bound = "unknown" if bound_ns is None else str(bound_ns)
        for key, value in (("MOVED_NS", str(moved_ns)), ("BOUND_NS", bound)):
            self.made.location_group_property(
                group, f"DLCONTAINER::CLOCK_{key}", self.otf2.Type.STRING, value
            )
        return group

    def thread(self, name: str, group: Any) -> Any:
        """Define a thread of a process."""
        return self.made.location(name, type=self.otf2.LocationType.CPU_THREAD, group=group)

    def stream(self, name: str, group: Any) -> Any:
        """Define a stream of a device."""
        return self.made.location(name, type=self.otf2.LocationType.GPU, group=group)

    def figures(self, name: str, group: Any) -> Any:
        """Define what records metrics of a process."""
        return self.made.location(name, type=self.otf2.LocationType.METRIC, group=group)

    def region(self, name: str, description: str = "") -> Any:
        """Return the region of a name."""
        region = self._regions.get(name)
        if region is None:
            region = self._regions[name] = self.made.region(name, description=description)
        return region

    def events(self, location: Any) -> Any:
        """Return what writes the events of a location; times are those of its node's own clock.

        All events of one process are written before those of another one begin.
        """
        self._written.append(location)
        self.archive.moved_ns = self._clocks[location.group][0]
        return self.archive.event_writer_from_location(location)

    def write_clocks(self) -> None:
        """Write how far each clock was moved, behind all events."""
        first, last = self.archive._first_timestamp, self.archive._last_timestamp
        for location in self._written:
            moved, bound = self._clocks[location.group]
            if first is None or not (moved or bound):
                continue
            # No event is off by more, and so no deviation is greater.
            most = math.inf if bound is None else float(bound)
            writer = self._low_level.Archive_GetDefWriter(self.archive.handle, location._ref)
            # Readers interpolate between two.
            for at in (first, max(last, first + 1)):
                self._low_level.DefWriter_WriteClockOffset(writer, at - moved, moved, most)
