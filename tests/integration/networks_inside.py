"""What a PyTorch, an image's or any other, is asked about the published networks: two programs.

PYTHON -c COUNTS FOLDER_OF_THE_PROBE            one JSON object: name -> counts; and the refusals
PYTHON -c STEPS FOLDER_OF_THE_PROBE GIVEN       weights after each step, GIVEN is JSON
PYTHON -c SCALING FOLDER_OF_THE_PROBE           steps with an overflow in them
"""

# Counts each network as a launch does, then without one of its layers, which must be refused; large
# images as shapes alone (the "meta" device).
COUNTS = """
import json, sys
sys.path.insert(0, sys.argv[1])
import importlib
import torch
import networks_count, workloads_torch
torch.set_num_threads(1)

def counted(name, device):
    facts = workloads_torch.WORKLOADS[name]
    shape = facts[device]["shape"]
    model = made(name, facts, shape)
    return model, sample(facts, shape)

def made(name, facts, shape):
    network = getattr(importlib.import_module(facts["module"]), name)
    return network(shape[0], facts["classes"])

def sample(facts, shape):
    if facts["kind"] == "text":
        return torch.zeros((1,) + shape, dtype=torch.long)
    return torch.zeros((1,) + shape)

def both(model, given):
    return {
        "parameters": networks_count.parameters(model),
        "multiply_adds": networks_count.multiply_adds(model, given),
    }

def published(name, device):
    facts = workloads_torch.WORKLOADS[name]
    return {"parameters": facts["parameters"], "multiply_adds": facts[device]["multiply_adds"]}

def robbed(model):
    # The last activated layer that keeps its input's shape goes: the network still runs.
    for parent in reversed(list(model.modules())):
        for key, child in reversed(list(parent.named_children())):
            square = (
                getattr(child, "in_channels", 0) == getattr(child, "out_channels", 1)
                and getattr(child, "stride", 0) == (1, 1)
            ) or (
                getattr(child, "in_features", 0) == getattr(child, "out_features", 1)
            )
            if square:
                setattr(parent, key, torch.nn.Identity())
                return True
    return False

found, refused = {}, {}
for name in workloads_torch.WORKLOADS:
    with torch.device("meta"):
        found[name] = {"cuda": both(*counted(name, "cuda"))}
    model, given = counted(name, "cpu")
    found[name]["cpu"] = both(model, given)
    model.train()
    before = [one.clone() for one in model.buffers()]
    state = torch.get_rng_state()
    networks_count.multiply_adds(model, given)
    assert model.training and torch.equal(state, torch.get_rng_state()), name
    assert all(torch.equal(a, b) for a, b in zip(before, model.buffers())), name
    if robbed(model):
        try:
            workloads_torch.hold(name, both(model, given), published(name, "cpu"))
        except workloads_torch.CountError as problem:
            refused[name] = str(problem)
print(json.dumps({"counts": found, "refused": refused}))
"""

# Golden steps in fp64. GIVEN: weights, gradients, settings, and a wrong ratio to plant.
STEPS = """
import json, sys
sys.path.insert(0, sys.argv[1])
import torch
import optimizers_torch, step_rules
given = json.loads(sys.argv[2])
wrong = given.get("wrong")
if wrong == "without decay":
    step_rules.lars = lambda w, g, trust, decay: trust * w / g
    step_rules.larc = lambda w, g, trust, decay: trust * w / (g + step_rules.EPSILON)
elif wrong == "upside down":
    step_rules.lars = lambda w, g, trust, decay: trust * g / (w + decay * w)
    step_rules.larc = lambda w, g, trust, decay: trust * g / (w + decay * w + step_rules.EPSILON)
found = {}
for name, settings in given["settings"].items():
    layers = [
        torch.nn.Parameter(torch.tensor(one, dtype=torch.float64)) for one in given["weights"]
    ]
    optimizers_torch.SETTINGS[name] = settings
    optimizer = optimizers_torch.made(name, layers)
    found[name] = []
    for slopes in given["gradients"]:
        optimizer.zero_grad()
        for layer, slope in zip(layers, slopes):
            layer.grad = torch.tensor(slope, dtype=torch.float64)
        optimizer.step()
        found[name].append([one.detach().tolist() for one in layers])
print(json.dumps(found))
"""

# A scaled loss: the same step as without a scale, and none where a gradient overflows.
SCALING = """
import json, sys
sys.path.insert(0, sys.argv[1])
import torch
import precision_torch
from step_rules import LossScale

def stepped(scaled, factor):
    weight = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    optimizer = torch.optim.SGD([weight], lr=0.25)
    loss = (weight * weight * factor).sum()
    if scaled is None:
        loss.backward()
        optimizer.step()
    else:
        scaled.backward(loss, optimizer)
    return weight.detach().tolist()

own = precision_torch.Scaled(torch, "cpu", LossScale(scale=2.0 ** 16))
said = {"plain": stepped(None, 0.5), "scaled": stepped(own, 0.5), "after one": own.counts()}
said["overflow"] = stepped(own, 3e38)
said["after two"] = own.counts()
print(json.dumps(said))
"""
