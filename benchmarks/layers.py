"""Layers of two pre-trained networks: one code over all layers, or one per layer.

``DATA/images`` and ``DATA/weights`` contain the files that ``pretrained.py`` reads. We
compare five layers of two MobileNetV2 on three datasets, with the list "closed-form".
The code over all layers is compared with the code of each layer, and with the code that
uses the features of all layers in one table. Its time is compared with the time of the
slowest layer, of all layers, and of the table. Times are CPU seconds on one thread, the
smallest of several repeats. Only ratios of times are meaningful.

Features are saved in the folder of results, so a second run does not compute them.
"""

import time
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.pretrained import MOBILENETS, encoder_of, images_of
from sklearn_mdl import MDLReadoutSwitcher
from sklearn_mdl.display import PosteriorDisplay
from sklearn_mdl.encoders import FeatureCache
from sklearn_mdl.pooling import LogLinearPool
from sklearn_mdl.readouts import view_readouts

LAYERS = ["blocks.1", "blocks.2", "blocks.4", "blocks.6", "last"]
N_IMAGES = 1000
PIXELS = 96  # side of the network's input; images have sides of 28 to 32 pixels
ENTRIES = "closed-form"  # list of readouts for each layer


def timed(n_repeats, X, y, **options):
    """Return a fitted switcher, and the CPU seconds of the fastest of several fits."""
    seconds = []
    for _ in range(n_repeats):
        start = time.process_time()
        switcher = MDLReadoutSwitcher(**options, device="cpu", random_state=0).fit(X, y)
        seconds.append(time.process_time() - start)
    return switcher, min(seconds)


def grouped(switcher, by):
    """Return the kind of each readout in a pool: its layer, its own kind, or both."""
    return {
        "layer and kind": [r.pool_kind for r in switcher.readouts_],
        "kind": [r.inner.pool_kind for r in switcher.readouts_],
        "layer": [r.view for r in switcher.readouts_],
    }[by]


class Layers:
    """One code over all layers, one code per layer, and one code of all features."""

    options = {
        "data": {"type": Path, "help": "folder of images and weights"},
        "--results": {
            "type": Path,
            "default": Path("layers"),
            "help": "folder in which values are saved (%(default)s)",
        },
        "--figure": {"type": Path, "help": "PNG to write"},
        "--images": {"type": int, "default": N_IMAGES, "help": "images per dataset"},
        "--fits": {"type": int, "default": 2, "help": "fits per timing"},
        "--pools": {"action": "store_true", "help": "also pool by other kinds"},
    }

    def prepare(self):
        cache = FeatureCache(self.results / "features")
        self.cells = []
        for name, pixels, labels in images_of(self.data / "images", self.images):
            for key in MOBILENETS:
                encoder = encoder_of(key, self.data, PIXELS, layer=LAYERS).fit(pixels)
                features = np.array(cache.features(encoder, pixels))
                self.cells.append((name, key, features, labels, encoder.view_slices_))

    def report(self, table):
        with threadpool_limits(1):
            cells = [self._compare(*cell) for cell in self.cells]
        if self.figure is not None:
            draw(cells, self.figure)

    def _compare(self, name, key, X, y, blocks):
        one = [
            timed(self.fits, X[:, own], y, readouts=ENTRIES) for own in blocks.values()
        ]
        sweep, seconds = timed(self.fits, X, y, readouts=view_readouts(blocks))
        whole, long = timed(self.fits, X, y, readouts=ENTRIES)
        nats = np.array([switcher.codelength_ for switcher, _ in one])
        costs = np.array([cost for _, cost in one])
        by_block = sweep.remix_by_view()
        posterior = sweep.view_posterior_
        left = [
            readout.view
            for readout, at in zip(sweep.readouts_, sweep.retired_at_, strict=True)
            if at < 0
        ]
        print(f"\n{name}, {key}: {len(y)} labels, nats")
        print("layer           width     alone  seconds  posterior  readouts left")
        for i, (block, own) in enumerate(blocks.items()):
            print(
                f"{block:15}{own.stop - own.start:6d}{nats[i]:10.1f}{costs[i]:9.2f}"
                f"{posterior[-1, i]:11.3f}{left.count(block):16d}"
            )
        for title, cost, code in [
            ("sweep", seconds, sweep.codelength_),
            ("  by switching alone", float("nan"), sweep.switching_codelength_),
            ("  layers by Bayes", float("nan"), by_block.codelength),
            ("side by side", long, whole.codelength_),
        ]:
            print(f"{title:21}{code:10.1f}{cost:9.2f}{code - nats.min():+11.1f}")
        print(
            f"sweep / most expensive layer {seconds / costs.max():.2f}, / all layers "
            f"{seconds / costs.sum():.2f}, / side by side {seconds / long:.2f}",
            flush=True,
        )
        if self.pools:
            for by in ("layer and kind", "kind", "layer"):
                other, cost = timed(
                    1,
                    X,
                    y,
                    readouts=view_readouts(blocks),
                    pooling=LogLinearPool(kinds=grouped(sweep, by)),
                )
                print(
                    f"pool by {by:15}{other.codelength_:10.1f}{cost:9.2f}", flush=True
                )
        return name, key, sweep


def draw(cells, path):
    """Draw the posteriors over layers for each dataset."""
    import matplotlib.pyplot as plt

    rows, columns = len(MOBILENETS), len(cells) // len(MOBILENETS)
    figure, panels = plt.subplots(
        rows, columns, figsize=(10.5, 5.2), layout="constrained", sharey=True
    )
    for number, (name, key, sweep) in enumerate(cells):
        ax = panels[number % rows, number // rows]
        shown = PosteriorDisplay(sweep.view_posterior_, sweep.view_names_)
        shown.plot(ax)
        ax.get_legend().remove()
        ax.set(title=f"{name}, {key}", xlabel="", ylabel="")
    names = [name.partition("|")[0] for name in sweep.view_names_]
    figure.legend(
        shown.areas_[::-1], names[::-1], loc="outside right upper", title="layer"
    )
    figure.supxlabel("labels seen")
    figure.supylabel("posterior probability")
    figure.savefig(path, dpi=110)
