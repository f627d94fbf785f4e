"""All that can be set for a training, from the command line."""

from __future__ import annotations

import argparse
from dataclasses import dataclass


@dataclass(frozen=True)
class Config:
    """One training run. P and K are as in the P-K sampler: P classes, K images each."""

    p: int
    k: int
    epochs: int
    embedding_dim: int
    classes: int
    images_per_class: int
    image_size: int
    margin: float
    learning_rate: float
    augmentation: str  # "lazy", "eager" or "off"
    threads: int
    seed: int


def parse_args(args: list[str] | None = None) -> Config:
    """Read the command line; the defaults train for about a quarter of a minute."""
    parser = argparse.ArgumentParser(
        description="Learn an embedding of small images with a batch-all triplet loss."
    )
    parser.add_argument("--p", type=int, default=8, help="classes in a batch")
    parser.add_argument("--k", type=int, default=6, help="images of each class")
    parser.add_argument("--epochs", type=int, default=7)
    parser.add_argument("--embedding-dim", type=int, default=32)
    parser.add_argument("--classes", type=int, default=48, help="in the data set")
    parser.add_argument("--images-per-class", type=int, default=16)
    parser.add_argument("--image-size", type=int, default=24)
    parser.add_argument("--margin", type=float, default=0.2)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument(
        "--augmentation",
        choices=("lazy", "eager", "off"),
        default="lazy",
        help="lazy: anew each time an image is drawn; eager: once, before training",
    )
    parser.add_argument(
        "--threads",
        type=int,
        default=1,
        help="for torch; the tensors are so small that a second mostly waits",
    )
    parser.add_argument("--seed", type=int, default=0)
    config = Config(**vars(parser.parse_args(args)))
    if config.p < 2 or config.k < 2:
        parser.error("a triplet needs two classes and two images of one: --p 2 --k 2")
    if config.p > config.classes or config.k > config.images_per_class:
        parser.error("a batch of P x K cannot hold more than the data set has")
    return config
