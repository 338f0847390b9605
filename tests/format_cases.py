"""Files of every kind, as a release wrote them, and how they are read.

``python tests/format_cases.py`` writes those of this version, of all kinds, to
``tests/data/formats/VERSION``. Files of releases are never written again: if a format
changes, the next release adds its own.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import warnings
from contextlib import suppress
from pathlib import Path
from unittest import mock

import numpy as np
from joblib import parallel_config
from safetensors.numpy import save_file
from sklearn.base import clone
from torch import nn

from sklearn_mdl import (
    KernelReadout,
    KNeighborsReadout,
    LinearReadout,
    MDLReadoutSwitcher,
    MDLReadoutSwitcherRegressor,
    MLPReadout,
    RepresentationScorer,
    __version__,
    encode_labels,
    write_results,
)
from sklearn_mdl._core.io.formats import check_format
from sklearn_mdl._core.io.whole_files import refuse_foreign_in
from sklearn_mdl._core.stream.threads import Threads
from sklearn_mdl.datasets import load_features, stage_rows
from sklearn_mdl.encoders import FeatureCache, TorchEncoder, image_rows, views_of
from sklearn_mdl.model_selection import EncoderRace, ExportedProbe, export_probe
from sklearn_mdl.model_selection._cells import TraceFile
from sklearn_mdl.model_selection._store import cell_of
from sklearn_mdl.model_selection._tasks import digest_of
from sklearn_mdl.pooling import LogLinearPool
from sklearn_mdl.readouts import (
    CentroidReadout,
    DiscriminantReadout,
    DummyReadout,
    KernelReadoutRegressor,
    LinearReadoutRegressor,
    ViewReadout,
)
from sklearn_mdl.switcher import LabelMessage, _split as split, load_losses

CORPUS = Path(__file__).parent / "data" / "formats"
VALUES = "values.json"  # a number of each case, as it was when the files were written

Y = np.arange(24) % 2
X = np.stack([np.arange(24) * 5 % 7, np.arange(24) * 3 % 11, 2 * Y], axis=1) / 4.0
LINEAR = MDLReadoutSwitcher([KernelReadout("linear")], random_state=0, device="cpu")
EVERY_KIND = MDLReadoutSwitcher(
    [
        LinearReadout(lr=0.03, n_replay_streams=1, ema_step_size=0.1),
        LinearReadout(lr=0.1, scaling="whiten"),
        MLPReadout((2,), lr=0.03),
        KernelReadout(),
        KernelReadout("rbf", restart=16),
        ViewReadout(KernelReadout("linear"), columns=slice(0, 2), name="left"),
        KNeighborsReadout(2),
        CentroidReadout(),
        DiscriminantReadout(),
        DummyReadout("transition"),
    ],
    pooling=LogLinearPool(),
    random_state=0,
    device="cpu",
)
EVERY_REAL_KIND = MDLReadoutSwitcherRegressor(
    [LinearReadoutRegressor(lr=0.03), KernelReadoutRegressor()],
    random_state=0,
    device="cpu",
)


def write_estimators(folder):
    EVERY_KIND.fit(X, Y).save(folder / "classifier.safetensors")
    EVERY_REAL_KIND.fit(X, Y + X[:, 0]).save(folder / "regressor.safetensors")


def read_estimators(folder):
    found = MDLReadoutSwitcher.load(folder / "classifier.safetensors")
    real = MDLReadoutSwitcherRegressor.load(folder / "regressor.safetensors")
    found.partial_fit(X, Y)
    real.partial_fit(X, Y)
    return found.codelength_ + real.codelength_


def fit_with_checkpoint(folder):
    return clone(EVERY_KIND).set_params(checkpoint=folder).fit(X, Y).codelength_


class Interrupted(Exception):
    """Stands for a kill of the process."""


def write_parts(folder):
    scores, n_calls = Threads._scores, iter(range(1))

    def score_or_die(self, *given):
        if next(n_calls, None) is None:
            raise Interrupted
        return scores(self, *given)

    with (
        mock.patch.multiple(split, SEGMENT=8, ROUND_BYTES=0),
        mock.patch.object(Threads, "_scores", score_or_die),
        suppress(Interrupted),
    ):
        fit_in_parts(folder)


def fit_in_parts(folder):
    with parallel_config(backend="threading", n_jobs=1):
        settings = {"n_jobs": "processes", "checkpoint": folder}
        return clone(LINEAR).set_params(**settings).fit(X, Y)


def read_parts(folder):
    return fit_in_parts(folder).codelength_


def write_losses(folder):
    LINEAR.fit(X, Y).save_losses(folder / "losses.npy")


def read_losses(folder):
    return load_losses(folder / "losses.npy").remix("bayes").codelength


def write_message(folder):
    (folder / "labels.mdl").write_bytes(encode_labels(LINEAR, X, Y))


def read_message(folder):
    message = LabelMessage.from_bytes((folder / "labels.mdl").read_bytes())
    return message.payload_bits


def encoder():
    layer = nn.Conv2d(3, 2, 2)
    for weights in layer.parameters():
        nn.init.constant_(weights, 0.5)
    return TorchEncoder(layer, pool="avg")


IMAGES = np.arange(4 * 3 * 3 * 3, dtype=np.uint8).reshape(4, 3, 3, 3)


def read_features(folder):
    return float(FeatureCache(folder).features(encoder(), IMAGES).sum())


def write_probe(folder):
    export_probe(LINEAR.fit(X, Y), X, Y).save(folder / "probe.safetensors")


def read_probe(folder):
    probe = ExportedProbe.load(folder / "probe.safetensors")
    return float(probe.pipeline().predict_proba(X)[:, 1].sum())


def race_in(folder):
    return EncoderRace(["a", "b"], 2, switcher=LINEAR, start=5, folder=folder)


def write_race(folder):
    race_in(folder).resume().update({"a": X[:6], "b": X[:6, :2]}, Y[:6])


def read_race(folder):
    return race_in(folder).resume().n_labels_


def scorer(**options):
    return RepresentationScorer(LINEAR, **options).fit({"rows": ({"raw": X}, Y)})


def write_cells(folder):
    scorer(results=folder)


def read_cells(folder):
    nats = 0.0
    for path in sorted(folder.rglob("*.json")):
        identity = json.loads(path.read_bytes())["identity"]
        trace = TraceFile(path.with_suffix(".safetensors"), digest_of(identity))
        cell = cell_of(path.read_bytes(), identity, trace, path)
        nats += cell.codelength + cell.source.read().codelengths.sum()
    return float(nats)


def write_ranking(folder):
    for path in write_results(scorer(), folder):
        if path.suffix != ".json":  # tables and the page, which nothing here reads
            path.unlink()


def read_ranking(folder):
    for name in ("cells.json", "statistics.json"):
        content = json.loads((folder / name).read_bytes())
        check_format(folder / name, "results", content)
    return len(content["encoders"])


def write_rows(folder):
    rows = folder.parent / "rows.safetensors"
    save_file({"X": X, "y": Y}, rows)
    stage_rows([rows], folder)
    rows.unlink()
    image_rows(IMAGES, path=folder / "pixels.npy")
    views_of(X[:2, None, :, None], path=folder / "views.npy")


def read_rows(folder):
    refuse_foreign_in(folder, ["features.npy"])
    names = ("features", "pixels", "views")
    return float(sum(load_features(folder / f"{n}.npy").sum() for n in names))


# Kinds of files in a folder, and how it is written and read; reading returns a number.
CASES = {
    ("estimator",): (write_estimators, read_estimators),
    ("checkpoint", "losses"): (fit_with_checkpoint, fit_with_checkpoint),
    ("checkpoint", "part", "plan"): (write_parts, read_parts),
    ("losses",): (write_losses, read_losses),
    ("message",): (write_message, read_message),
    ("features",): (read_features, read_features),
    ("probe",): (write_probe, read_probe),
    ("race", "update"): (write_race, read_race),
    ("cell", "trace"): (write_cells, read_cells),
    ("results",): (write_ranking, read_ranking),
    ("list", ".npy"): (write_rows, read_rows),
}


def name_of(kinds):
    """Name the folder of a case."""
    return "-".join(kinds).replace(".", "")


def main():
    """Write the files of this version."""
    folder = CORPUS / __version__
    if folder.exists():
        sys.exit(f"{folder} must be new, but is there; files of a release never change")
    values = {}
    for kinds, (write, read) in CASES.items():
        place = folder / name_of(kinds)
        place.mkdir(parents=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            write(place)
            with tempfile.TemporaryDirectory() as copy:
                shutil.copytree(place, copy, dirs_exist_ok=True)
                values[name_of(kinds)] = read(Path(copy))
    (folder / VALUES).write_text(json.dumps(values, indent=1) + "\n", "utf-8")
    for lock in folder.rglob("*.lock"):
        lock.unlink()


if __name__ == "__main__":
    main()
