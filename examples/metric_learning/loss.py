"""Batch-all triplet loss over pairwise distances."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def pairwise_distances(a: Tensor, b: Tensor) -> Tensor:
    """Euclidean distances (N, M) between the rows of A (N, D) and of B (M, D).

    The square root has no slope at 0, so it is kept a little above.
    """
    squared = (a**2).sum(1)[:, None] - 2 * a @ b.T + (b**2).sum(1)[None, :]
    return squared.clamp(min=1e-12).sqrt()


class BatchAllTripletLoss(nn.Module):
    """The mean over all triplets of a batch that still cost something.

    A triplet is an anchor, another image of its class and one of a different class:
    of a batch of P x K there are PK(K-1)(PK-K).
    """

    def __init__(self, margin: float) -> None:
        super().__init__()
        self.margin = margin

    def forward(self, embeddings: Tensor, labels: Tensor) -> tuple[Tensor, float]:
        """The loss, and the share of triplets that cost something."""
        distances = pairwise_distances(embeddings, embeddings)
        same = labels[:, None] == labels[None, :]
        positive = same & ~torch.eye(len(labels), dtype=torch.bool)
        valid = positive[:, :, None] & ~same[:, None, :]
        cost = distances[:, :, None] - distances[:, None, :] + self.margin
        cost = torch.relu(cost)[valid]
        active = cost > 0
        count = int(active.sum())
        return cost.sum() / max(count, 1), count / max(cost.numel(), 1)
