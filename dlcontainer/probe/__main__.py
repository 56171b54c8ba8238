"""Run a probe: `python [-S] DIRECTORY NAME …`; the last line printed is one JSON object.

A probe is a file of this folder, probe_NAME.py, with `run(arguments, stamps)`. Only `import` begins
here: nothing but the module that it times may be loaded before its last stamp.

Standard library and the framework only, Python >= 3.6. What stands above the stamps is kept
small: it is part of what is measured. With -S the site module is run, and timed, by this file.
"""

import sys
import time

_time_ns = getattr(time, "time_ns", None) or (lambda: int(time.time() * 1e9))  # 3.6 has no time_ns
FIRST_LINE_NS = _time_ns()


def _finish_site():
    """Do what Python does at its start unless told -S; say when it was done."""
    if not sys.flags.no_site:
        return None
    import site

    site.main()
    return _time_ns()


def _met(here):
    """Wait for the other ranks where a storm was asked for; say when all were there."""
    import os

    if os.environ.get("DLC_RANKS_START") != "storm":
        return None
    sys.path.insert(0, here)
    import barrier
    import ranks

    sys.path.remove(here)
    # The names of our files are the framework's to use.
    del sys.modules["ranks"], sys.modules["barrier"]
    met = barrier.Meeting(ranks.place())
    met.wait()
    met.close()
    return _time_ns()


def main():
    """Run the probe that the first argument names."""
    site_ns = _finish_site()
    here = sys.path[0]
    # A file of ours must never be taken for a module of the framework's.
    sys.path[:] = [entry for entry in sys.path if entry != here]
    name, arguments = (sys.argv[1] if len(sys.argv) > 1 else ""), sys.argv[2:]
    if name == "import":
        module = arguments[1] if arguments[:1] == ["--module"] and len(arguments) == 2 else None
        if module is None:
            sys.exit("usage: probe import --module NAME")
        # Nothing but the module itself is imported before the last stamp.
        error = met_ns = None
        cpu = time.process_time()
        try:
            met_ns = _met(here)
            cpu = time.process_time()
            loaded = __import__(module)
        except BaseException as problem:  # an import can end in any way, SystemExit included
            error, loaded = "{}: {}".format(type(problem).__name__, problem), None
        done_ns, cpu = _time_ns(), time.process_time() - cpu
        stamps = {"python": FIRST_LINE_NS, "site": site_ns, "barrier": met_ns, "import": done_ns}
        sys.path.insert(0, here)
        import probe_import

        probe_import.report(module, loaded, error, stamps, cpu)
    else:
        sys.path.insert(0, here)
        _probe(name, here).run(arguments, {"python": FIRST_LINE_NS, "site": site_ns})


def _probe(name, here):
    """Load the file of a probe; ends with the names that there are for one that is not there."""
    import os

    files = sorted(os.listdir(here))
    names = [file[6:-3] for file in files if file.startswith("probe_") and file.endswith(".py")]
    if name not in names:
        sys.exit("usage: probe NAME [OPTION...]; NAME is one of: {}".format(", ".join(names)))
    return __import__("probe_" + name)


if __name__ == "__main__":
    main()
