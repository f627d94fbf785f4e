"""Train an embedding of small synthetic images: python train.py --help."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from config import Config, parse_args
from data import ImageDataset, PKSampler, make_images
from logger import TrainingLogger
from loss import BatchAllTripletLoss
from model import EmbeddingNet


def train_step(
    model: EmbeddingNet,
    criterion: BatchAllTripletLoss,
    optimizer: torch.optim.Optimizer,
    images: Tensor,
    labels: Tensor,
) -> tuple[float, float]:
    """One batch: forward, loss, backward, update."""
    optimizer.zero_grad()
    loss, active = criterion(model(images), labels)
    loss.backward()
    optimizer.step()
    return loss.item(), active


@torch.no_grad()
def embed_all(model: EmbeddingNet, images: Tensor) -> Tensor:
    """Embeddings of all images, as they are without augmentation."""
    model.eval()
    parts = [model(images[i : i + 256]) for i in range(0, len(images), 256)]
    model.train()
    return torch.cat(parts)


def train(config: Config) -> TrainingLogger:
    """The whole training; gives back its log."""
    torch.set_num_threads(config.threads)
    torch.manual_seed(config.seed)
    images, labels = make_images(
        config.classes, config.images_per_class, config.image_size, config.seed
    )
    dataset = ImageDataset(images, labels, config.augmentation)
    batches = max(1, len(images) // (config.p * config.k))
    sampler = PKSampler(dataset.labels, config.p, config.k, batches, config.seed)
    loader = DataLoader(dataset, batch_sampler=sampler)

    model = EmbeddingNet(config.embedding_dim)
    criterion = BatchAllTripletLoss(config.margin)
    optimizer = torch.optim.Adam(model.parameters(), lr=config.learning_rate)
    logger = TrainingLogger()

    for epoch in range(1, config.epochs + 1):
        for batch, batch_labels in loader:
            logger.log_step(
                *train_step(model, criterion, optimizer, batch, batch_labels)
            )
        logger.log_epoch(epoch, embed_all(model, images), labels)
    return logger


if __name__ == "__main__":
    train(parse_args())
