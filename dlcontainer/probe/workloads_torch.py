"""The train probe's published networks in PyTorch: shapes, counts, synthetic data. Python >= 3.6.

Parameters and multiply-adds of one sample's forward pass are those of the publication, or follow
from its tables by hand where it prints none (docs/measurements/probes.md says which). The session has its
own copy; a test holds both against sums by hand. Nothing here imports torch until a network is made.
"""

import importlib

import accelerator
import probe_train

# kind: "names" (one class a sample), "pixels" (one a pixel), "text" (the next token at each place)
# shape: of one sample, channels first; of text its length. On a CPU large images are cut; cuda's
# figures are those of every accelerator.
WORKLOADS = {
    "convnet": {
        "module": "networks_images", "kind": "names", "classes": 10, "parameters": 145578,
        "cpu": {"shape": (3, 32, 32), "batch": 64, "multiply_adds": 12354176},
        "cuda": {"shape": (3, 32, 32), "batch": 1024, "multiply_adds": 12354176},
    },
    "caffenet": {
        "module": "networks_images", "kind": "names", "classes": 1000, "parameters": 60965224,
        "cpu": {"shape": (3, 227, 227), "batch": 4, "multiply_adds": 724406816},
        "cuda": {"shape": (3, 227, 227), "batch": 256, "multiply_adds": 724406816},
    },
    "alexnet": {
        "module": "networks_images", "kind": "names", "classes": 1000, "parameters": 61100840,
        "cpu": {"shape": (3, 224, 224), "batch": 4, "multiply_adds": 714188480},
        "cuda": {"shape": (3, 224, 224), "batch": 256, "multiply_adds": 714188480},
    },
    "googlenet": {
        "module": "networks_images", "kind": "names", "classes": 1000, "parameters": 13378280,
        "cpu": {"shape": (3, 224, 224), "batch": 4, "multiply_adds": 1591044096},
        "cuda": {"shape": (3, 224, 224), "batch": 128, "multiply_adds": 1591044096},
    },
    "resnet50": {
        "module": "networks_images", "kind": "names", "classes": 1000, "parameters": 25557032,
        "cpu": {"shape": (3, 224, 224), "batch": 2, "multiply_adds": 4089184256},
        "cuda": {"shape": (3, 224, 224), "batch": 128, "multiply_adds": 4089184256},
    },
    "tiramisu": {
        "module": "networks_pixels", "kind": "pixels", "classes": 3, "parameters": 9325651,
        "cpu": {"shape": (16, 96, 96), "batch": 1, "multiply_adds": 3719681280},
        "cuda": {"shape": (16, 768, 1152), "batch": 1, "multiply_adds": 357089402880},
    },
    "deeplabv3plus": {
        "module": "networks_pixels", "kind": "pixels", "classes": 3, "parameters": 40388067,
        "cpu": {"shape": (16, 96, 144), "batch": 1, "multiply_adds": 3787857920},
        "cuda": {"shape": (16, 768, 1152), "batch": 2, "multiply_adds": 242389876736},
    },
    "transformer": {
        "module": "networks_text", "kind": "text", "classes": 8000, "parameters": 27180864,
        "cpu": {"shape": (128,), "batch": 2, "multiply_adds": 3040870400},
        "cuda": {"shape": (128,), "batch": 64, "multiply_adds": 3040870400},
    },
}  # fmt: skip
# Of GoogLeNet's auxiliary heads, added to the network's own loss (arXiv:1409.4842, section 5).
HEADS = 0.3


class CountError(Exception):
    """The network is not the published one: no time of it counts."""


def hold(name, found, published):
    """Hold counts against the published ones, by their names; raises CountError."""
    for what in sorted(published):
        if found.get(what) != published[what]:
            raise CountError(
                "{}: {:,} {}, and the published network has {:,}".format(
                    name, found.get(what, 0), what.replace("_", "-"), published[what]
                )
            )


class Named(object):
    """A published network with its data, on a device, its counts held before anything is timed."""

    def __init__(self, torch, wanted, device, home):
        import networks_count

        facts = WORKLOADS[wanted.workload]
        own = accelerator.sizes(facts, device)
        # Micro-batches have one size: what is usual is rounded up to a multiple of them.
        usual = -(-own["batch"] // max(1, wanted.micro_batches)) * max(1, wanted.micro_batches)
        wanted.batch = wanted.batch or usual
        self._torch, self._kind = torch, facts["kind"]
        self.sample = (facts["kind"], own["shape"], facts["classes"])
        make = torch.Generator()
        make.manual_seed(wanted.seed + 1 + probe_train.stream(wanted))
        made = [
            _batch(torch, make, self._kind, (wanted.batch,) + own["shape"], facts["classes"])
            for _ in range(probe_train.BATCHES)
        ]
        self.images = [images.to(device) for images, _ in made]
        self.labels = [labels.to(device) for _, labels in made]
        self._wanted, self._facts, self._shape = wanted, facts, own["shape"]
        self.model = self.build().to(home)
        found = {
            "parameters": networks_count.parameters(self.model),
            "multiply_adds": networks_count.multiply_adds(self.model, self.images[0][:1].to(home)),
        }
        published = {
            "parameters": facts["parameters"], "multiply_adds": own["multiply_adds"]
        }  # fmt: skip
        hold(wanted.workload, found, published)
        self.counted = dict(found, shape="x".join(map(str, own["shape"])))

    def build(self):
        """Make the network, with the weights that all ranks begin with."""
        self._torch.manual_seed(self._wanted.seed)
        network = getattr(importlib.import_module(self._facts["module"]), self._wanted.workload)
        return network(self._shape[0], self._facts["classes"])

    def draw(self, make, count):
        """Draw so many samples and their labels, on the CPU."""
        shape = (count,) + self._shape
        return _batch(self._torch, make, self._kind, shape, self._facts["classes"])

    def loss(self, said, labels):
        """Give the mean cross-entropy of a batch, that of further heads in part."""
        entropy = self._torch.nn.functional.cross_entropy
        if self._kind == "text":
            return entropy(said.flatten(0, 1), labels.flatten())
        if not isinstance(said, tuple):
            return entropy(said, labels)
        return entropy(said[0], labels) + HEADS * sum(entropy(one, labels) for one in said[1:])


def _batch(torch, make, kind, shape, classes):
    """Draw a batch and its labels: noise, the same on every device."""
    if kind == "text":
        tokens = torch.randint(0, classes, (shape[0], shape[1] + 1), generator=make)
        return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    places = shape[:1] + (shape[2:] if kind == "pixels" else ())
    images = torch.randn(*shape, generator=make)
    return images, torch.randint(0, classes, places, generator=make)
