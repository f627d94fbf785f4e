"""A small language model on made-up text, fed by two DataLoader workers.

    python transformer.py STEPS

As such scripts are: the data set cuts and encodes text when an item is drawn, the model
is torch's own encoder with a causal mask, AdamW with clipped gradients, a loss that is
printed now and then.
"""

from __future__ import annotations

import random
import sys

import torch
from step_times import StepTimes
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

WORDS = 400
LENGTH = 64
WIDTH = 128
BATCH = 8


class Text(Dataset[Tensor]):
    """Stories of words that follow each other by a rule, encoded when drawn."""

    def __init__(self, stories: int) -> None:
        self.stories = stories
        rule = random.Random(1)
        self.vocabulary = {f"word{i}": i for i in range(WORDS)}
        self.after = [[rule.randrange(WORDS) for _ in range(4)] for _ in range(WORDS)]

    def __len__(self) -> int:
        return self.stories

    def story(self, index: int) -> str:
        choose = random.Random(index)
        words, word = [], choose.randrange(WORDS)
        for _ in range(LENGTH + 1):
            words.append(f"word{word}")
            word = choose.choice(self.after[word])
        return " ".join(words)

    def __getitem__(self, index: int) -> Tensor:
        return torch.tensor([self.vocabulary[w] for w in self.story(index).split()])


class Model(nn.Module):
    """Tokens (N, L) to scores of the next one (N, L, WORDS)."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(WORDS, WIDTH)
        self.places = nn.Embedding(LENGTH, WIDTH)
        layer = nn.TransformerEncoderLayer(
            WIDTH, 4, 4 * WIDTH, dropout=0.1, batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.scores = nn.Linear(WIDTH, WORDS)

    def forward(self, tokens: Tensor) -> Tensor:
        places = torch.arange(tokens.shape[1])
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        x = self.tokens(tokens) + self.places(places)
        scores: Tensor = self.scores(self.layers(x, mask=mask, is_causal=True))
        return scores


def main() -> None:
    steps = int(sys.argv[1])
    torch.set_num_threads(1)
    torch.manual_seed(0)
    loader = DataLoader(Text(steps * BATCH), BATCH, shuffle=True, num_workers=2)
    model = Model()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    times = StepTimes("transformer")
    times.begin()
    for step, batch in enumerate(loader):
        optimizer.zero_grad()
        scores = model(batch[:, :-1])
        loss = criterion(scores.flatten(0, 1), batch[:, 1:].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step}: loss {loss.item():.3f}")
        times.end()
    times.close()
    times.tell()


if __name__ == "__main__":
    main()
