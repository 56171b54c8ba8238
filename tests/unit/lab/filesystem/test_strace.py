from dlcontainer.lab.filesystem import strace
from tests.values import RECORDED

STRACE = RECORDED / "strace"


def recorded(name: str) -> list[strace.Call]:
    return list(strace.calls((STRACE / name).read_text(encoding="utf-8").splitlines()))


def test_an_import_as_strace_recorded_it() -> None:
    found = strace.total(recorded("import.txt"), ["/tree"])
    # Counted by hand: grep and wc on the recorded lines.
    assert found.operations == {
        "stat": 29,
        "failed_stat": 3,
        "open": 6,
        "failed_open": 2,
        "readdir": 6,
        "read": 4,
    }
    assert found.bytes == 6 + 102
    assert set(found.files) == {
        "/tree",
        "/tree/pkg",
        "/tree/pkg/__init__.py",
        "/tree/pkg/two.py",
        '/tree/pkg/"odd" name\n',
    }


def test_the_threads_of_a_process_are_told_apart() -> None:
    listed = [call.process for call in recorded("import.txt") if call.kind == "readdir"]
    assert listed == [1001, 1001, 1001, 1001, 1002, 1002]


def test_what_lies_elsewhere_is_counted_without_a_folder_only() -> None:
    calls = recorded("import.txt")
    everywhere, below = strace.total(calls), strace.total(calls, ["/tree"])
    assert everywhere.operations["open"] > below.operations["open"]
    assert any("libc.so" in path for path in everywhere.files)


def test_interrupted_and_cut_lines() -> None:
    calls = recorded("interrupted.txt")
    assert [(call.process, call.kind, call.path, call.size) for call in calls] == [
        (1001, "open", "/tree/a.py", 0),
        (1002, "stat", "/tree/pkg/b.py", 0),
        (1003, "read", "/tree/c.bin", 4096),
        (1001, "mapped", "/tree/lib, old/a.so", 8192),
        (1001, "open", '/tree/ä"b.py', 0),
        (1001, "read", "/treetop/x", 10),
        (1001, "readlink", "/tree/link", 0),
    ]
    assert calls[1].failed
    found = strace.total(calls, ["/tree/"])
    assert found.bytes == 4096, "/treetop is no folder below /tree"


def test_a_trace_of_nothing() -> None:
    assert strace.total(strace.calls([]), ["/tree"]).operations == {}
    assert list(strace.calls(["", "strace: Process 7 attached", "garbage ( = ", "1 = 2"])) == []
