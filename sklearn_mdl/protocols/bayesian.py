r"""Perceptrons whose weights are distributions, and what these cost.

Weights are independent normals ``q(w) = N(m, s^2)``. Two priors are there.

*Gaussian*: ``p(w) = N(0, u^2)``, with one scale ``u`` for the weights of a layer and
one for its biases, each a power of two that is sent beforehand. The best scale given
``q`` is ``u^2 = mean(m^2 + s^2)``.

*Normal-Jeffreys* (Louizos, Ullrich and Welling, 2017; Voita and Titov, 2020): every
input ``i`` of a layer is multiplied by ``z_i``, with ``q(z_i) = N(m_i, s_i^2)`` and the
improper prior ``1 / |z_i|``, and ``p(w) = N(0, 1)`` for the weights themselves.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

# Scales of the Gaussian prior: a number among so many is sent for each group.
LOG2_SCALES = range(-10, 6)
START_LOG_VARIANCE = -6.0
# Molchanov, Ashukha and Vetrov, 2017, equation 14.
K1, K2, K3 = 0.63576, 1.87320, 1.48695


class BayesianLayer(nn.Module, ABC):
    """A linear layer with a normal distribution over its weights.

    Parameters
    ----------
    n_inputs, n_outputs : int
    spread : float
        Initial means are uniform in ``[-spread, spread]``.
    generator : torch.Generator
    """

    def __init__(
        self, n_inputs: int, n_outputs: int, spread: float, generator: torch.Generator
    ) -> None:
        super().__init__()
        draws = torch.rand(n_outputs, n_inputs, generator=generator)
        self.weight = nn.Parameter(spread * (2 * draws - 1))
        self.bias = nn.Parameter(torch.zeros(n_outputs))
        self.weight_log_variance = nn.Parameter(
            torch.full((n_outputs, n_inputs), START_LOG_VARIANCE)
        )
        self.bias_log_variance = nn.Parameter(
            torch.full((n_outputs,), START_LOG_VARIANCE)
        )

    def forward(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Draw outputs (n, n_outputs) of rows (n, n_inputs), with fresh weights each.

        Given its input, the outputs of a row are independent normals, which are drawn
        in place of the weights.
        """
        x = self._gated(x, generator)
        mean = torch.addmm(self.bias, x, self.weight.T)
        variance = torch.addmm(
            self.bias_log_variance.exp(), x.square(), self.weight_log_variance.exp().T
        )
        noise = torch.randn(mean.shape, generator=generator, device=mean.device)
        return mean + variance.sqrt() * noise

    def _gated(self, x: Tensor, generator: torch.Generator) -> Tensor:
        return x

    @abstractmethod
    def kl(self) -> Tensor:
        """Divergence of the weights from the prior in nats, to be minimised."""

    def cost(self) -> float:
        """Nats for the weights of the code: the divergence, and what the prior asks."""
        return float(self.kl())


class GaussianLayer(BayesianLayer):
    """A layer under the Gaussian prior."""

    @property
    def _groups(self) -> list[tuple[Tensor, Tensor]]:
        """Means and log-variances that share a scale."""
        return [
            (self.weight, self.weight_log_variance),
            (self.bias, self.bias_log_variance),
        ]

    def kl(self) -> Tensor:
        """Divergence at the best scales."""
        return torch.stack(
            [gaussian_kl(*group, best_log_scale(*group)) for group in self._groups]
        ).sum()

    @torch.no_grad()
    def cost(self) -> float:
        """Nats at the best scales that can be sent, and those for sending them."""
        return sum(
            float(gaussian_kl(*group, math.log(scale))) + math.log(len(LOG2_SCALES))
            for group, scale in zip(self._groups, self.scales(), strict=True)
        )

    @torch.no_grad()
    def scales(self) -> list[float]:
        """Scales of the prior that are sent, of weights and of biases."""
        logs = [float(best_log_scale(*group)) for group in self._groups]
        return [2.0 ** _nearest_log2(log) for log in logs]


class NormalJeffreysLayer(BayesianLayer):
    """A layer under the normal-Jeffreys prior, with a scale for every input."""

    def __init__(
        self, n_inputs: int, n_outputs: int, spread: float, generator: torch.Generator
    ) -> None:
        super().__init__(n_inputs, n_outputs, spread, generator)
        self.gate = nn.Parameter(torch.ones(n_inputs))
        self.gate_log_variance = nn.Parameter(
            torch.full((n_inputs,), START_LOG_VARIANCE)
        )

    def _gated(self, x: Tensor, generator: torch.Generator) -> Tensor:
        noise = torch.randn(x.shape, generator=generator, device=x.device)
        return x * (self.gate + (0.5 * self.gate_log_variance).exp() * noise)

    def kl(self) -> Tensor:
        """Divergence, for the scales up to a constant: their prior is improper."""
        log_alpha = self.gate_log_variance - (self.gate.square() + 1e-8).log()
        return (
            log_uniform_kl(log_alpha).sum()
            + gaussian_kl(self.weight, self.weight_log_variance, 0.0)
            + gaussian_kl(self.bias, self.bias_log_variance, 0.0)
        )


LAYERS: dict[str, type[BayesianLayer]] = {
    "gaussian": GaussianLayer,
    "normal-jeffreys": NormalJeffreysLayer,
}


class BayesianPerceptron(nn.Module):
    """Layers under one prior, with ReLU between them.

    Parameters
    ----------
    layer_sizes : sequence of int
        Widths from the input to the output.
    prior : {"gaussian", "normal-jeffreys"}
    seed : int
        Of the initial means.
    """

    def __init__(self, layer_sizes: Sequence[int], prior: str, seed: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        last = len(layer_sizes) - 2
        self.layers: list[BayesianLayer] = []
        for i, (n_inputs, n_outputs) in enumerate(pairwise(layer_sizes)):
            # Gates multiply: under them no layer may begin at zero, or nothing moves.
            is_zero = i == last and prior == "gaussian"
            spread = 0.0 if is_zero else n_inputs**-0.5
            self.layers.append(LAYERS[prior](n_inputs, n_outputs, spread, generator))
        self.registered = nn.ModuleList(self.layers)

    def forward(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Draw logits (n, C) of rows (n, d), with fresh weights for each row."""
        for layer in self.layers[:-1]:
            x = layer(x, generator).relu()
        logits: Tensor = self.layers[-1](x, generator)
        return logits

    def kl(self) -> Tensor:
        """Divergence of all weights from their prior, in nats."""
        return torch.stack([layer.kl() for layer in self.layers]).sum()

    @torch.no_grad()
    def cost(self) -> float:
        """Nats for the weights of the code."""
        return sum(layer.cost() for layer in self.layers)


def gaussian_kl(
    mean: Tensor, log_variance: Tensor, log_scale: Tensor | float
) -> Tensor:
    """Divergence of independent normals from ``N(0, exp(2 log_scale))``, in nats."""
    log_scale = torch.as_tensor(log_scale)
    ratio = (mean.square() + log_variance.exp()) * (-2 * log_scale).exp()
    return 0.5 * (ratio - 1 - log_variance + 2 * log_scale).sum()


def best_log_scale(mean: Tensor, log_variance: Tensor) -> Tensor:
    """Log of the scale at which the divergence of a group is least."""
    return 0.5 * (mean.square() + log_variance.exp()).mean().log()


def log_uniform_kl(log_alpha: Tensor) -> Tensor:
    """Divergence of ``N(m, s^2)`` from ``1 / |z|``, where ``alpha = s^2 / m^2``.

    Up to a constant, such that it tends to zero as alpha grows: an approximation of
    Molchanov, Ashukha and Vetrov (2017).
    """
    fitted = K1 * torch.sigmoid(K2 + K3 * log_alpha) - 0.5 * softplus(-log_alpha) - K1
    return -fitted


def _nearest_log2(log_scale: float) -> int:
    exponent = round(log_scale / math.log(2))
    return min(max(exponent, LOG2_SCALES[0]), LOG2_SCALES[-1])
