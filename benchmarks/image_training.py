"""A ResNet-18 on images of CIFAR's size, learnt from four annotators, against the same network and plain cross-entropy.

    python benchmarks/image_training.py [--images 50000] [--batches 128 256 512] [--network resnet-18] [--device auto]

The bare loop is what anyone would write: Adam, bfloat16 and channels last on a GPU, images on the device, the true
class of each image. Ours is `trace` with four labels an image. Images a second are those of the last epoch of each,
after others to warm up. The ratio is what workers and the engine cost.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
import torch
from torch.nn.functional import cross_entropy

import crowdwise as cw
from crowdwise.learn.networks import NETWORKS
from crowdwise.learn.torch_settings import device_name, find_device
from crowdwise.simulate import simulate

EPOCHS = 3
SHAPE = (3, 32, 32)


def bare(images: np.ndarray, truth: np.ndarray, network: str, batch: int, device: torch.device) -> float:
    """Seconds of the last epoch of the loop that anyone would write."""
    brief = device.type == "cuda"
    layout = torch.channels_last if brief else torch.contiguous_format
    x, y = torch.as_tensor(images).to(device), torch.as_tensor(truth).to(device)
    model = NETWORKS[network](SHAPE, 10).to(device, memory_format=layout).train()
    optimiser = torch.optim.Adam(model.parameters(), 1e-3, fused=True)
    for _ in range(EPOCHS):
        started = time.perf_counter()
        total = torch.zeros((), device=device)
        for part in torch.randperm(len(x), device=device).split(batch):
            with torch.autocast(device.type, torch.bfloat16, enabled=brief):
                logits = model((x[part].float() / 255).contiguous(memory_format=layout))
            loss = cross_entropy(logits.float(), y[part])
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            total += loss.detach()
        float(total)  # wait for the device
        seconds = time.perf_counter() - started
    return seconds


def ours(images: np.ndarray, truth: np.ndarray, network: str, batch: int, device: str) -> float:
    """Seconds of the last epoch of `trace` with four annotators, without the labels held out to choose it."""
    labels = simulate("cifar-annotators", truth=truth).labels
    shared = {"epochs": EPOCHS, "batch_size": batch, "held_out": 0.0, "precision": "auto", "device": device}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cw.NotIdentifiable)
        model = cw.TraceRegularized(network=network, **shared).fit(images, labels)
    return float(model.history_["seconds"][-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=50_000)
    parser.add_argument("--batches", type=int, nargs="+", default=[128, 256, 512])
    parser.add_argument("--network", choices=NETWORKS, default="resnet-18")
    parser.add_argument("--device", default="auto")
    given = parser.parse_args()
    rng = np.random.default_rng(0)
    images = rng.integers(256, size=(given.images, *SHAPE), dtype=np.uint8)
    truth = rng.integers(10, size=given.images)
    print(f"{given.network}, {given.images:,} images, {device_name(given.device)}; images a second, last epoch")
    for batch in given.batches:
        plain = given.images / bare(images, truth, given.network, batch, find_device(given.device))
        crowd = given.images / ours(images, truth, given.network, batch, given.device)
        print(f"batches of {batch:4}: bare {plain:9,.0f}   ours {crowd:9,.0f}   ratio {crowd / plain:.2f}", flush=True)


if __name__ == "__main__":
    main()
