"""How a network is cut for tensor and pipeline parallelism: plans, read and held. Python >= 3.6.

A plan is a dict: `{"tensor": {"blocks.*.q": "column", "blocks.*.o": "row"}, "stages": "blocks"}`.
`tensor` names linear layers, `*` standing for one part of a name. A column layer gives each rank a
share of what goes out, a row layer adds up the shares that come in; `column:3` is a column layer of
three equal parts side by side (query, key, value), each of which is shared. `heads` is a number
that tensor ranks must divide. `stages` names the list of equal blocks that pipeline stages share;
the modules registered before it (or `begin`: their names, or one method's) make its input, those
after it (or `end`: their names) its output.
"""

import fnmatch

STYLES = ("column", "row")


class PlanError(Exception):
    """A network has no plan for what was asked, or the plan doesn't fit it."""


class Plan(object):
    """A plan, read for one network: its layers by their names, its blocks."""

    def __init__(self, given, name):
        if not isinstance(given, dict) or not set(given) <= set(
            ("tensor", "stages", "heads", "begin", "end")
        ):
            raise PlanError(
                "parallel_plan of {}: a dict of 'tensor', 'stages', 'heads', 'begin', 'end'".format(
                    name
                )
            )
        self.given, self.name = given, name

    def layers(self, model, ranks):
        """Give each layer that tensor ranks share: name -> (style, parts); raises PlanError."""
        patterns = self.given.get("tensor")
        if not patterns:
            raise PlanError(missing(self.name, "tensor"))
        heads = self.given.get("heads")
        if heads and heads % ranks:
            raise PlanError(
                "{}: its {} heads can't be divided by {} tensor ranks".format(
                    self.name, heads, ranks
                )
            )
        chosen = {}
        modules = dict(model.named_modules())
        for pattern in sorted(patterns):
            names = [name for name in modules if _matches(name, pattern)]
            if not names:
                raise PlanError(
                    "parallel_plan of {}: no layer is called {}".format(self.name, pattern)
                )
            style, parts = self._style(pattern, patterns[pattern])
            for name in names:
                self._divides(name, modules[name], style, parts, ranks)
                chosen[name] = (style, parts)
        return chosen

    def _style(self, pattern, text):
        style, _, parts = str(text).partition(":")
        if style not in STYLES or (parts and not parts.isdigit()) or parts == "0":
            raise PlanError(
                "parallel_plan of {}: {} is {!r}; there is column, row and column:PARTS".format(
                    self.name, pattern, text
                )
            )
        return style, int(parts or 1)

    def _divides(self, name, module, style, parts, ranks):
        size = getattr(module, "out_features" if style == "column" else "in_features", None)
        if size is None:
            raise PlanError(
                "parallel_plan of {}: {} is a {}, and only linear layers are shared".format(
                    self.name, name, type(module).__name__
                )
            )
        if size % (parts * ranks):
            raise PlanError(
                "{}: {} has {} {} features, which {} tensor ranks{} don't divide".format(
                    self.name, name, size, "output" if style == "column" else "input", ranks,
                    " of {} parts".format(parts) if parts > 1 else "",
                )
            )  # fmt: skip

    def blocks(self, model, stages):
        """Give the list of blocks that stages share; raises PlanError."""
        name = self.given.get("stages")
        if not name:
            raise PlanError(missing(self.name, "stages"))
        blocks = getattr(model, str(name), None)
        if blocks is None or not hasattr(blocks, "__len__") or not len(blocks):
            raise PlanError(
                "parallel_plan of {}: 'stages': it has no list of blocks {!r}".format(
                    self.name, name
                )
            )
        if len(blocks) % stages:
            raise PlanError(
                "{}: its {} blocks can't be divided by {} pipeline stages".format(
                    self.name, len(blocks), stages
                )
            )
        return blocks

    def ends(self, model):
        """Give the names of what makes the blocks' input, and of what takes their output."""
        children = [name for name, _ in model.named_children()]
        place = children.index(str(self.given["stages"]))
        begin, end = self.given.get("begin"), self.given.get("end")
        begin = children[:place] if begin is None else begin
        end = children[place + 1 :] if end is None else end
        begin = [begin] if isinstance(begin, str) else list(begin)
        end = [end] if isinstance(end, str) else list(end)
        for name in begin + end:
            if not callable(getattr(model, str(name), None)):
                raise PlanError(
                    "parallel_plan of {}: it has nothing to call named {!r}".format(self.name, name)
                )
        for name in end:
            if name not in children:
                raise PlanError(
                    "parallel_plan of {}: 'end': {!r} is no module of it".format(self.name, name)
                )
        return begin, end


def missing(name, kind):
    """Say that a network has no plan of a kind, and where one is stated."""
    what = {"tensor": "tensor parallelism (tp)", "stages": "pipeline parallelism (pp)"}[kind]
    return (
        "{}: it has no plan for {}; take dp or fsdp, or state one in the model: parallel_plan = "
        "{{'tensor': {{'blocks.*.q': 'column', 'blocks.*.o': 'row'}}, 'stages': "
        "'blocks'}}".format(name, what)
    )


def _matches(name, pattern):
    parts, wanted = name.split("."), pattern.split(".")
    return len(parts) == len(wanted) and all(map(fnmatch.fnmatchcase, parts, wanted))


def of(model, name):
    """Read the plan that a network states; an empty one where it states none."""
    return Plan(getattr(model, "parallel_plan", {}), name)
