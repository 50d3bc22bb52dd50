"""Classifiers: linear, MLP, CNNs (Tanno et al. 2019, Kim et al. 2022), CIFAR's ResNets and VGG, any module."""

from __future__ import annotations

import copy
from threading import get_ident
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import nn
from torch.nn.parameter import UninitializedParameter, is_lazy

from crowdwise.labels.errors import InputError, quote
from crowdwise.learn.batches import NetworkOutput

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from crowdwise.learn.features import Features

__all__ = [
    "NETWORKS",
    "Classifier",
    "Sizes",
    "build_network",
    "check_logits",
    "default_network",
    "find_sizes",
    "representation_width",
]


class Classifier(nn.Module):
    """Scaling, if any, and a network; gives logits, and if asked what the network's last linear layer saw."""

    def __init__(self, network: nn.Module, mean: Tensor | None = None, deviation: Tensor | None = None) -> None:
        super().__init__()
        self.network = network
        self.mean: Tensor | None
        self.deviation: Tensor | None
        self.register_buffer("mean", None if mean is None else mean.float())
        self.register_buffer("deviation", None if deviation is None else deviation.float())
        self.brief = False  # whether the network computes in bfloat16, and what it gives is made single again
        self._last: dict[int, Tensor] = {}  # of each thread: several may predict at once
        linear = [module for module in network.modules() if isinstance(module, nn.Linear)]
        if linear:
            linear[-1].register_forward_pre_hook(self._remember)

    def forward(self, x: Tensor) -> Tensor:
        """Logits (B, K)."""
        return self.logits_and_representation(x).logits

    def logits_and_representation(self, x: Tensor) -> NetworkOutput:
        """Logits, and the representation that they are linear in (the logits themselves, if there is no such)."""
        if x.is_cuda and x.ndim == 4:
            x = x.contiguous(memory_format=torch.channels_last)  # what a GPU's convolutions are quickest with
        if self.mean is not None and self.deviation is not None:
            x = (x - self.mean) / self.deviation
        if not self.brief:
            return self._make_network_output(self.network(x))
        with torch.autocast(x.device.type, torch.bfloat16):
            seen = self._make_network_output(self.network(x))
        # Probabilities of labels and counts of them need more digits than the network does.
        return NetworkOutput(seen.logits.float(), seen.features.float())

    def _make_network_output(self, logits: Tensor) -> NetworkOutput:
        last = self._last.pop(get_ident(), None)
        return NetworkOutput(logits, logits if last is None else last.flatten(1))

    def _remember(self, _module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        self._last[get_ident()] = inputs[0]


def linear(shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """Multinomial logistic regression."""
    return nn.Sequential(nn.Flatten(), nn.Linear(_size(shape), n_classes))


def mlp(shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """One hidden layer of 128 units, ReLU, dropout 0.5: what Cao et al. 2019 train on LabelMe."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(_size(shape), 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, n_classes)
    )


def cnn(shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """Tanno et al.'s for MNIST: four 3 × 3 convolutions (32, 32, 64, 64), ReLU, pooling after two, a global average."""
    channels = _check_image_shape(shape, "cnn")[0]
    return nn.Sequential(
        *(nn.Conv2d(channels, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1), nn.ReLU()),
        nn.MaxPool2d(2),
        *(nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 64, 3, padding=1), nn.ReLU()),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, n_classes)),
    )


def cnn_pooled(shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """Kim et al.'s for cats and dogs, which Cao et al. 2019 have as well: four convolutions, 128 units, dropout ½.

    As both programs have it. The convolutions are 3 × 3 (32, 32, 64, 64 channels), each followed by ReLU and pooling,
    the first by batch normalisation too. Images too small for four convolutions without padding (under 46 pixels) are
    padded; the programs' have about 150.
    """
    channels, height, width = _check_image_shape(shape, "cnn-pooled")
    padding = 0 if min(height, width) >= 46 else 1
    if min(height, width) < 16:
        raise InputError(f"cnn-pooled halves images four times; {height} × {width} pixels are too few. Use cnn.")
    layers: list[nn.Module] = []
    for number, (before, after) in enumerate(((channels, 32), (32, 32), (32, 64), (64, 64))):
        # The programs pool after ReLU: the same numbers, and four times as many to pass through ReLU.
        layers += [nn.Conv2d(before, after, 3, padding=padding), nn.MaxPool2d(2), nn.ReLU()]
        layers += [nn.BatchNorm2d(after)] if number == 0 else []
        height, width = (height - 2 + 2 * padding) // 2, (width - 2 + 2 * padding) // 2
    top = (nn.Flatten(), nn.Linear(64 * height * width, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, n_classes))
    return nn.Sequential(*layers, *top)


def vgg16(shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """VGG-16 for CIFAR: thirteen convolutions with batch normalisation, a global average, one linear layer."""
    before = _check_image_shape(shape, "vgg-16")[0]
    layers: list[nn.Module] = []
    for width in (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512):
        if width == 0:
            layers.append(nn.MaxPool2d(2, ceil_mode=True))
            continue
        layers += [nn.Conv2d(before, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
        before = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, n_classes))


class _Block(nn.Module):
    """A residual block: two 3 × 3 convolutions, or (`wide`) 1 × 1, 3 × 3 and 1 × 1 to four times the width."""

    def __init__(self, before: int, width: int, stride: int, *, wide: bool) -> None:
        super().__init__()
        after = 4 * width if wide else width
        sizes = [(before, width, 3, stride), (width, width, 3, 1)]
        if wide:
            sizes = [(before, width, 1, 1), (width, width, 3, stride), (width, after, 1, 1)]
        layers: list[nn.Module] = []
        for inside, outside, kernel, step in sizes:
            layers += [nn.Conv2d(inside, outside, kernel, step, kernel // 2, bias=False), nn.BatchNorm2d(outside)]
            layers += [nn.ReLU(inplace=True)]
        self.path = nn.Sequential(*layers[:-1])
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or before != after:
            self.shortcut = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.path(x) + self.shortcut(x))


def _resnet(shape: tuple[int, ...], n_classes: int, depths: tuple[int, ...], *, wide: bool, name: str) -> nn.Module:
    """He et al.'s ResNet with a 3 × 3 first convolution and no first pooling, as is usual for 32 × 32 pixels."""
    channels = _check_image_shape(shape, name)[0]
    layers: list[nn.Module] = [nn.Conv2d(channels, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True)]
    before = 64
    for stage, depth in enumerate(depths):
        for number in range(depth):
            width = 64 * 2**stage
            layers.append(_Block(before, width, 2 if stage and number == 0 else 1, wide=wide))
            before = 4 * width if wide else width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, n_classes))


def resnet18(shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """ResNet-18 for CIFAR."""
    return _resnet(shape, n_classes, (2, 2, 2, 2), wide=False, name="resnet-18")


def resnet50(shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """ResNet-50 for CIFAR."""
    return _resnet(shape, n_classes, (3, 4, 6, 3), wide=True, name="resnet-50")


def resnet9(shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """A ResNet of nine layers for CIFAR, which trains in seconds: two residual blocks between halvings (Page 2018)."""
    before = _check_image_shape(shape, "resnet-9")[0]
    layers: list[nn.Module] = []
    for width, halve, residual in ((64, False, False), (128, True, True), (256, True, False), (512, True, True)):
        layers += [nn.Conv2d(before, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
        layers += [nn.MaxPool2d(2, ceil_mode=True)] if halve else []
        layers += [_Block(width, width, 1, wide=False)] if residual else []
        before = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, n_classes))


NETWORKS: dict[str, Callable[[tuple[int, ...], int], nn.Module]] = {
    "linear": linear,
    "mlp": mlp,
    "cnn": cnn,
    "cnn-pooled": cnn_pooled,
    "resnet-18": resnet18,
    "resnet-50": resnet50,
    "resnet-9": resnet9,
    "vgg-16": vgg16,
}


def default_network(shape: tuple[int, ...]) -> str:
    """A network for features of this shape: an MLP for rows, Tanno et al.'s CNN for images."""
    return "mlp" if len(shape) == 1 else "cnn"


def build_network(network: Any, features: Features, n_classes: int) -> Classifier:
    """The classifier that `network` asks for: a name, a module of the user's, or None for what suits the features.

    Named networks see scaled features (mean 0, standard deviation 1 over the training tasks); a module of the user's
    sees them as they are. A copy of it is trained, from the weights that it has.
    """
    if isinstance(network, nn.Module):
        try:
            return Classifier(copy.deepcopy(network).to("cpu", torch.float32))
        except Exception as error:  # whatever a module of the user's can raise
            raise InputError(f"The network cannot be copied: {quote(str(error))}.") from error
    name = default_network(features.shape) if network is None else network
    if not isinstance(name, str) or name not in NETWORKS:
        raise InputError(
            f"network is {quote(str(name))}; it must be one of {', '.join(NETWORKS)}, or a torch module that "
            "returns logits."
        )
    return Classifier(NETWORKS[name](features.shape, n_classes), *features.moments())


class Sizes(NamedTuple):
    """A copy of a classifier whose tensors have sizes alone, and how many numbers its last layer sees of a task."""

    classifier: Classifier
    width: int


def find_sizes(classifier: Classifier, shape: tuple[int, ...]) -> Sizes | None:
    """The sizes of a classifier for features of this shape, found without computing anything.

    Lazy layers of the copy have learnt theirs. None for a module of the user's that needs numbers to run.
    """
    try:
        on_meta = copy.deepcopy(classifier).to("meta").eval()
        for module, given in zip(on_meta.modules(), classifier.modules(), strict=True):
            for name, parameter in given.named_parameters(recurse=False):
                if is_lazy(parameter):  # which are lazy no more, once they have been moved
                    setattr(module, name, UninitializedParameter(device="meta"))
        with torch.no_grad():
            seen = on_meta.logits_and_representation(torch.empty(1, *shape, device="meta"))
        return Sizes(on_meta, seen.features.shape[1])
    except Exception:  # whatever a module of the user's can raise
        return None


def representation_width(classifier: Classifier, features: Features) -> int:
    """How many numbers the classifier's last layer sees of a task: D of `Seen.features`."""
    sized = find_sizes(classifier, features.shape)
    if sized is not None:
        return sized.width
    was_training = classifier.training
    classifier.eval()
    with torch.no_grad():
        seen = classifier.logits_and_representation(next(features.batches(torch.arange(1), 1)))
    classifier.train(was_training)
    return seen.features.shape[1]


def _size(shape: tuple[int, ...]) -> int:
    size = 1
    for length in shape:
        size *= length
    return size


def _check_image_shape(shape: tuple[int, ...], name: str) -> tuple[int, int, int]:
    if len(shape) != 3:
        raise InputError(
            f"The network {name!r} is for images (channels, height, width); the features of a task have shape {shape}. "
            "Use network='mlp' or 'linear'."
        )
    return shape[0], shape[1], shape[2]


def check_logits(
    classifier: Classifier, features: Features, n_classes: int, smallest: int, each: str = "one for each class"
) -> None:
    """Run one batch, as for predicting and as for training, so that a network that does not fit says so before."""
    x = next(features.batches(torch.arange(min(2, len(features)), device="cpu"), 2))
    _check_logits(classifier.eval(), x, n_classes, "", each)
    # On a copy: batch normalisation would remember what it has met.
    _check_logits(copy.deepcopy(classifier).train(), x[:smallest], n_classes, ", in training,", each)
    classifier.train()


def _check_logits(classifier: Classifier, x: torch.Tensor, n_classes: int, when: str, each: str) -> None:
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            logits = classifier(x)
    except Exception as error:  # whatever a module of the user's can raise
        hint = " Batch normalisation needs batches of 2 tasks or more." if when and len(x) == 1 else ""
        raise InputError(
            f"The network cannot{when} take features of shape {tuple(x.shape[1:])}: {quote(str(error))}.{hint}"
        ) from error
    if not isinstance(logits, torch.Tensor) or tuple(logits.shape) != (len(x), n_classes):
        shape = tuple(logits.shape) if isinstance(logits, torch.Tensor) else type(logits).__name__
        raise InputError(
            f"The network{when} gives {shape} for {len(x)} tasks; it must return logits of shape "
            f"({len(x)}, {n_classes}): {each}."
        )
    if logits.is_floating_point() and logits.element_size() < 4:
        raise InputError(
            f"The network{when} gives {logits.dtype}; probabilities of labels need more digits. Let it return "
            "logits.float()."
        )
    if not logits.is_floating_point() or not logits.isfinite().all():
        raise InputError(
            f"The network{when} gives {logits.dtype} that are no logits, or not finite, before it has learnt anything. "
            "Check its weights and the scale of the features."
        )
