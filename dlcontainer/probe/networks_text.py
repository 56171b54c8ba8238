"""A network that goes on with a text, in PyTorch. Python >= 3.6."""

import torch
from torch import nn

# Vaswani et al., arXiv:1706.03762, table 3, base: layers, d_model, heads, d_ff; one stack of it.
LAYERS, WIDTH, HEADS, INNER = 6, 512, 8, 2048
PLACES = 128


class Attended(nn.Module):
    """The products of attention: each place sees itself and those before it; no weights."""

    def forward(self, query, key, value):
        length = query.shape[-2]
        scores = query @ key.transpose(-2, -1) / query.shape[-1] ** 0.5
        later = torch.ones(length, length, dtype=torch.bool, device=query.device).triu(1)
        return scores.masked_fill(later, float("-inf")).softmax(-1) @ value

    def multiply_adds(self, given, _made):
        """Count those of scores and of sums of values, also those that the mask drops."""
        query = given[0]
        return 2 * query.numel() * query.shape[-2]


class Block(nn.Module):
    """Attention and a feed-forward layer, each normalized before and added to what came in."""

    def __init__(self):
        super(Block, self).__init__()
        self.first_norm, self.second_norm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.parts, self.joined = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.attended = Attended()
        self.feed = nn.Sequential(nn.Linear(WIDTH, INNER), nn.ReLU(), nn.Linear(INNER, WIDTH))

    def forward(self, x):
        batch, length = x.shape[:2]
        # A rank of several that share the layer has its share of the heads.
        parts = self.parts(self.first_norm(x)).reshape(batch, length, 3, -1, WIDTH // HEADS)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        seen = self.attended(query, key, value).transpose(1, 2).reshape(batch, length, -1)
        x = x + self.joined(seen)
        return x + self.feed(self.second_norm(x))


class Transformer(nn.Module):
    """Tokens in, the logits of each next token out."""

    parallel_plan = {
        "tensor": {
            "blocks.*.parts": "column:3",
            "blocks.*.joined": "row",
            "blocks.*.feed.0": "column",
            "blocks.*.feed.2": "row",
        },
        "heads": HEADS,
        "stages": "blocks",
        "begin": "embedded",
    }

    def __init__(self, words):
        super(Transformer, self).__init__()
        self.words, self.places = nn.Embedding(words, WIDTH), nn.Embedding(PLACES, WIDTH)
        self.blocks = nn.Sequential(*[Block() for _ in range(LAYERS)])
        self.end = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, words))

    def embedded(self, tokens):
        """Give what the first block takes."""
        places = torch.arange(tokens.shape[1], device=tokens.device)
        return self.words(tokens) + self.places(places)

    def forward(self, tokens):
        return self.end(self.blocks(self.embedded(tokens)))


def transformer(_channels, classes):
    """A stack of decoders over a vocabulary of `classes` tokens."""
    return Transformer(classes)
