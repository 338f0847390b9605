"""The variational code: weights and labels together, by Bayesian compression."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from torch import Tensor
from torch.nn.functional import cross_entropy

from sklearn_mdl._sklearn import Interval, StrOptions
from sklearn_mdl.arithmetic import resolve_device
from sklearn_mdl.probes.base import all_or_nothing
from sklearn_mdl.probes.standardising import scaled_tensor, scaler_of
from sklearn_mdl.protocols.bayesian import BayesianPerceptron, GaussianLayer
from sklearn_mdl.protocols.labelled import Labelled, checked
from sklearn_mdl.readouts.gather import hidden_widths


class VariationalCode(BaseEstimator):
    """Variational code of Voita and Titov, of a linear or MLP probe.

    The sender learns a distribution ``q`` over the weights of a probe, and the receiver
    knows the prior ``p``. Sending weights and labels together costs, in expectation and
    with bits back::

        KL(q || p) + E_q[-log p(y | X, w)]

    nats: minus the evidence lower bound. Under the Gaussian prior that is an upper
    bound of ``-log`` of the evidence, the codelength of the Bayesian mixture of all
    weights of this probe under this prior, and so says nothing of other probes; what
    the scales of the prior cost is counted. It is one number for the whole set: it does
    not tell how labels become cheaper as they come.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int, default=()
        Widths of hidden layers with ReLU; () is a linear probe.
    prior : {"gaussian", "normal-jeffreys"}, default="gaussian"
        "gaussian": weights of a layer, and its biases, have one scale each, a power of
        two that is sent. "normal-jeffreys": Voita and Titov's, with a scale for every
        input and the improper prior ``1 / |z|`` on it, so that the divergence is known
        up to a constant for each input only: no codelength, strictly, and to be
        compared between features of one width.
    lr : float, default=0.03
        Step size of Adam, which falls linearly to zero.
    n_steps : int, default=1000
        Steps of Adam.
    batch_size : int, default=1024
        Rows of a minibatch, at most.
    n_draws : int, default=32
        Draws of the weights by which the expected loss is measured at the end.
    scaling : {"standard"} or None, default="standard"
        Standardise features, by all rows: the receiver has them.
    device : str, default="auto"
        Torch device; "auto" takes a GPU where there is one.
    random_state : int, RandomState instance or None, default=None
        Initial weights, minibatches and draws.

    Attributes
    ----------
    codelength_ : float
        ``weights_codelength_ + labels_codelength_``, in nats.
    weights_codelength_ : float
        The divergence, and what sending the scales of a Gaussian prior takes.
    labels_codelength_ : float
        Expected log-loss of all labels under ``q``, as measured.
    standard_error_ : float
        Of that measurement, in nats.
    prior_scales_ : list of (float, float) or None
        Scales of weights and biases of each layer, of a Gaussian prior.
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
    >>> from sklearn_mdl import VariationalCode
    >>> code = VariationalCode(n_steps=300, random_state=0)
    >>> code.fit(*load_wine(return_X_y=True)).compression_ > 1
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
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

    def __init__(
        self,
        hidden_layer_sizes: Any = (),
        *,
        prior: str = "gaussian",
        lr: float = 0.03,
        n_steps: int = 1000,
        batch_size: int = 1024,
        n_draws: int = 32,
        scaling: str | None = "standard",
        device: str = "auto",
        random_state: Any = None,
    ) -> None:
        self.hidden_layer_sizes = hidden_layer_sizes
        self.prior = prior
        self.lr = lr
        self.n_steps = n_steps
        self.batch_size = batch_size
        self.n_draws = n_draws
        self.scaling = scaling
        self.device = device
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the distribution over weights, and measure what all costs.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If there is one class only, or if the weights diverged.
        """
        self._validate_params()
        widths = hidden_widths(self.hidden_layer_sizes)
        device = resolve_device(self.device)
        with all_or_nothing(self):
            self._code(checked(self, X, y), widths, device)
        return self

    def _code(
        self, data: Labelled, widths: tuple[int, ...], device: torch.device
    ) -> None:
        scaler = None if self.scaling is None else scaler_of(data.X)
        x = scaled_tensor(data.X, scaler, device)
        y = torch.tensor(data.labels, device=device)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        sizes = (x.shape[1], *widths, len(data.classes))
        net = BayesianPerceptron(sizes, self.prior, seed).to(device)
        generator = torch.Generator(device).manual_seed(seed)
        plan = _Plan(self.lr, self.n_steps, self.batch_size, seed)
        _learn(net, x, y, plan, generator)
        labels, error = _expected_loss(net, x, y, self.n_draws, generator)
        if not math.isfinite(labels) or not math.isfinite(float(net.kl().detach())):
            raise ValueError(
                "VariationalCode needs weights that stay finite, but they diverged; "
                "lower lr or scale the features"
            )
        weights = net.cost()
        self.classes_, self.uniform_codelength_ = data.classes, data.uniform
        self.weights_codelength_, self.labels_codelength_ = weights, labels
        self.standard_error_ = error
        self.codelength_ = weights + labels
        self.compression_ = data.uniform / self.codelength_
        self.prior_scales_ = None
        if self.prior == "gaussian":
            self.prior_scales_ = [
                tuple(layer.scales())
                for layer in net.layers
                if isinstance(layer, GaussianLayer)
            ]


class _Plan(NamedTuple):
    """How a distribution is learned."""

    lr: float
    n_steps: int
    batch_size: int
    seed: int


def _learn(
    net: BayesianPerceptron,
    x: Tensor,
    y: Tensor,
    plan: _Plan,
    generator: torch.Generator,
) -> None:
    """Minimise the codelength per label on minibatches."""
    optimizer = torch.optim.Adam(net.parameters(), lr=plan.lr)
    decay = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: 1 - step / plan.n_steps
    )
    rng = np.random.default_rng(plan.seed)
    n_parts = -(-len(y) // plan.batch_size)
    batches: list[np.ndarray] = []
    for _ in range(plan.n_steps):
        if not batches:
            batches = np.array_split(rng.permutation(len(y)), n_parts)
        rows = torch.from_numpy(batches.pop()).to(y.device)
        optimizer.zero_grad()
        loss = cross_entropy(net(x[rows], generator), y[rows])
        (loss + net.kl() / len(y)).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        decay.step()


@torch.no_grad()
def _expected_loss(
    net: BayesianPerceptron,
    x: Tensor,
    y: Tensor,
    n_draws: int,
    generator: torch.Generator,
) -> tuple[float, float]:
    """Measure the expected loss of all labels in nats, and its standard error."""
    draws = torch.stack(
        [
            cross_entropy(net(x, generator).double(), y, reduction="none")
            for _ in range(n_draws)
        ]
    )
    # Rows are drawn independently of each other, so that their variances add up.
    variance = draws.var(0).sum() / n_draws
    return float(draws.mean(0).sum()), float(variance.sqrt())
