"""Pre-trained encoders ranked by codelength, compared with the accuracies of probes.

``DATA/features`` contains ``DATASET/ENCODER.npy`` and ``DATASET/labels.npy`` for the
datasets and encoders named below. ``DATA/images`` and ``DATA/weights`` contain what the
last part needs. The first 1,000 rows of each dataset are scored. Two probes are fitted
on the same rows and tested on all other rows. The regularisation of a probe is chosen
on a held-out fifth of its rows. The last part encodes images with MobileNetV2 at two
widths: 400 images of each dataset are scored in three orders, and 200 more are test
images.

All values are saved in the folder of results. So an interrupted run resumes, and a
second run only prints the tables. docs/pretrained-encoders.md explains the results.
"""

import gzip
import io
import json
import warnings
from itertools import combinations
from pathlib import Path

import numpy as np
from joblib import hash as joblib_hash
from scipy.stats import kendalltau
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, ShuffleSplit
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from benchmarks._data import NETS
from sklearn_mdl import MDLReadoutSwitcher, RepresentationScorer
from sklearn_mdl.datasets import load_feature_directory
from sklearn_mdl.encoders import FeatureCache, TimmEncoder
from sklearn_mdl.ranking import (
    average_ranks,
    bayesian_signed_rank,
    friedman_test,
    nemenyi_critical_difference,
    pairwise_wilcoxon,
    rank_intervals,
)

N_SCORED, N_ORDERS = 1000, 1
GROUPS = {
    "natural": ["caltech101", "cifar10", "gtsrb"],
    "specialised": ["pneumonia", "ucmerced"],
    "structured": ["mnist"],
}
DATASETS = [name for members in GROUPS.values() for name in members]
OBJECTIVES = {
    "conv-burgess_vae-celeba": "VAE, CelebA",
    "conv-burgess_betavae-celeba": "beta-VAE, CelebA",
    "conv-burgess_btcvae-celeba": "beta-TCVAE, CelebA",
    "conv-burgess_vae-dsprites": "VAE, dSprites",
    "conv_cpc-mnist": "CPC, MNIST",
    "conv4_relation-miniimagenet": "relation, miniImageNet",
}
SIZES = {
    "mobilenetv1-025_sup-imagenet": "MobileNetV1 0.25, 224 px",
    "mobilenetv1-050_sup-imagenet": "MobileNetV1 0.50, 160 px",
    "mobilenetv1-075_sup-imagenet": "MobileNetV1 0.75, 192 px",
    "resnet20_sup-cifar10": "ResNet-20, CIFAR-10",
    "resnet56_sup-cifar10": "ResNet-56, CIFAR-10",
}
ENCODERS = {**OBJECTIVES, **SIZES}
# Families of pairs, fixed in advance. Holm's correction applies to each family.
PAIRS = {
    "objectives of one architecture on CelebA": list(
        combinations(list(OBJECTIVES)[:3], 2)
    ),
    "widths of MobileNetV1": list(combinations(list(SIZES)[:3], 2)),
    "depths of CIFAR ResNets": [tuple(list(SIZES)[3:])],
}
MEASURES = ("codelength", "linear", "MLP")

STRENGTHS = (1e-3, 1e-2, 1e-1, 1.0)
PROBES = {
    "linear": (
        LogisticRegression(max_iter=300),
        {"logisticregression__C": STRENGTHS},
    ),
    "MLP": (
        MLPClassifier((256,), batch_size=50, max_iter=40, random_state=0),
        {"mlpclassifier__alpha": (0.01, 1.0, 10.0)},
    ),
}

# Numbers of images in the last part.
N_ENCODED, N_ENCODED_SCORED, N_ENCODED_ORDERS = 600, 400, 3
MOBILENETS = {
    "MobileNetV2 0.35": TimmEncoder(
        "mobilenetv2_035",
        checkpoint_path="mobilenetv2_035.safetensors",
        model_options={"pad_type": "same", "bn_eps": 1e-3},
    ),
    "MobileNetV2 1.00": TimmEncoder(
        "mobilenetv2_100",
        checkpoint_path="mobilenetv2_100_fp16.safetensors",
        model_options={"pad_type": "same"},
    ),
}
# Pixels from -1 to 1. Small images are not cropped at the centre.
HALVES = {"mean": (0.5,) * 3, "std": (0.5,) * 3, "crop_pct": 1.0}


# Computations


def rank(datasets, n_scored, n_orders, results):
    """Rank by the codelength of the first rows, with cells saved in ``results``."""
    scored = {
        name: ({key: X[:n_scored] for key, X in features.items()}, y[:n_scored])
        for name, (features, y) in datasets.items()
    }
    switcher = MDLReadoutSwitcher(**NETS)
    scorer = RepresentationScorer(
        switcher, n_orders=n_orders, results=results, verbose=1
    )
    return scorer.fit(scored)


def probe_accuracies(datasets, n_fitted, results):
    """Return test accuracies (n_datasets, n_encoders), keyed by probe."""
    tables = {
        name: [
            [accuracy(name, X, y, n_fitted, results) for X in features.values()]
            for features, y in datasets.values()
        ]
        for name in PROBES
    }
    return {name: np.array(table) for name, table in tables.items()}


def accuracy(name, X, y, n_fitted, results):
    """Return the test accuracy of a probe, from a file if it was computed before."""
    X, y = np.ascontiguousarray(X, dtype=np.float32), np.asarray(y)
    classifier, grid = PROBES[name]
    about = joblib_hash([X, y, n_fitted, repr(classifier.get_params()), grid])
    file = results / "probes" / f"{name}-{about}.json"
    if not file.exists():
        choice = ShuffleSplit(1, test_size=0.2, random_state=0)
        search = GridSearchCV(
            make_pipeline(StandardScaler(), classifier), grid, cv=choice
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            search.fit(X[:n_fitted], y[:n_fitted])
        content = {
            "accuracy": float(search.score(X[n_fitted:], y[n_fitted:])),
            "chosen": search.best_params_,
        }
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(content))
    return json.loads(file.read_text())["accuracy"]


def images_of(folder, n_images=N_ENCODED):
    """Yield the name, images and labels of three datasets, in random order."""
    from PIL import Image

    with np.load(folder / "cifar10_test.npz") as archive:
        starts, data = archive["offsets"], archive["data"].tobytes()
        rows = np.random.default_rng(0).permutation(len(starts) - 1)[:n_images]
        files = [io.BytesIO(data[starts[i] : starts[i + 1]]) for i in rows]
        pixels = np.stack([np.asarray(Image.open(f).convert("RGB")) for f in files])
        yield "cifar10", pixels, archive["labels"][rows]
    with np.load(folder / "pneumoniamnist.npz") as archive:
        parts = ("train", "val", "test")
        pixels = np.concatenate([archive[f"{part}_images"] for part in parts])
        labels = np.concatenate([archive[f"{part}_labels"][:, 0] for part in parts])
        rows = np.random.default_rng(0).permutation(len(labels))[:n_images]
        yield "pneumonia", pixels[rows], labels[rows]
    pixels, labels = (
        np.frombuffer(gzip.decompress((folder / name).read_bytes()), np.uint8)
        for name in ("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz")
    )
    pixels, labels = pixels[16:].reshape(-1, 28, 28), labels[8:]
    rows = np.random.default_rng(0).permutation(len(labels))[:n_images]
    yield "mnist", pixels[rows], labels[rows]


def encoder_of(key, data, n_pixels=224, **options):
    """Return one of the MobileNetV2 encoders, with weights from ``DATA/weights``."""
    encoder = MOBILENETS[key]
    return TimmEncoder(
        encoder.model_name,
        checkpoint_path=data / "weights" / encoder.checkpoint_path,
        model_options=encoder.model_options,
        data_options={**HALVES, "input_size": (3, n_pixels, n_pixels)},
        device="cpu",
        **options,
    )


def encode(data, results):
    """Return the features of the images from both MobileNetV2, cached in a folder."""
    cache = FeatureCache(results / "features")
    datasets = {}
    for name, pixels, labels in images_of(data / "images"):
        features = {
            key: np.array(cache.features(encoder_of(key, data), pixels))
            for key in MOBILENETS
        }
        datasets[name] = features, labels
    return datasets


# Tables


def print_values(title, table, datasets, digits):
    """Print a row for each encoder and a column for each dataset."""
    print(f"\n{title}")
    print(" " * 26 + "".join(f"{name:>12}" for name in datasets))
    for label, values in zip(ENCODERS.values(), table.T, strict=True):
        print(f"{label:26}" + "".join(f"{value:12.{digits}f}" for value in values))


def print_ranks(title, scores, rows, names):
    """Print average ranks of some encoders by each measure on some datasets."""
    columns = [list(ENCODERS).index(name) for name in names]
    rows = [DATASETS.index(name) for name in rows]
    tables = {key: table[np.ix_(rows, columns)] for key, table in scores.items()}
    spread = rank_intervals(tables["codelength"], level=0.9)
    test = friedman_test(tables["codelength"])
    threshold = nemenyi_critical_difference(len(names), len(rows), alpha=0.1)
    print(f"\n{title}: {len(names)} encoders, {len(rows)} datasets")
    print(
        f"F = {test.f_statistic:.2f}, p = {test.f_p_value:.2g} (Iman and Davenport); "
        f"critical difference {threshold:.2f} (alpha = 0.1)"
    )
    print(f"{'':26}codelength  90% interval   #    linear   #     MLP   #")
    ranks = {key: average_ranks(table) for key, table in tables.items()}
    places = {key: 1 + np.searchsorted(np.sort(r), r) for key, r in ranks.items()}
    for j in np.argsort(ranks["codelength"], kind="stable"):
        interval = f"[{spread.lower[j]:.2f}, {spread.upper[j]:.2f}]"
        beside = "".join(
            f"{ranks[key][j]:10.2f}{places[key][j]:4d}"[2 if key == "MLP" else 0 :]
            for key in MEASURES[1:]
        )
        print(
            f"{ENCODERS[names[j]]:26}{ranks['codelength'][j]:10.2f}  {interval:>12}"
            f"{places['codelength'][j]:4d}{beside}"
        )


def print_groups(title, codelengths, names):
    """Print average ranks by codelength on each group of datasets."""
    columns = [list(ENCODERS).index(name) for name in names]
    print(f"\n{title}: average ranks by codelength in each group")
    print(" " * 26 + "".join(f"{f'{g} ({len(m)})':>17}" for g, m in GROUPS.items()))
    by_group = [
        average_ranks(codelengths[np.ix_([DATASETS.index(d) for d in m], columns)])
        for m in GROUPS.values()
    ]
    for j in np.argsort(np.mean(by_group, axis=0), kind="stable"):
        values = "".join(f"{ranks[j]:17.2f}" for ranks in by_group)
        print(f"{ENCODERS[names[j]]:26}{values}")


def print_pairs(codelengths):
    """Print numbers of datasets won, and two tests, for pairs fixed in advance."""
    print(
        "\npairs: datasets won by the first, geometric mean of the codelengths' ratios,"
    )
    print("Wilcoxon's p (adjusted by Holm in its family), posterior probabilities that")
    print("the first is shorter by over 1 %, that neither is, that the second is")
    for family, named in PAIRS.items():
        pairs = [[list(ENCODERS).index(name) for name in pair] for pair in named]
        tests = pairwise_wilcoxon(codelengths, pairs=pairs)
        posterior = bayesian_signed_rank(codelengths, rope=0.01, pairs=pairs)
        print(family)
        for k, (i, j) in enumerate(pairs):
            ratios = codelengths[:, i] / codelengths[:, j]
            wins = f"{(ratios < 1).sum()} of {len(ratios)}"
            labels = [list(ENCODERS.values())[column] for column in (i, j)]
            mean = np.exp(np.log(ratios).mean())
            print(
                f"  {labels[0]:25}- {labels[1]:25}{wins}{mean:7.3f}"
                f"{tests.p_values[k]:8.3f} ({tests.adjusted_p_values[k]:.3f})"
                f"{posterior.p_first[k]:7.2f}{posterior.p_equivalent[k]:6.2f}"
                f"{posterior.p_second[k]:6.2f}"
            )


def print_agreement(scores):
    """Print how similarly each two measures rank the encoders of a dataset."""
    print("\nKendall's tau between the measures, over all encoders of a dataset")
    print(" " * 24 + "".join(f"{name:>12}" for name in DATASETS) + f"{'mean':>12}")
    for one, other in combinations(MEASURES, 2):
        taus = [
            kendalltau(a, b).statistic
            for a, b in zip(scores[one], scores[other], strict=True)
        ]
        values = "".join(f"{tau:12.2f}" for tau in [*taus, np.mean(taus)])
        print(f"{f'{one} - {other}':24}{values}")


def print_readouts(scorer):
    """Print the architecture with the largest mean posterior for each encoder."""
    print("\nreadout with the largest mean posterior")
    print(" " * 26 + "".join(f"{name:>12}" for name in scorer.dataset_names_))
    readouts = np.array(scorer.preferred_readouts())
    for key, row in zip(scorer.encoder_names_, readouts.T, strict=True):
        print(f"{ENCODERS[key]:26}" + "".join(f"{name:>12}" for name in row))


def print_encoded(scorer, accuracies):
    """Print the results of MobileNetV2 at two widths, on images."""
    print(
        f"\nMobileNetV2 from images, {N_ENCODED_SCORED} labels scored in "
        f"{N_ENCODED_ORDERS} orders, {N_ENCODED - N_ENCODED_SCORED} tested"
    )
    print(f"{'':12}{'':18}nats per example    linear       MLP")
    spread = scorer.paired_differences()
    for i, name in enumerate(scorer.dataset_names_):
        for j, key in enumerate(scorer.encoder_names_):
            nats = scorer.codelengths_[i, j] / N_ENCODED_SCORED
            values = "".join(f"{accuracies[p][i, j]:10.3f}" for p in PROBES)
            print(f"{name:12}{key:18}{nats:16.4f}{values}")
        low, high = spread.lower[0, i], spread.upper[0, i]
        print(
            f"{'':12}first minus second, nats: {spread.mean[0, i]:.1f} "
            f"[{low:.1f}, {high:.1f}]"
        )


# The figure


def draw(scores, path):
    """Draw average ranks by codelength, with intervals, and by accuracy."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(10.5, 3.6), layout="constrained")
    titles = {"objectives, small encoders": OBJECTIVES, "sizes, supervised": SIZES}
    for ax, (title, names) in zip(panels, titles.items(), strict=True):
        columns = [list(ENCODERS).index(name) for name in names]
        spread = rank_intervals(scores["codelength"][:, columns], level=0.9)
        order = np.argsort(-spread.average_ranks, kind="stable")
        at, where = spread.average_ranks[order], np.arange(len(order))
        ends = abs(np.stack([spread.lower, spread.upper])[:, order] - at)
        ax.errorbar(at, where, xerr=ends, fmt="o", capsize=3, label="codelength")
        for probe, marker, shift in zip(PROBES, "sD", (0.18, -0.18), strict=True):
            ranks = average_ranks(scores[probe][:, columns])[order]
            ax.plot(ranks, where + shift, marker, ms=5, label=f"{probe} accuracy")
        ax.set_yticks(where, [list(names.values())[i] for i in order])
        ax.set(title=title, xlabel="average rank, 1 is best")
        ax.set_xticks(np.arange(1, len(order) + 1))
        ax.set_xlim(0.7, len(order) + 0.3)
        ax.grid(axis="x", alpha=0.4)
    handles, labels = panels[0].get_legend_handles_labels()
    order = [labels.index("codelength"), 0, 1]
    panels[0].legend(
        [handles[i] for i in order],
        [labels[i] for i in order],
        loc="lower left",
        fontsize="small",
    )
    figure.savefig(path, dpi=110)


class Pretrained:
    """All tables and the figure."""

    options = {
        "data": {"type": Path, "help": "folder of features, images and weights"},
        "--results": {
            "type": Path,
            "default": Path("pretrained"),
            "help": "folder in which values are saved (%(default)s)",
        },
        "--figure": {"type": Path, "help": "PNG to write"},
    }

    def prepare(self):
        with threadpool_limits(1):
            tables = load_feature_directory(self.data / "features")
            self.datasets = {
                name: ({key: tables[name][0][key] for key in ENCODERS}, tables[name][1])
                for name in DATASETS
            }
            folder = self.results / "features-ranked"
            self.scorer = rank(self.datasets, N_SCORED, N_ORDERS, folder)
            self.accuracies = probe_accuracies(self.datasets, N_SCORED, self.results)
            encoded = encode(self.data, self.results)
            folder = self.results / "images-ranked"
            self.small = rank(encoded, N_ENCODED_SCORED, N_ENCODED_ORDERS, folder)
            self.small_accuracies = probe_accuracies(
                encoded, N_ENCODED_SCORED, self.results
            )

    def report(self, table):
        nats = self.scorer.codelengths_
        # Rank by errors, since lower is better.
        errors = {probe: 1 - table for probe, table in self.accuracies.items()}
        scores = {"codelength": nats, **errors}
        print_values("nats per example", nats / N_SCORED, DATASETS, 4)
        for probe, values in self.accuracies.items():
            print_values(f"accuracy of the {probe} probe", values, DATASETS, 3)
        tested = [len(y) - N_SCORED for _, y in self.datasets.values()]
        print(f"{'rows tested':26}" + "".join(f"{n:12d}" for n in tested))
        print_ranks("objectives", scores, DATASETS, list(OBJECTIVES))
        print_groups("objectives", nats, list(OBJECTIVES))
        print_ranks("sizes", scores, DATASETS, list(SIZES))
        others = [name for name in DATASETS if name != "cifar10"]
        print_ranks("sizes, without CIFAR-10", scores, others, list(SIZES))
        print_groups("sizes", nats, list(SIZES))
        print_ranks("all", scores, DATASETS, list(ENCODERS))
        print_groups("all", nats, list(ENCODERS))
        print_pairs(nats)
        print_agreement(scores)
        print_readouts(self.scorer)
        print_encoded(self.small, self.small_accuracies)
        if self.figure is not None:
            draw(scores, self.figure)
