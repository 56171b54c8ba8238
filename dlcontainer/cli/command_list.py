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
        "Try what building and running needs here; say why, and what to type to fix it.",
        panel=_LOOK,
    ),
    at(
        "plan:plan",
        "plan",
        "Show what a build would make: base, steps, digest; with -v where each value comes from.",
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
        "Write down exactly which packages a plan comes to, with checksums.",
        panel=_MAKE,
    ),
    at(
        "fetch:fetch",
        "fetch",
        "Collect packages, wheels and the lock in a folder that `build --offline` builds from.",
        panel=_MAKE,
    ),
    at("build:build", "build", "Build an image for a site.", panel=_MAKE),
    at(
        "adopt:adopt",
        "adopt",
        "Take an image that was built elsewhere, with a record of what its files tell.",
        panel=_MAKE,
    ),
    at(
        "validate:validate",
        "validate",
        "Check that an image is what its record says, keeps the host out, and works.",
        panel=_SHIP,
    ),
    at(
        "inspect:inspect",
        "inspect",
        "Show what is in an image and where it comes from.",
        panel=_SHIP,
    ),
    at(
        "diff:diff",
        "diff",
        "Show what differs between two images: packages, sizes, environment, how they were made.",
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
        "Pull an image with its record and evidence; nothing is kept that does not hold.",
        panel=_SHIP,
    ),
    at("publish:publish", "publish", "Check an image and publish it as a module.", panel=_SHIP),
    at(
        "prove:prove",
        "prove",
        "Judge a job's proof: devices, ranks, network, bandwidth; 1 where one failed or "
        "is missing.",
        panel=_SHIP,
    ),
    at(
        "report:report",
        "report",
        "Report measured sessions; a verdict alone is never an error.",
        panel=_MEASURE,
    ),
    at("site:app", "site", "Site configs: where images run.", panel=_LOOK),
    at("recipe:app", "recipe", "Recipes: what is in an image.", panel=_LOOK),
    at(
        "base:app",
        "base",
        "The base: pin an image of a registry by its digest, or make a root tree as a file.",
        panel=_MAKE,
    ),
    at(
        "cache:app",
        "cache",
        "The cache: kept steps, in the engines' stores too, bases, locked packages, native twins.",
        panel=_MAKE,
    ),
    at(
        "modules.group:app",
        "modules",
        "The published tree: what is live, what was, going back, making room.",
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
        "Foresee what an image does to a file system; stand-ins for it and for a network.",
        panel=_MEASURE,
    ),
    at(
        "export:app",
        "export",
        "Write files: a ReFrame test, a Jupyter kernel, engine limits, a site's threads.",
        panel=_MEASURE,
    ),
)
# Behind the probes'.
BENCH = (
    at(
        "bench.scale:scale",
        "import-matrix",
        "Measure how long many ranks take to import, cell by cell of a matrix, in rounds.",
    ),
    at(
        "bench.job:job",
        "job",
        "Measure a command of yours as a job, native and container, from submission to last exit.",
    ),
    at(
        "bench.suite:suite",
        "suite",
        "Measure an image with every probe that fits, one after the other, and report "
        "them together.",
    ),
    at(
        "bench.nodes:nodes",
        "nodes",
        "Name the nodes outside of what is usual of their kind; exit with 1 where there are any.",
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
        "Write a kernelspec: Jupyter's notebooks then run in a published module.",
    ),
    at(
        "export_ecl:ecl",
        "ecl",
        "Write Apptainer's execution control list and container limits for a published tree.",
    ),
    at(
        "export_threads:threads",
        "threads",
        "Write a site file with the number of threads that took the least time in the image.",
    ),
)
EVIDENCE = (
    at(
        "signing.sign:sign",
        "sign",
        "Sign an image, and with a PEM key its record and bill of materials too.",
    ),
    at(
        "signing.attest:attest",
        "attest",
        "Sign files as evidence about an image, and put them beside it.",
    ),
    at(
        "signing.verify:verify",
        "verify",
        "Verify an image's signature and its evidence, by keys that are given or the site's.",
    ),
)
LAB = (
    at(
        "lab.slowfs:slowfs",
        "slowfs",
        "Show a folder as a slow file system would, read-only, until Ctrl-C; count what "
        "reaches it.",
    ),
    at(
        "lab.slownet:slownet",
        "slownet",
        "Run a command on hosts of this machine that a slow network joins; no root is needed.",
    ),
    at(
        "lab.count:count",
        "count",
        "Count what a command asks of the file system, per rank and per node; not for timing.",
    ),
    at(
        "lab.count:probe_fs",
        "probe-fs",
        "Probe a file system from this node: latency, metadata rate, reads; a few seconds.",
    ),
    at(
        "lab.storm:storm",
        "storm",
        "Predict the time until the last rank has imported: from a tree, an image, or staged.",
    ),
)
