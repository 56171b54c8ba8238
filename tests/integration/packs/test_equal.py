"""With a module pack programs see just what they see without one."""

import pytest

from tests.integration.packs import environments
from tests.integration.packs.environments import Environment

EVERY = ["alpha", "alpha.one", "alpha.sub", "alpha.sub.two"]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    found = environments.make(tmp_path_factory.mktemp("equal") / "environment")
    assert found.loader("alpha.sub.two") == "SourceFileLoader"
    report = found.pack("alpha", "alpha.__main__")
    assert (report["left"], report["failed"]) == ([], {})
    return found


def test_modules_come_from_the_pack_by_a_loader_with_a_name_of_its_own(world: Environment) -> None:
    assert [world.loader(name) for name in EVERY] == ["PackLoader"] * 4
    # of the standard library, below another prefix
    assert world.loader("json.decoder") == "PackLoader"
    # what is listed and not packed has the usual finder
    assert world.loader("alpha.later") == "SourceFileLoader"


def test_the_places_of_modules(world: Environment) -> None:
    program = (
        "import sys, alpha.later, alpha.sub.two\n"
        "for name in ('alpha', 'alpha.one', 'alpha.sub', 'alpha.sub.two', 'alpha.later', 'json'):\n"
        "    it = sys.modules[name]; spec = it.__spec__\n"
        "    print(it.__file__, it.__cached__, it.__package__, getattr(it, '__path__', None))\n"
        "    print(spec.origin, spec.cached, spec.parent, spec.submodule_search_locations)\n"
        "    print(spec.loader.get_filename(name), spec.loader.is_package(name))\n"
        "print(sys.path)\n"
    )
    assert "alpha/sub/__pycache__/two.cpython-" in world.same(program)


def test_sources(world: Environment) -> None:
    program = (
        "import inspect, alpha.one as one, linecache\n"
        "print(inspect.getsource(one.Thing), inspect.getsourcefile(one), inspect.getsource(one))\n"
        "print(one.__loader__.get_source('alpha.one'), linecache.getline(one.__file__, 2))\n"
        "print(one.__loader__.get_data(one.__file__), one.fail.__code__.co_filename)\n"
    )
    assert "value = 1" in world.same(program)


def test_tracebacks(world: Environment) -> None:
    assert world.same("import alpha; alpha.one.fail()") == ""
    done = world.run("-c", "import alpha; alpha.one.fail()", check=False)
    assert f'File "{world.packages}/alpha/one.py", line 7, in fail' in done.stderr
    assert "raise ValueError('here')" in done.stderr


def test_a_module_that_is_not_there(world: Environment) -> None:
    program = (
        "import alpha, importlib.util\n"
        "for name in ('alpha.none', 'none', 'alpha.one.more', 'alpha.data', 'alpha.sub.data'):\n"
        "    try:\n        importlib.import_module(name)\n"
        "    except ImportError as error:\n        print(type(error), error, error.name)\n"
        "print(importlib.util.find_spec('alpha.none'))\n"
        "from alpha import none\n"
    )
    assert "No module named 'alpha.one.more'" in world.same(program)


def test_resources(world: Environment) -> None:
    program = (
        "import importlib.resources as resources, pkgutil\n"
        "folder = resources.files('alpha')\n"
        "print(folder, sorted(x.name for x in folder.iterdir() if x.name != '__pycache__'))\n"
        "print((folder / 'data.txt').read_text(), pkgutil.get_data('alpha', 'data.txt'))\n"
        "with resources.as_file(folder / 'data.txt') as path: print(path)\n"
    )
    assert "some text" in world.same(program)


def test_metadata(world: Environment) -> None:
    program = (
        "import importlib.metadata as m\n"
        "print(m.version('alpha'), m.files('alpha'), m.packages_distributions().get('alpha'))\n"
        "print(sorted(d.name for d in m.distributions()))\n"
    )
    assert world.same(program).startswith("1.5 ")


def test_pkgutil(world: Environment) -> None:
    program = (
        "import pkgutil, alpha, sys\n"
        "print(sorted((m.name, m.ispkg, m.module_finder.path) for m in pkgutil.walk_packages("
        "alpha.__path__, 'alpha.')))\n"
        "print(sorted(m.name for m in pkgutil.iter_modules() if m.name != '_dlcontainer_pack'))\n"
        "print(pkgutil.resolve_name('alpha.one:Thing'))\n"
    )
    assert "'alpha.later', False" in world.same(program)


def test_reload(world: Environment) -> None:
    program = (
        "import importlib, alpha.one\n"
        "before = alpha.one.Thing; alpha.one.extra = 5\n"
        "again = importlib.reload(alpha.one)\n"
        "print(again is alpha.one, again.Thing is before, again.extra)\n"
        "importlib.invalidate_caches(); importlib.import_module('alpha.later')\n"
    )
    assert world.same(program) == "True False 5\n"


def test_pickles(world: Environment) -> None:
    program = (
        "import pickle, copy, alpha.one\n"
        "thing = pickle.loads(pickle.dumps(alpha.one.Thing()))\n"
        "print(type(thing) is alpha.one.Thing, pickle.dumps(alpha.one.fail))\n"
        "spec = pickle.loads(pickle.dumps(alpha.one.__spec__))\n"
        "print(spec == alpha.one.__spec__, spec.loader.get_code('alpha.one').co_filename)\n"
    )
    assert "one.py" in world.same(program)


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_children(world: Environment, method: str) -> None:
    script = world.prefix / "work.py"
    script.write_text(
        "import multiprocessing as m, sys, alpha.sub.two as two\n"
        "def loader(x): return two.double(x), type(two.__spec__.loader).__name__\n"
        "if __name__ == '__main__':\n"
        f"    with m.get_context({method!r}).Pool(2) as pool: print(pool.map(loader, range(3)))\n"
    )
    assert world.run(script).stdout == str([(2 * x, "PackLoader") for x in range(3)]) + "\n"


@pytest.mark.parametrize("flags", [("-B",), ("-I",), ("-s",), ("-E",), ("-B", "-I", "-s")])
def test_flags_that_keep_the_pack(world: Environment, flags: tuple[str, ...]) -> None:
    assert world.same("import alpha, sys; print(alpha.__cached__, sys.flags)", *flags)
    assert world.loader("alpha.one", *flags) == "PackLoader"


@pytest.mark.parametrize("flag", ["-O", "-OO"])
def test_other_byte_code_is_not_taken_from_the_pack(world: Environment, flag: str) -> None:
    program = "import alpha.one as one\nprint(one.DEBUG, one.__doc__, one.__cached__)"
    told = world.same(program, "-B", flag)
    assert told.startswith("False A text." if flag == "-O" else "False None")
    assert world.loader("alpha", "-B", flag) == "SourceFileLoader"


def test_without_site_there_is_no_pack(world: Environment) -> None:
    program = (
        f"import sys; sys.path.append({str(world.packages)!r}); import alpha; print(alpha.one)"
    )
    assert world.same(program, "-S")
    assert world.run("-S", "-c", "import sys; print(sys.path_hooks)").stdout.count("Pack") == 0


def test_a_module_runs_as_a_program(world: Environment) -> None:
    packed = world.run("-m", "alpha", "x").stdout
    with world.without():
        assert world.run("-m", "alpha", "x").stdout == packed
    assert "alpha/__main__.py ['x']" in packed


def test_lines_are_counted(world: Environment) -> None:
    script = world.prefix / "work.py"
    script.write_text("import alpha\nalpha.sub.two.double(2)\n")
    counts = world.prefix / "counts"
    words = ("-m", "trace", "--count", "--missing", "-C", counts, script)
    world.run(*words)
    lines = (counts / "alpha.sub.two.cover").read_text().splitlines()
    assert "    1:     return 2 * x" in lines


def test_names_that_are_not_there_ask_nothing_of_the_file_system(world: Environment) -> None:
    program = (
        "import sys, alpha.sub\n"
        "asked = []\n"
        "sys.addaudithook(lambda event, given: asked.append((event, str(given[:1])))"
        " if event in ('open', 'os.listdir', 'os.scandir') else None)\n"
        "for name in ('alpha.none', 'alpha.sub.none', 'json.none'):\n"
        "    try:\n        __import__(name)\n    except ImportError: pass\n"
        "import alpha.sub.two, alpha.one\n"
        "print(asked)\n"
    )
    assert world.run("-c", program).stdout == "[]\n"
