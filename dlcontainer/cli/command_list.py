"""The commands as their group's page lists them: place, name, part of the page, first sentence.

Pages and Tab are made of these lines: the module of a command is read when the command is meant.
The first sentence is that of the command's own page; a test holds the two together.
"""

from dlcontainer.cli.app import at

_LOOK, _MAKE, _SHIP, _MEASURE = "Look", "Make", "Check and publish", "Measure"

# Groups end the list: on the page each part begins with its single commands.
TOP = (
    at(
        "doctor:doctor",
        "doctor",
        "Check whether this host can build and run images; show how to fix each problem.",
        panel=_LOOK,
    ),
    at(
        "plan:plan",
        "plan",
        "Show what a build would make: base, steps, digest; with -v the origin of each value.",
        panel=_LOOK,
    ),
    at(
        "render:render",
        "render",
        "Render the definition file, the Dockerfile, the native script or the site's job script.",
        panel=_MAKE,
    ),
    at(
        "lock:lock",
        "lock",
        "Resolve a plan's packages and write them to a lock, with versions and checksums.",
        panel=_MAKE,
    ),
    at(
        "fetch:fetch",
        "fetch",
        "Download packages, wheels and the lock into a folder for `build --offline`.",
        panel=_MAKE,
    ),
    at("build:build", "build", "Build an image for a site.", panel=_MAKE),
    at(
        "adopt:adopt",
        "adopt",
        "Adopt an image that was built elsewhere: add a record and a probe, and validate it.",
        panel=_MAKE,
    ),
    at(
        "extend:extend",
        "extend",
        "Add your own Python packages to an image that is there; nothing of it is replaced.",
        panel=_MAKE,
    ),
    at(
        "validate:validate",
        "validate",
        "Check that an image matches its record, is isolated from the host, and works.",
        panel=_SHIP,
    ),
    at(
        "inspect:inspect",
        "inspect",
        "Show what is in an image and where it comes from.",
        panel=_SHIP,
    ),
    at(
        "scan:scan",
        "scan",
        "Look for known vulnerabilities in an image's bill, by OSV records on disk.",
        panel=_SHIP,
    ),
    at(
        "diff:diff",
        "diff",
        "Compare two images: packages, sizes, environment, and how they were built.",
        panel=_SHIP,
    ),
    at(
        "signing.push:push",
        "push",
        "Push an image with the evidence beside it, and print its digest.",
        panel=_SHIP,
    ),
    at(
        "signing.pull:pull",
        "pull",
        "Pull an image with its record and evidence; keep nothing that fails verification.",
        panel=_SHIP,
    ),
    at("publish:publish", "publish", "Check an image and publish it as a module.", panel=_SHIP),
    at(
        "prove:prove",
        "prove",
        "Check a job proof: devices, ranks, network, bandwidth; exit 1 if one failed or "
        "is missing.",
        panel=_SHIP,
    ),
    at(
        "report:report",
        "report",
        "Report measured sessions; a verdict is an error only with --fail-on.",
        panel=_MEASURE,
    ),
    at(
        "setup:app",
        "setup",
        "Set up what this machine needs: a container engine of your own, without root.",
        panel=_LOOK,
    ),
    at("site:app", "site", "Site configs: the machines that images run on.", panel=_LOOK),
    at("recipe:app", "recipe", "Recipes: the software in an image.", panel=_LOOK),
    at(
        "base:app",
        "base",
        "Bases: pin a registry image by its digest, or build a root tree as a file.",
        panel=_MAKE,
    ),
    at(
        "cache:app",
        "cache",
        "The cache: steps (also in the engines' stores), bases, locked packages, native twins.",
        panel=_MAKE,
    ),
    at(
        "modules.group:app",
        "modules",
        "The published tree: list, audit, roll back, promote and clean up modules.",
        panel=_SHIP,
    ),
    at(
        "signing.group:app",
        "evidence",
        "Evidence about an image: sign it, attest files about it, verify both.",
        panel=_SHIP,
    ),
    at(
        "bench.sessions:app",
        "bench",
        "Measure what an image costs: native against container, and many ranks.",
        panel=_MEASURE,
    ),
    at(
        "lab.group:app",
        "lab",
        "Predict an image's load on a file system; emulate slow file systems and networks.",
        panel=_MEASURE,
    ),
    at(
        "export:app",
        "export",
        "Export files: a ReFrame test, a Jupyter kernel, engine limits, a site's thread count.",
        panel=_MEASURE,
    ),
)
RECIPE = (
    at(
        "recipe_new:new",
        "new",
        "Make a recipe from your own file of packages or of an image, for one site or several.",
    ),
    at(
        "recipe_outdated:outdated",
        "outdated",
        "Show newer releases beside each Python pin of a recipe; with --write take them.",
    ),
)
SETUP = (
    at(
        "setup_engine:engine",
        "engine",
        "Set up Apptainer and the programs that it needs in a folder of your own, without root.",
    ),
)
# Behind the probes'.
BENCH = (
    at(
        "bench.scale:scale",
        "import-matrix",
        "Measure how long many ranks take to import, for each cell of a matrix, in rounds.",
    ),
    at(
        "bench.job:job",
        "job",
        "Measure your own command as native and container jobs, from submission to the last exit.",
    ),
    at(
        "bench.scaling:scaling",
        "scaling",
        "Measure an image at several numbers of ranks: native against container.",
    ),
    at(
        "bench.suite:suite",
        "suite",
        "Measure an image with every probe that fits, one after another, and write one report.",
    ),
    at(
        "bench.forecast:forecast",
        "forecast",
        "Forecast how many GPUs, which parallel strategy and what limits; from a study or facts.",
    ),
    at(
        "bench.trace:trace",
        "trace",
        "Trace your own command, PyTorch or MPI: what costs its time, which rank is waited for.",
    ),
    at(
        "bench.nodes:nodes",
        "nodes",
        "List the nodes whose step times are unusual for their kind; exit with 1 if there are any.",
    ),
)
EXPORT = (
    at(
        "export_reframe:reframe",
        "reframe",
        "Write a ReFrame test that runs the benchmark of an image and reads its figures.",
    ),
    at(
        "export_jupyter:jupyter",
        "jupyter",
        "Write a kernelspec, so that Jupyter notebooks run in a published module.",
    ),
    at(
        "export_ecl:ecl",
        "ecl",
        "Write Apptainer's execution control list and container limits for a published tree.",
    ),
    at(
        "export_threads:threads",
        "threads",
        "Write a site file with the number of threads that was fastest in the image.",
    ),
)
EVIDENCE = (
    at(
        "signing.sign:sign",
        "sign",
        "Sign an image; with a PEM key, also its record and bill of materials.",
    ),
    at(
        "signing.attest:attest",
        "attest",
        "Sign files as evidence about an image, and put them beside it.",
    ),
    at(
        "signing.verify:verify",
        "verify",
        "Verify an image's signature and evidence, with the keys given or the site's.",
    ),
)
LAB = (
    at(
        "lab.slowfs:slowfs",
        "slowfs",
        "Mount a folder read-only as a slow file system until Ctrl-C, and count the operations.",
    ),
    at(
        "lab.slownet:slownet",
        "slownet",
        "Run a command on virtual hosts that a slow network joins; needs no root.",
    ),
    at(
        "lab.count:count",
        "count",
        "Count a command's file-system operations, per rank and per node; not for timing.",
    ),
    at(
        "lab.count:probe_fs",
        "probe-fs",
        "Probe a file system from this node: latency, metadata rate, reads; a few seconds.",
    ),
    at(
        "lab.storm:storm",
        "storm",
        "Predict the time until all ranks have imported: from a tree, an image, or staged files.",
    ),
)
