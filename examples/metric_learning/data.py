"""Synthetic images, their augmentation, and batches of P classes with K images each.

A class is a pattern of a few coloured waves; its images show it shifted, with noise.
Made here, so that the example needs no download.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.utils.data import Dataset, Sampler


def make_pattern(size: int, generator: torch.Generator) -> Tensor:
    """One class: three waves of random direction, length and colour."""
    axis = torch.linspace(0, 2 * math.pi, size)
    y, x = torch.meshgrid(axis, axis, indexing="ij")
    image = torch.zeros(3, size, size)
    for _ in range(3):
        fx, fy, phase = (torch.rand(3, generator=generator) * 4 - 2).tolist()
        colour = torch.rand(3, generator=generator) - 0.5
        image += colour[:, None, None] * torch.sin(fx * x + fy * y + phase)
    return image


def make_images(
    classes: int, per_class: int, size: int, seed: int
) -> tuple[Tensor, Tensor]:
    """Images (N, 3, size, size) and their classes (N)."""
    generator = torch.Generator().manual_seed(seed)
    images, labels = [], []
    for label in range(classes):
        pattern = make_pattern(size, generator)
        for _ in range(per_class):
            dx, dy = torch.randint(-6, 7, (2,), generator=generator).tolist()
            noise = 0.8 * torch.randn(pattern.shape, generator=generator)
            images.append(torch.roll(pattern, (dy, dx), dims=(1, 2)) + noise)
            labels.append(label)
    return torch.stack(images), torch.tensor(labels)


class Augmentation:
    """Random crop, flip, brightness, contrast and a blanked-out square, image by image.

    The usual chain of small transforms, each on one image: easy to write and to read,
    and a dozen small operations for every image that is drawn.
    """

    def __init__(self, size: int, padding: int = 3) -> None:
        self.size = size
        self.padding = padding

    def __call__(self, image: Tensor) -> Tensor:
        image = self.crop(image)
        image = self.flip(image)
        image = self.brightness(image)
        image = self.contrast(image)
        return self.erase(image)

    def crop(self, image: Tensor) -> Tensor:
        padded = torch.nn.functional.pad(image, [self.padding] * 4, mode="reflect")
        top, left = torch.randint(0, 2 * self.padding + 1, (2,)).tolist()
        return padded[:, top : top + self.size, left : left + self.size]

    def flip(self, image: Tensor) -> Tensor:
        return image.flip(2) if torch.rand(()).item() < 0.5 else image

    def brightness(self, image: Tensor) -> Tensor:
        return image + 0.1 * torch.randn(())

    def contrast(self, image: Tensor) -> Tensor:
        mean = image.mean()
        return (image - mean) * (1 + 0.2 * torch.randn(())) + mean

    def erase(self, image: Tensor) -> Tensor:
        side = self.size // 4
        top, left = torch.randint(0, self.size - side, (2,)).tolist()
        image = image.clone()
        image[:, top : top + side, left : left + side] = 0
        return image


class ImageDataset(Dataset[tuple[Tensor, int]]):
    """Images in memory; lazy augmentation happens when one is drawn."""

    def __init__(
        self, images: Tensor, labels: Tensor, augmentation: str, copies: int = 4
    ) -> None:
        augment = Augmentation(images.shape[-1])
        self.augment = augment if augmentation == "lazy" else None
        if augmentation == "eager":
            images = torch.stack([augment(i) for i in images for _ in range(copies)])
            labels = labels.repeat_interleave(copies)
        self.images = images
        self.labels = labels.tolist()

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image = self.images[index]
        if self.augment is not None:
            image = self.augment(image)
        return image, self.labels[index]


class PKSampler(Sampler[list[int]]):
    """Batches of K images from each of P classes, so that each has positive pairs."""

    def __init__(
        self, labels: list[int], p: int, k: int, batches: int, seed: int
    ) -> None:
        self.p = p
        self.k = k
        self.batches = batches
        self.generator = torch.Generator().manual_seed(seed)
        self.by_class: dict[int, list[int]] = {}
        for index, label in enumerate(labels):
            self.by_class.setdefault(label, []).append(index)

    def __len__(self) -> int:
        return self.batches

    def __iter__(self) -> Iterator[list[int]]:
        for _ in range(self.batches):
            batch: list[int] = []
            order = torch.randperm(len(self.by_class), generator=self.generator)
            for label in order[: self.p].tolist():
                indices = self.by_class[label]
                chosen = torch.randperm(len(indices), generator=self.generator)
                batch.extend(indices[i] for i in chosen[: self.k].tolist())
            yield batch
