"""Laws of the stacked modules: gradients, updates and averages, member by member."""

import copy
import importlib
import math
import pickle
import sys

import numpy as np
import pytest
import torch
from each_case import for_each
from memory_limit import two_gigabytes
from torch import nn

from sklearn_mdl import LinearReadout, MDLReadoutSwitcher, MLPReadout
from sklearn_mdl._core import nets
from sklearn_mdl._core.nets import adamw
from sklearn_mdl._core.nets.adamw import StackedAdamW
from sklearn_mdl._core.nets.losses import StackedCrossEntropy, log_softmax, softmax
from sklearn_mdl._core.nets.mlp import StackedAverages, StackedLinear, StackedMLP

# Widths from features to classes; small and odd, so that kernels have edges.
SIZES = [(5, 3), (7, 10), (64, 10), (6, 5, 3), (4, 9, 2, 3), (3, 4, 6, 5, 2)]
SETTINGS = {
    "lr": [1e-3, 3e-2, 1e-2, 3e-3],
    "beta1": [0.9, 0.5, 0.7, 0.9],
    "beta2": [0.999, 0.9, 0.99, 0.999],
    "eps": [1e-8, 1e-4, 1e-8, 1e-2],
    "weight_decay": [0.0, 1e-2, 1.0, 1e-4],
}
SMOOTHING = [0.0, 0.1, 0.03, 0.5]
SEEDS = [3, 1, 4, 1]
K = len(SEEDS)

sizes_of_every_depth = for_each("sizes", SIZES)


class Stack:
    """Module, criterion and optimiser of some of the members above."""

    def __init__(self, sizes, members=range(K)):
        self.net = StackedMLP(sizes, [SEEDS[k] for k in members])
        self.loss = StackedCrossEntropy([SMOOTHING[k] for k in members], sizes[-1])
        settings = {n: [column[k] for k in members] for n, column in SETTINGS.items()}
        self.optimizer = StackedAdamW(self.net.parameters(), **settings)

    @torch.no_grad()
    def step(self, x, y):
        activations = self.net.activations(x)
        gradient = self.loss.gradient(activations[-1], y)
        self.net.backward(activations, gradient)
        self.optimizer.update()
        return activations[-1]


def minibatches(sizes, n_batches, batch_size=32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(n_batches):
        x = torch.randn(batch_size, sizes[0], generator=generator)
        yield x, torch.randint(sizes[-1], (batch_size,), generator=generator)


def with_random_output(net, seed=0):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in net.layers[-1].parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return net


def as_sequential(net, member):
    """Copy one member into torch's own layers."""
    layers = []
    for stacked in net.layers:
        layer = nn.Linear(*stacked.weight.shape[:0:-1])
        with torch.no_grad():
            layer.weight.copy_(stacked.weight[member])
            layer.bias.copy_(stacked.bias[member, 0])
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def weights_of(net, member):
    return [parameter[member] for parameter in net.parameters()]


def assert_all_equal(found, expected):
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one, other)


# Forward


@sizes_of_every_depth
def test_each_member_computes_what_a_sequential_of_its_weights_does(sizes):
    net = with_random_output(StackedMLP(sizes, SEEDS))
    ((x, _),) = minibatches(sizes, 1)
    found = net(x)
    assert found.shape == (K, 32, sizes[-1])
    for k in range(K):
        torch.testing.assert_close(found[k], as_sequential(net, k)(x))


def test_stacked_linear_is_an_affine_map_for_each_member():
    layer = StackedLinear(2, 3, 1)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[[1.0, 2, 3]], [[0, 0, 1]]]))
        layer.bias.copy_(torch.tensor([[[10.0]], [[20]]]))
    x = torch.tensor([[[1.0, 1, 1]], [[5, 5, 5]]])
    assert layer(x).flatten().tolist() == [16, 25]


def test_members_may_each_see_their_own_rows():
    sizes = (4, 5, 3)
    net = with_random_output(StackedMLP(sizes, SEEDS))
    x = torch.randn(K, 8, 4)
    for k in range(K):
        assert torch.equal(net(x)[k], net(x[k])[k])


@sizes_of_every_depth
def test_new_stack_predicts_uniformly(sizes):
    ((x, _),) = minibatches(sizes, 1)
    log_proba = StackedMLP(sizes, SEEDS)(x).double().log_softmax(-1)
    torch.testing.assert_close(
        log_proba, torch.full_like(log_proba, -math.log(sizes[-1])), rtol=0, atol=1e-15
    )


def test_hidden_weights_depend_on_the_members_seed_alone():
    net = StackedMLP((6, 5, 3), SEEDS)
    assert_all_equal(weights_of(net, 1), weights_of(net, 3))  # the same seed
    assert not torch.equal(net.layers[0].weight[0], net.layers[0].weight[1])
    for k in range(K):
        alone = StackedMLP((6, 5, 3), [SEEDS[k]])
        assert_all_equal(weights_of(net, k), weights_of(alone, 0))


def test_hidden_weights_are_spread_as_in_torchs_linear_layer():
    weight, bias = StackedMLP((400, 300, 2), [0]).pairs[0]
    theirs_too = nn.Linear(400, 300).parameters()
    for own, theirs in zip((weight, bias), theirs_too, strict=True):
        bound = 1 / math.sqrt(400)
        assert own.abs().max() <= bound
        assert own.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.1)
        assert own.std().item() == pytest.approx(theirs.std().item(), rel=0.15)


def test_making_a_stack_leaves_the_global_generator_alone():
    before = torch.get_rng_state()
    StackedMLP((6, 5, 3), SEEDS)
    assert torch.equal(torch.get_rng_state(), before)


# Loss and gradients


@for_each("smoothing", [0.0, 0.1, 0.7])
def test_loss_is_the_sum_over_members_of_torchs_cross_entropy(smoothing):
    logits, labels = 3 * torch.randn(K, 20, 5), torch.randint(5, (20,))
    found = StackedCrossEntropy([smoothing] * K, 5)(logits, labels)
    expected = sum(
        nn.functional.cross_entropy(own, labels, label_smoothing=smoothing)
        for own in logits
    )
    torch.testing.assert_close(found, expected)


def test_each_member_has_its_own_label_smoothing():
    logits, labels = torch.randn(K, 20, 5), torch.randint(5, (20,))
    found = StackedCrossEntropy(SMOOTHING, 5)(logits, labels)
    expected = sum(
        nn.functional.cross_entropy(own, labels, label_smoothing=share)
        for own, share in zip(logits, SMOOTHING, strict=True)
    )
    torch.testing.assert_close(found, expected)


def test_hand_worked_gradient_of_the_loss():
    # Uniform prediction of two classes, one row of the first: (1/2 - 1, 1/2 - 0); with
    # a share of 0.2 spread evenly the targets are 0.9 and 0.1.
    logits, labels = torch.zeros(2, 1, 2), torch.tensor([0])
    gradient = StackedCrossEntropy([0.0, 0.2], 2).gradient(logits, labels)
    torch.testing.assert_close(
        gradient, torch.tensor([[[-0.5, 0.5]], [[-0.4, 0.4]]]), rtol=0, atol=1e-7
    )


def test_label_smoothing_takes_no_table_of_classes_by_classes():
    n_classes = 300_000  # squared, and of four bytes each, 335 GiB
    labels = torch.tensor([0, n_classes - 1])
    loss = StackedCrossEntropy([0.1, 0.2], n_classes)
    logits = torch.zeros(2, 2, n_classes)
    with two_gigabytes():
        gradient = loss.gradient(logits, labels)
        assert loss(logits, labels).item() == pytest.approx(2 * np.log(n_classes))
    assert sum(buffer.numel() for buffer in loss.buffers()) == 4
    for member, share in enumerate((0.1, 0.2)):
        slopes = gradient[member, 1] * len(labels)
        assert slopes[-1].item() == pytest.approx(share - 1, rel=1e-4)
        assert slopes[:-1].unique().numel() == 1


def test_many_classes_take_memory_by_their_number_alone():
    y = np.array([7, 9999] * 8)
    readouts = [LinearReadout(label_smoothing=0.1), MLPReadout((4,))]
    switcher = MDLReadoutSwitcher(readouts, random_state=0, batch_size=4, device="cpu")
    with two_gigabytes(2**28):  # 40,000 squared, and of four bytes each, 6 GiB
        switcher.partial_fit(np.ones((16, 2)), y, classes=np.arange(40_000))
    assert np.isfinite(switcher.codelengths_).all()


@sizes_of_every_depth
@for_each("smoothing", [SMOOTHING, [0.1] * K])
def test_written_out_gradients_equal_autograd(sizes, smoothing):
    net = with_random_output(StackedMLP(sizes, SEEDS)).double()
    loss = StackedCrossEntropy(smoothing, sizes[-1]).double()
    ((x, y),) = minibatches(sizes, 1)
    x = x.double()
    expected = torch.autograd.grad(loss(net(x), y), list(net.parameters()))
    with torch.no_grad():
        activations = net.activations(x)
        net.backward(activations, loss.gradient(activations[-1], y))
    # Double precision, but for the table of targets.
    for parameter, gradient in zip(net.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-6, atol=1e-7)


def test_written_out_gradients_replace_those_of_the_step_before():
    sizes = (6, 5, 3)
    stack = Stack(sizes)
    first, second = minibatches(sizes, 2)
    stack.step(*first)
    other = copy.deepcopy(stack.net)
    with torch.no_grad():
        for net in (stack.net, other):
            activations = net.activations(second[0])
            net.backward(activations, stack.loss.gradient(activations[-1], second[1]))
    found, expected = ([p.grad for p in net.parameters()] for net in (stack.net, other))
    assert_all_equal(found, expected)


# The optimiser


@pytest.fixture(params=["_FusedCalls", "_Formula", "_Kernels"])
def update(request, monkeypatch):
    """Each way of taking a step: a CPU takes the first, a GPU the last."""
    name = "sklearn_mdl._core.nets.adamw_kernel"
    if request.param == "_Kernels":
        pytest.importorskip("triton")
        monkeypatch.setenv("TRITON_INTERPRET", "1")  # on a CPU, by numpy
        monkeypatch.delitem(sys.modules, name, raising=False)
        monkeypatch.setattr(
            nets, "adamw_kernel", importlib.import_module(name), raising=False
        )
    way = getattr(adamw, request.param)
    monkeypatch.setattr(adamw, "_way_of", lambda device: way)
    yield
    sys.modules.pop(name, None)


class Alone:
    """One member of a stack as torch's layers, trained by autograd and AdamW."""

    def __init__(self, net, member):
        self.net = as_sequential(net, member)
        own = {name: column[member] for name, column in SETTINGS.items()}
        betas = own.pop("beta1"), own.pop("beta2")
        self.optimizer = torch.optim.AdamW(self.net.parameters(), betas=betas, **own)
        self.criterion = nn.CrossEntropyLoss(label_smoothing=SMOOTHING[member])

    def step(self, x, y):
        self.optimizer.zero_grad()
        self.criterion(self.net(x), y).backward()
        self.optimizer.step()


@sizes_of_every_depth
@pytest.mark.usefixtures("update")
def test_training_equals_torchs_layers_autograd_and_adamw(sizes):
    stack = Stack(sizes)
    with_random_output(stack.net)
    members = [Alone(stack.net, k) for k in range(K)]
    for x, y in minibatches(sizes, 20):
        for trained in [stack, *members]:
            trained.step(x, y)
    for k, member in enumerate(members):
        expected = weights_of(as_stack_of_one(member.net), 0)
        for found, own in zip(weights_of(stack.net, k), expected, strict=True):
            torch.testing.assert_close(found, own, atol=1e-5, rtol=1e-5)


def as_stack_of_one(sequential):
    linear = [layer for layer in sequential if isinstance(layer, nn.Linear)]
    sizes = (linear[0].in_features, *(layer.out_features for layer in linear))
    net = StackedMLP(sizes, [0])
    with torch.no_grad():
        for stacked, layer in zip(net.layers, linear, strict=True):
            stacked.weight.copy_(layer.weight[None])
            stacked.bias.copy_(layer.bias[None, None])
    return net


@pytest.mark.usefixtures("update")
def test_one_member_equals_adamw_on_any_gradients():
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(K, 5, 3, generator=generator)
    stacked = nn.Parameter(start.clone())
    optimizer = StackedAdamW([stacked], **SETTINGS)
    alone = [nn.Parameter(part.clone()) for part in start]
    others = [
        torch.optim.AdamW([p], lr=lr, betas=(beta1, beta2), eps=eps, weight_decay=decay)
        for p, (lr, beta1, beta2, eps, decay) in zip(
            alone, zip(*SETTINGS.values(), strict=True), strict=True
        )
    ]
    for _ in range(20):
        gradient = torch.randn(start.shape, generator=generator)
        stacked.grad = gradient
        optimizer.step()
        for p, other, own in zip(alone, others, gradient, strict=True):
            p.grad = own
            other.step()
    torch.testing.assert_close(stacked.data, torch.stack(alone), atol=1e-5, rtol=1e-5)


@pytest.mark.usefixtures("update")
def test_hand_worked_first_step_of_adamw():
    # The first step of Adam is lr * sign(gradient), after a decay of lr * decay.
    p = nn.Parameter(torch.tensor([[1.0, -2.0], [1.0, -2.0]]))
    columns = {"beta1": [0.9] * 2, "beta2": [0.999] * 2, "eps": [1e-12] * 2}
    optimizer = StackedAdamW([p], lr=[0.1, 0.01], weight_decay=[0.0, 0.5], **columns)
    p.grad = torch.tensor([[3.0, -4.0], [3.0, -4.0]])
    optimizer.step()
    expected = [[0.9, -1.9], [0.995 - 0.01, -1.99 + 0.01]]
    torch.testing.assert_close(p.data, torch.tensor(expected))


def test_step_with_a_closure_takes_its_gradients_and_returns_its_loss():
    sizes = (6, 5, 3)
    by_hand, recorded = Stack(sizes), Stack(sizes)
    ((x, y),) = minibatches(sizes, 1)
    by_hand.step(x, y)

    def closure():
        recorded.optimizer.zero_grad()
        loss = recorded.loss(recorded.net(x), y)
        loss.backward()
        return loss

    loss = recorded.optimizer.step(closure)
    assert loss.item() == pytest.approx(K * math.log(3), rel=1e-5)
    for k in range(K):
        for one, other in zip(
            weights_of(by_hand.net, k), weights_of(recorded.net, k), strict=True
        ):
            torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


# A stack equals its parts


@sizes_of_every_depth
@for_each("members", [(0, 1, 2, 3), (3, 0, 2, 1), (2, 1)])
def test_stack_equals_stacks_of_one_bitwise_in_any_order(sizes, members):
    together = Stack(sizes, members)
    parts = [Stack(sizes, [k]) for k in members]
    for x, y in minibatches(sizes, 15):
        logits = together.step(x, y)
        for place, part in enumerate(parts):
            assert torch.equal(part.step(x, y)[0], logits[place])
    for place, part in enumerate(parts):
        assert_all_equal(weights_of(part.net, 0), weights_of(together.net, place))


@for_each("last", [1, 5, 31])
def test_stack_equals_its_parts_on_minibatches_of_any_size(last):
    sizes = (7, 5, 3)
    together, alone = Stack(sizes), Stack(sizes, [2])
    for x, y in [*minibatches(sizes, 3), *minibatches(sizes, 3, last)]:
        assert torch.equal(together.step(x, y)[2], alone.step(x, y)[0])


def test_divergent_member_leaves_the_others_alone():
    sizes = (6, 5, 3)
    stack, alone = Stack(sizes), Stack(sizes, [2])
    with torch.no_grad():
        for parameter in stack.net.parameters():
            parameter[1] = math.nan
    for x, y in minibatches(sizes, 5):
        logits = stack.step(x, y)
        assert logits[1].isnan().all()
        assert torch.equal(alone.step(x, y)[0], logits[2])


def test_picked_members_are_copies():
    net = with_random_output(StackedMLP((6, 5, 3), SEEDS))
    picked = net.pick([2, 0])
    for place, k in enumerate((2, 0)):
        assert_all_equal(weights_of(picked, place), weights_of(net, k))
    assert not any(parameter.requires_grad for parameter in picked.parameters())
    with torch.no_grad():
        for parameter in picked.parameters():
            parameter.fill_(7)
    x = torch.randn(4, 6)
    torch.testing.assert_close(picked(x)[0], as_sequential(picked, 0)(x))
    assert not any((parameter == 7).any() for parameter in net.parameters())


# Put down and taken up again


def through_pickle(thing):
    return pickle.loads(pickle.dumps(thing))


def through_state_dict(stack):
    other = Stack((6, 5, 3))
    other.net.load_state_dict(copy.deepcopy(stack.net.state_dict()))
    other.optimizer.load_state_dict(copy.deepcopy(stack.optimizer.state_dict()))
    return other


@for_each("copied", [copy.deepcopy, through_pickle, through_state_dict])
def test_copy_made_on_the_way_goes_on_as_the_original_does(copied):
    batches = list(minibatches((6, 5, 3), 20))
    straight, stack = Stack((6, 5, 3)), Stack((6, 5, 3))
    for x, y in batches[:9]:
        straight.step(x, y)
        stack.step(x, y)
    other = copied(stack)
    for x, y in batches[9:]:
        expected = straight.step(x, y)
        assert torch.equal(other.step(x, y), expected)
        assert torch.equal(stack.step(x, y), expected)


def test_copy_and_original_do_not_touch_each_other():
    batches = list(minibatches((6, 5, 3), 6))
    stack = Stack((6, 5, 3))
    for x, y in batches[:3]:
        stack.step(x, y)
    kept = [parameter.detach().clone() for parameter in stack.net.parameters()]
    other = copy.deepcopy(stack)
    for x, y in batches[3:]:
        other.step(x, y)
    assert_all_equal(stack.net.parameters(), kept)


# Averages

RULES = [
    (0, 1.0, True),
    (1, 0.1, True),
    (1, 0.1, False),
    (0, 0.5, True),
    (1, 1.0, False),
]


def averages_of(net, rules):
    sources, steps, warmup = zip(*rules, strict=True)
    return StackedAverages(net, sources, steps, warmup)


def weights_and_plain_averages(rules, n_steps):
    """Train two members; return the averages and a plain loop's of the same weights."""
    sizes = (6, 5, 3)
    stack = Stack(sizes, [0, 1])
    averages = averages_of(stack.net, rules)
    plain = [[p.detach().clone() for p in weights_of(stack.net, s)] for s, *_ in rules]
    for n, (x, y) in enumerate(minibatches(sizes, n_steps), start=1):
        stack.step(x, y)
        averages.update(stack.net)
        for average, (source, step, warm) in zip(plain, rules, strict=True):
            share = max(step, 1 / (n + 1)) if warm else step
            for a, p in zip(average, weights_of(stack.net, source), strict=True):
                a.copy_((1 - share) * a + share * p.detach())
    return stack.net, averages, plain


def test_averages_equal_a_plain_loop():
    net, averages, plain = weights_and_plain_averages(RULES, 25)
    x = torch.randn(2, 8, 6)
    found = averages.logits(net, x)
    assert found.shape == (len(RULES), 8, 3)
    for k, (source, *_) in enumerate(RULES):
        own = StackedMLP((6, 5, 3), [0])
        with torch.no_grad():
            for parameter, average in zip(own.parameters(), plain[k], strict=True):
                parameter.copy_(average[None])
        torch.testing.assert_close(found[k], own(x[source])[0], atol=1e-5, rtol=1e-5)


def test_warmed_up_average_is_a_plain_mean_at_first():
    stack = Stack((6, 5, 3), [1])
    averages = averages_of(stack.net, [(0, 1e-6, True)])
    trajectory = [[p.detach().clone() for p in stack.net.parameters()]]
    for x, y in minibatches((6, 5, 3), 12):
        stack.step(x, y)
        averages.update(stack.net)
        trajectory.append([p.detach().clone() for p in stack.net.parameters()])
    for average, *path in zip(
        averages.copies[0].parameters(), *trajectory, strict=True
    ):
        torch.testing.assert_close(average.data, torch.stack(path).mean(0))


def test_average_without_warm_up_hardly_leaves_its_start():
    stack = Stack((6, 5, 3), [1])
    start = [p.detach().clone() for p in stack.net.parameters()]
    averages = averages_of(stack.net, [(0, 1e-6, False)])
    for x, y in minibatches((6, 5, 3), 12):
        stack.step(x, y)
        averages.update(stack.net)
    for average, before in zip(averages.copies[0].parameters(), start, strict=True):
        torch.testing.assert_close(average.data, before, atol=1e-4, rtol=0)


def test_step_of_one_owns_no_weights_and_is_the_training_itself():
    net = with_random_output(StackedMLP((6, 5, 3), [0, 1]))
    averages = averages_of(net, [(1, 1.0, True), (0, 1.0, False), (1, 1.0, True)])
    assert averages.copies == []
    x = torch.randn(2, 8, 6)
    assert torch.equal(averages.logits(net, x), net(x)[[1, 0, 1]])


@for_each("sizes", [(7, 10), (64, 10), (6, 5, 3)])
def test_an_average_equals_itself_alone_bitwise(sizes):
    rules = [(0, 0.03, True), (1, 0.03, True), (1, 0.3, False), (0, 1.0, True)]
    stack = Stack(sizes, [0, 1])
    averages = averages_of(stack.net, rules)
    alone = [Stack(sizes, [source]) for source, *_ in rules]
    own = [
        averages_of(each.net, [(0, *rule)])
        for each, (_, *rule) in zip(alone, rules, strict=True)
    ]
    for x, y in minibatches(sizes, 10):
        stack.step(x, y)
        averages.update(stack.net)
        found = averages.logits(stack.net, x.expand(2, *x.shape))
        for k, (each, average) in enumerate(zip(alone, own, strict=True)):
            each.step(x, y)
            average.update(each.net)
            assert torch.equal(average.logits(each.net, x[None])[0], found[k])


@for_each("n_classes", [2, 10, 31, 32, 100])
@for_each("dtype", [torch.float32, torch.float64])
def test_softmax_over_few_classes_is_that_of_torch_and_blind_to_neighbours(
    n_classes, dtype
):
    logits = 9 * torch.randn(
        3, 5, n_classes, generator=torch.Generator().manual_seed(0), dtype=dtype
    )
    for ours, theirs in ((softmax, torch.softmax), (log_softmax, torch.log_softmax)):
        found = ours(logits)
        torch.testing.assert_close(found, theirs(logits, -1))
        for member in range(3):
            alone = ours(logits[member : member + 1])
            assert torch.equal(found[member : member + 1], alone)
