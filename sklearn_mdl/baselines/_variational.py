r"""Variational code, which transmits the weights of a probe and the labels.

Weights are independent normals ``q(w) = N(m, s^2)``. There are two priors.

*Gaussian*: ``p(w) = N(0, u^2)``, with one scale ``u`` for the weights of a layer and
one for its biases. Each scale is a power of two that is sent first. Given ``q``, the
best scale satisfies ``u^2 = mean(m^2 + s^2)``.

*Normal-Jeffreys* (Louizos, Ullrich and Welling, 2017; Voita and Titov, 2020): every
input ``i`` of a layer is multiplied by ``z_i``, with ``q(z_i) = N(m_i, s_i^2)`` and the
improper prior ``1 / |z_i|``. The weights themselves have ``p(w) = N(0, 1)``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import pairwise
from numbers import Integral, Real
from typing import ClassVar, cast

import numpy as np
import torch
from sklearn.utils import check_random_state
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, softplus

from sklearn_mdl._core.numerics import resolve_device
from sklearn_mdl._core.sklearn_compat import Constraints, Interval, StrOptions
from sklearn_mdl.baselines._base import (
    Labelled,
    LabelledEstimator,
    Seed,
    scaled_tensor,
    scaler_of,
)
from sklearn_mdl.readouts import hidden_widths


@dataclass(eq=False, repr=False)
class VariationalCode(LabelledEstimator):
    """Variational code of Voita and Titov, with a linear or MLP probe.

    The sender learns a distribution ``q`` over the weights of a probe, and the receiver
    knows the prior ``p``. With bits-back coding, the expected cost of sending weights
    and labels is::

        KL(q || p) + E_q[-log p(y | X, w)]

    nats, which is minus the evidence lower bound. Under the Gaussian prior, this cost
    includes the scales of the prior. It is then an upper bound on minus the log
    evidence, which is the codelength under the Bayesian mixture over all weights of the
    probe. There is one number for all labels, but no learning curve.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int, default=()
        Widths of hidden layers with ReLU. ``()`` gives a linear probe.
    prior : {"gaussian", "normal-jeffreys"}, default="gaussian"
        With "gaussian", the weights and the biases of a layer have one scale each, a
        power of two that is sent. "normal-jeffreys" is Voita and Titov's prior, with a
        random factor ``z`` for every input and the improper prior ``1 / |z|`` on ``z``.
        The divergence is then only known up to a constant per input. So the result is
        not strictly a codelength, and you can only compare it between features of equal
        width.
    lr : float, default=0.03
        Step size of Adam, which decreases linearly to zero.
    n_steps : int, default=1000
        Steps of Adam.
    batch_size : int, default=1024
        Largest number of rows in a minibatch.
    n_draws : int, default=32
        Number of draws of the weights to average over for ``labels_codelength_``.
    scaling : {"standard"} or None, default="standard"
        Standardise features with all rows, which the receiver also has.
    device : str, default="auto"
        Torch device. "auto" uses a GPU if one is available.
    random_state : int, RandomState instance or None, default=None
        Seed of initial weights, minibatches and draws.

    Attributes
    ----------
    codelength_ : float
        ``weights_codelength_ + labels_codelength_``, in nats.
    weights_codelength_ : float
        The divergence in nats, plus the cost of the scales for a Gaussian prior.
    labels_codelength_ : float
        Expected log-loss of all labels under ``q`` in nats, estimated from draws of the
        weights.
    standard_error_ : float
        Standard error of ``labels_codelength_``, in nats.
    prior_scales_ : list of (float, float) or None
        Scales of the weights and of the biases of each layer under a Gaussian prior, or
        None under the normal-Jeffreys prior.
    uniform_codelength_ : float
        ``N log C`` nats.
    compression_ : float
        ``uniform_codelength_ / codelength_``.
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int

    References
    ----------
    Voita and Titov, 2020, Information-theoretic probing with minimum description
    length, EMNLP, section 3.1. Louizos, Ullrich and Welling, 2017, Bayesian compression
    for deep learning, NeurIPS. Honkela and Valpola, 2004, Variational learning and
    bits-back coding, IEEE Transactions on Neural Networks 15.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn_mdl.baselines import VariationalCode
    >>> code = VariationalCode(n_steps=300, random_state=0)
    >>> code.fit(*load_wine(return_X_y=True)).compression_ > 1
    True
    """

    hidden_layer_sizes: int | Sequence[int] = ()
    _: KW_ONLY
    prior: str = "gaussian"
    lr: float = 0.03
    n_steps: int = 1000
    batch_size: int = 1024
    n_draws: int = 32
    scaling: str | None = "standard"
    device: str = "auto"
    random_state: Seed = None

    _parameter_constraints: ClassVar[Constraints] = {
        "hidden_layer_sizes": ["array-like", Sequence, Integral],
        "prior": [StrOptions({"gaussian", "normal-jeffreys"})],
        "lr": [Interval(Real, 0, None, closed="neither")],
        "n_steps": [Interval(Integral, 1, None, closed="left")],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "n_draws": [Interval(Integral, 2, None, closed="left")],
        "scaling": [StrOptions({"standard"}), None],
        "device": [str],
        "random_state": ["random_state"],
    }

    def _fit(self, data: Labelled) -> None:
        widths = hidden_widths(self.hidden_layer_sizes)
        device = resolve_device(self.device)
        scaler = None if self.scaling is None else scaler_of(data.X)
        x = scaled_tensor(data.X, scaler, device)
        y = torch.tensor(data.labels, device=device)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        sizes = (x.shape[1], *widths, len(data.classes))
        net = BayesianPerceptron(sizes, self.prior, seed, device)
        self._learn(net, x, y, np.random.default_rng(seed))
        labels, error = _expected_loss(net, x, y, self.n_draws)
        if not math.isfinite(labels) or not math.isfinite(float(net.kl().detach())):
            cure = f"pass lr={min(0.003, self.lr / 10):g}"
            cure += " and scaling='standard'" * (self.scaling is None)
            raise ValueError(f"The weights must converge, but diverged; {cure}")
        self.uniform_codelength_ = data.uniform
        self.weights_codelength_, self.labels_codelength_ = net.cost(), labels
        self.standard_error_ = error
        self.codelength_ = self.weights_codelength_ + labels
        self.compression_ = data.uniform / self.codelength_
        gaussian = [layer for layer in net.layers if isinstance(layer, GaussianLayer)]
        self.prior_scales_ = [tuple(layer.scales()) for layer in gaussian] or None

    def _learn(
        self, net: BayesianPerceptron, x: Tensor, y: Tensor, rng: np.random.Generator
    ) -> None:
        """Minimise the codelength per label on minibatches."""
        optimizer = torch.optim.Adam(net.parameters(), lr=self.lr)
        decay = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: 1 - step / self.n_steps
        )
        n_parts = -(-len(y) // self.batch_size)
        batches: list[np.ndarray] = []
        for _ in range(self.n_steps):
            if not batches:
                batches = np.array_split(rng.permutation(len(y)), n_parts)
            rows = torch.from_numpy(batches.pop()).to(y.device)
            optimizer.zero_grad()
            loss = cross_entropy(net(x[rows]), y[rows])
            (loss + net.kl() / len(y)).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            decay.step()


@torch.no_grad()
def _expected_loss(
    net: BayesianPerceptron, x: Tensor, y: Tensor, n_draws: int
) -> tuple[float, float]:
    """Return the expected loss of all labels in nats, and its standard error."""
    outputs = (net(x).double() for _ in range(n_draws))
    draws = torch.stack([cross_entropy(o, y, reduction="none") for o in outputs])
    # Weights are drawn independently for each row, so variances add up.
    return float(draws.mean(0).sum()), float((draws.var(0).sum() / n_draws).sqrt())


# Binary logs of the Gaussian prior's possible scales.
LOG2_SCALES = range(-10, 6)
START_LOG_VARIANCE = -6.0
# Molchanov, Ashukha and Vetrov, 2017, equation 14.
K1, K2, K3 = 0.63576, 1.87320, 1.48695


def _log_variances(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.full(shape, START_LOG_VARIANCE))


class BayesianLayer(nn.Module, ABC):
    """A linear layer whose weights have a normal distribution.

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
        self.weight_log_variance = _log_variances(n_outputs, n_inputs)
        self.bias_log_variance = _log_variances(n_outputs)

    def forward(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Draw outputs (n, n_outputs) of rows (n, n_inputs), with new weights per row.

        The outputs of a row are independent normals, so it suffices to draw these
        instead of the weights.
        """
        x = self._gated(x, generator)
        mean = torch.addmm(self.bias, x, self.weight.T)
        variances = self.weight_log_variance.exp()
        variance = torch.addmm(self.bias_log_variance.exp(), x.square(), variances.T)
        noise = torch.randn(mean.shape, generator=generator, device=mean.device)
        return mean + variance.sqrt() * noise

    def _gated(self, x: Tensor, generator: torch.Generator) -> Tensor:
        return x

    @abstractmethod
    def kl(self) -> Tensor:
        """Return the divergence of the weights from the prior, in nats."""

    def cost(self) -> float:
        """Return the cost of the weights in nats, by default the divergence."""
        return float(self.kl())


class GaussianLayer(BayesianLayer):
    """Bayesian layer with the Gaussian prior."""

    @property
    def _groups(self) -> list[tuple[Tensor, Tensor]]:
        """Return means and log-variances of the weights, and those of the biases."""
        weights = self.weight, self.weight_log_variance
        return [weights, (self.bias, self.bias_log_variance)]

    def kl(self) -> Tensor:
        """Return the divergence from the prior with the best scales, in nats."""
        kls = [gaussian_kl(*group, best_log_scale(*group)) for group in self._groups]
        return torch.stack(kls).sum()

    @torch.no_grad()
    def cost(self) -> float:
        """Return the divergence for the scales sent, plus the cost of these scales."""
        return sum(
            float(gaussian_kl(*group, math.log(scale))) + math.log(len(LOG2_SCALES))
            for group, scale in zip(self._groups, self.scales(), strict=True)
        )

    @torch.no_grad()
    def scales(self) -> list[float]:
        """Return the scales to send, one for the weights and one for the biases."""
        logs = [float(best_log_scale(*group)) / math.log(2) for group in self._groups]
        low, high = LOG2_SCALES[0], LOG2_SCALES[-1]
        return [2.0 ** min(max(round(x), low), high) for x in logs]


class NormalJeffreysLayer(BayesianLayer):
    """Bayesian layer with the normal-Jeffreys prior, which gates every input."""

    def __init__(
        self, n_inputs: int, n_outputs: int, spread: float, generator: torch.Generator
    ) -> None:
        super().__init__(n_inputs, n_outputs, spread, generator)
        self.gate = nn.Parameter(torch.ones(n_inputs))
        self.gate_log_variance = _log_variances(n_inputs)

    def _gated(self, x: Tensor, generator: torch.Generator) -> Tensor:
        noise = torch.randn(x.shape, generator=generator, device=x.device)
        return x * (self.gate + (0.5 * self.gate_log_variance).exp() * noise)

    def kl(self) -> Tensor:
        """Return the divergence, up to a constant for the gates' improper prior."""
        log_alpha = self.gate_log_variance - (self.gate.square() + 1e-8).log()
        return (
            log_uniform_kl(log_alpha).sum()
            + gaussian_kl(self.weight, self.weight_log_variance, 0.0)
            + gaussian_kl(self.bias, self.bias_log_variance, 0.0)
        )


class BayesianPerceptron(nn.Module):
    """Multilayer perceptron of Bayesian layers with the same prior.

    Parameters
    ----------
    layer_sizes : sequence of int
        Widths from the input to the output.
    prior : {"gaussian", "normal-jeffreys"}
    seed : int
        Seed of the initial means and of the draws.
    device : torch.device
    """

    def __init__(
        self, layer_sizes: Sequence[int], prior: str, seed: int, device: torch.device
    ) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        is_gaussian, last = prior == "gaussian", len(layer_sizes) - 2
        kind = GaussianLayer if is_gaussian else NormalJeffreysLayer
        self.layers: list[BayesianLayer] = []
        for i, (n_inputs, n_outputs) in enumerate(pairwise(layer_sizes)):
            spread = 0.0 if is_gaussian and i == last else n_inputs**-0.5
            self.layers.append(kind(n_inputs, n_outputs, spread, generator))
        self.registered = nn.ModuleList(self.layers).to(device)
        self.draws = torch.Generator(device).manual_seed(seed)

    def forward(self, x: Tensor) -> Tensor:
        """Draw logits (n, C) of rows (n, d), with fresh weights for each row."""
        for layer in self.layers[:-1]:
            x = layer(x, self.draws).relu()
        return cast(Tensor, self.layers[-1](x, self.draws))

    def kl(self) -> Tensor:
        """Return the divergence of all weights from their prior in nats."""
        return torch.stack([layer.kl() for layer in self.layers]).sum()

    @torch.no_grad()
    def cost(self) -> float:
        """Return the cost of all weights in nats."""
        return sum(layer.cost() for layer in self.layers)


def gaussian_kl(
    mean: Tensor, log_variance: Tensor, log_scale: Tensor | float
) -> Tensor:
    """Return the divergence of normals from ``N(0, exp(2 log_scale))`` in nats."""
    log_scale = torch.as_tensor(log_scale)
    ratio = (mean.square() + log_variance.exp()) * (-2 * log_scale).exp()
    return 0.5 * (ratio - 1 - log_variance + 2 * log_scale).sum()


def best_log_scale(mean: Tensor, log_variance: Tensor) -> Tensor:
    """Return the log of the prior's scale that minimises the divergence."""
    return 0.5 * (mean.square() + log_variance.exp()).mean().log()


def log_uniform_kl(log_alpha: Tensor) -> Tensor:
    """Return the divergence of ``N(m, s^2)`` from ``1 / |z|``.

    It depends only on ``alpha = s^2 / m^2``, and is known up to a constant, chosen here
    so that the result tends to zero as ``alpha`` grows. The approximation is by
    Molchanov, Ashukha and Vetrov (2017).
    """
    return -(K1 * torch.sigmoid(K2 + K3 * log_alpha) - 0.5 * softplus(-log_alpha) - K1)
