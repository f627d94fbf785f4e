"""The network: three small convolutions and a linear layer onto the unit sphere."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class ConvBlock(nn.Module):
    """Convolution, normalisation, ReLU, half the size."""

    def __init__(self, channels_in: int, channels_out: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels_in, channels_out, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels_out)
        self.pool = nn.MaxPool2d(2)

    def forward(self, x: Tensor) -> Tensor:
        pooled: Tensor = self.pool(torch.relu(self.norm(self.conv(x))))
        return pooled


class EmbeddingNet(nn.Module):
    """Images (N, 3, H, W) to embeddings (N, D) of length 1."""

    def __init__(self, embedding_dim: int) -> None:
        super().__init__()
        self.features = nn.Sequential(
            ConvBlock(3, 16), ConvBlock(16, 32), ConvBlock(32, 64)
        )
        self.head = nn.Linear(64, embedding_dim)

    def forward(self, images: Tensor) -> Tensor:
        features = self.features(images).mean(dim=(2, 3))
        return nn.functional.normalize(self.head(features), dim=1)
