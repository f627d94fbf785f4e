"""A generator and a discriminator that take turns; one loader."""

from __future__ import annotations

import stopwatch
import torch
from stopwatch import BATCH, FEATURES, Net, Points, Stopwatch
from torch import nn
from torch.utils.data import DataLoader


def run(watch: Stopwatch) -> None:
    generator, discriminator = Net(outputs=FEATURES), Net(outputs=1)
    criterion = nn.BCEWithLogitsLoss()
    for_generator = torch.optim.Adam(generator.parameters())
    for_discriminator = torch.optim.Adam(discriminator.parameters())
    real, fake = torch.ones(BATCH, 1), torch.zeros(BATCH, 1)
    for x, _ in watch.batches(DataLoader(Points(10), batch_size=BATCH)):
        noise = torch.randn_like(x)
        with watch.phase("zero_grad"):
            for_discriminator.zero_grad()
        with watch.phase("forward"):
            made = generator(noise)
        for batch, label in ((x, real), (made.detach(), fake)):
            with watch.phase("forward"):
                output = discriminator(batch)
            with watch.phase("loss"):
                loss = criterion(output, label)
            with watch.phase("backward"):
                loss.backward()
        with watch.phase("optimizer"):
            for_discriminator.step()
        with watch.phase("zero_grad"):
            for_generator.zero_grad()
        with watch.phase("forward"):
            output = discriminator(made)
        with watch.phase("loss"):
            loss = criterion(output, real)
        with watch.phase("backward"):
            loss.backward()
        with watch.phase("optimizer"):
            for_generator.step()
        watch.steps += 1


stopwatch.main(__name__, run)
