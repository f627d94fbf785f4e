"""What is written down after each epoch: how far apart the classes are.

Every metric is a small function of two classes and asks for the distances it needs,
which keeps each of them readable and lets one add a metric without touching the rest.
The price: for C classes and M metrics, distances are computed M x C x C times.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from loss import pairwise_distances


def mean_distance(a: Tensor, b: Tensor) -> float:
    """Average over all pairs."""
    return pairwise_distances(a, b).mean().item()


def closest_distance(a: Tensor, b: Tensor) -> float:
    """Single linkage: the nearest pair."""
    return pairwise_distances(a, b).min().item()


def centroid_distance(a: Tensor, b: Tensor) -> float:
    """Between the two means."""
    return pairwise_distances(a.mean(0)[None], b.mean(0)[None]).item()


def hausdorff_distance(a: Tensor, b: Tensor) -> float:
    """The farthest that a point of one class is from the other class."""
    distances = pairwise_distances(a, b)
    there = distances.min(dim=1).values.max()
    back = distances.min(dim=0).values.max()
    return max(there.item(), back.item())


INTER_CLUSTER: dict[str, Callable[[Tensor, Tensor], float]] = {
    "mean": mean_distance,
    "closest": closest_distance,
    "centroid": centroid_distance,
    "hausdorff": hausdorff_distance,
}


@dataclass
class EpochRecord:
    """One line of the log."""

    epoch: int
    loss: float
    active: float  # share of triplets that still cost something
    intra: float  # mean distance within a class
    inter: dict[str, float]  # by metric, averaged over all pairs of classes
    recall: float  # share of images whose nearest neighbour is of their class


class TrainingLogger:
    """Collects losses during an epoch and computes the metrics at its end."""

    def __init__(self) -> None:
        self.records: list[EpochRecord] = []
        self.losses: list[float] = []
        self.active: list[float] = []

    def log_step(self, loss: float, active: float) -> None:
        """Note one batch."""
        self.losses.append(loss)
        self.active.append(active)

    def log_epoch(self, epoch: int, embeddings: Tensor, labels: Tensor) -> None:
        """Compute the epoch's metrics from the embeddings of all images; print them."""
        clusters = self.split(embeddings, labels)
        record = EpochRecord(
            epoch=epoch,
            loss=sum(self.losses) / len(self.losses),
            active=sum(self.active) / len(self.active),
            intra=self.intra_cluster(clusters),
            inter=self.inter_cluster(clusters),
            recall=self.recall_at_one(embeddings, labels),
        )
        self.records.append(record)
        self.losses, self.active = [], []
        self.show(record)

    def split(self, embeddings: Tensor, labels: Tensor) -> list[Tensor]:
        """The embeddings of each class."""
        return [embeddings[labels == label] for label in range(int(labels.max()) + 1)]

    def intra_cluster(self, clusters: list[Tensor]) -> float:
        """Mean distance between images of one class, averaged over classes."""
        means = [mean_distance(cluster, cluster) for cluster in clusters]
        return sum(means) / len(means)

    def inter_cluster(self, clusters: list[Tensor]) -> dict[str, float]:
        """Each metric, averaged over all ordered pairs of classes."""
        totals = dict.fromkeys(INTER_CLUSTER, 0.0)
        pairs = 0
        for i, a in enumerate(clusters):
            for j, b in enumerate(clusters):
                if i == j:
                    continue
                pairs += 1
                for name, metric in INTER_CLUSTER.items():
                    totals[name] += metric(a, b)
        return {name: total / pairs for name, total in totals.items()}

    def recall_at_one(self, embeddings: Tensor, labels: Tensor) -> float:
        """How often the nearest other image is of the same class."""
        hits = 0
        for i in range(len(embeddings)):
            distances = pairwise_distances(embeddings[i : i + 1], embeddings)[0]
            distances[i] = torch.inf
            hits += int(labels[distances.argmin()] == labels[i])
        return hits / len(embeddings)

    def show(self, record: EpochRecord) -> None:
        """One line for a person."""
        inter = "  ".join(f"{name} {v:.3f}" for name, v in record.inter.items())
        print(
            f"epoch {record.epoch}: loss {record.loss:.3f}  active {record.active:.2f}"
            f"  intra {record.intra:.3f}  {inter}  recall@1 {record.recall:.3f}",
            flush=True,
        )
