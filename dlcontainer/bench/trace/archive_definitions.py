"""What the events of an OTF2 archive refer to: nodes, processes, threads, regions."""

from typing import Any


class ArchiveDefinitions:
    """What an archive's events refer to; equal ones are one."""

    def __init__(self, otf2: Any, archive: Any) -> None:
        self.otf2, self.archive = otf2, archive
        self._made = archive.definitions
        self._machine = self._made.system_tree_node("machine", class_name="machine")
        self._nodes: dict[str, Any] = {}
        self._regions: dict[str, Any] = {}
        self.bytes = self._made.attribute("bytes", "what the rank puts in", type=otf2.Type.UINT64)

    def group(self, name: str, node_name: str, moved_ns: int, bound_ns: int | None) -> Any:
        """Define a process, with what was done to its node's clock."""
        node = self._nodes.get(node_name)
        if node is None:
            node = self._made.system_tree_node(node_name, class_name="node", parent=self._machine)
            self._nodes[node_name] = node
        group = self._made.location_group(name, system_tree_parent=node)
        bound = "unknown" if bound_ns is None else str(bound_ns)
        for key, value in (("MOVED_NS", str(moved_ns)), ("BOUND_NS", bound)):
            self._made.location_group_property(
                group, f"DLCONTAINER::CLOCK_{key}", self.otf2.Type.STRING, value
            )
        return group

    def thread(self, name: str, group: Any) -> Any:
        """Define a thread of a process."""
        return self._made.location(name, type=self.otf2.LocationType.CPU_THREAD, group=group)

    def stream(self, name: str, group: Any) -> Any:
        """Define a stream of a device."""
        return self._made.location(name, type=self.otf2.LocationType.GPU, group=group)

    def region(self, name: str) -> Any:
        """Return the region of a name."""
        region = self._regions.get(name)
        if region is None:
            region = self._regions[name] = self._made.region(name)
        return region
