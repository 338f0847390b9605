"""The folder of a race of encoders, with one immutable file for each update."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sklearn_mdl._core.io.formats import check_format, with_format
from sklearn_mdl._core.io.parameters import Json, as_json, from_json
from sklearn_mdl._core.io.reading import readable
from sklearn_mdl._core.io.safetensors_io import read_archive, storable, write_archive
from sklearn_mdl._core.io.whole_files import exclusive, replaced
from sklearn_mdl._core.validation import damaged, invalid
from sklearn_mdl.model_selection._tasks import digest_of

NAME, UPDATE = "race.json", "labels-{:09d}.safetensors"


class Step(NamedTuple):
    """Labels, losses and features of one update.

    Attributes
    ----------
    labels : ndarray of shape (n_labels,)
        Indices of classes, or real labels.
    losses : ndarray of shape (n_labels, n_encoders)
        Losses in nats, or NaN once an encoder has been eliminated.
    features : dict of str to ndarray of shape (n_labels, width)
        Features from each encoder that was still in the race before the update.
    classes : ndarray of shape (n_classes,)
        All classes that have appeared up to the end of the update. Empty for real
        labels.
    """

    labels: np.ndarray
    losses: np.ndarray
    features: Mapping[str, np.ndarray]
    classes: np.ndarray


class RaceFolder:
    """The folder of one race.

    Parameters
    ----------
    path : Path
        The directory, which the first update creates.
    about : dict
        Settings of the race as JSON. They must equal those stored in the folder.
    """

    def __init__(self, path: Path, about: Json) -> None:
        self.path, self.about = path, about
        self._key = digest_of(about)
        self._updates: list[Path] = []  # files that this race has read or written

    def steps(self) -> Iterator[Step]:
        """Yield the stored updates.

        Raises
        ------
        ValueError
            If the path is a file, if the updates belong to a race with other settings,
            if a file is damaged, or if a file before the last one is missing.
        """
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(
                f"folder must be a directory, got the file {self.path}; delete it or "
                "pass another folder"
            )
        self._check_settings()
        self._updates, n_labels = [], 0
        for path in self._files():
            step = self._read(path, n_labels)
            self._updates.append(path)
            n_labels += len(step.labels)
            yield step

    def append(self, n_before: int, step: Step) -> None:
        """Store an update atomically.

        Raises
        ------
        ValueError
            If another race has written to the folder or is writing to it, or if a file
            was deleted.
        """
        with exclusive(self.path, wait=False):
            if self._files() != self._updates:
                self._check_settings()  # of a race that has written meanwhile
                required = "the updates that this EncoderRace has read or written"
                cure = "create the EncoderRace again, which resumes from the folder"
                raise damaged(self.path, required, "updates are new or missing", cure)
            if not self._updates:
                text = json.dumps(with_format("race", self.about), indent=1)
                with replaced(self.path / NAME) as aside:
                    aside.write_text(f"{text}\n", "utf-8")
            about = {
                "race": self._key,
                "n_before": n_before,
                "encoders": list(step.features),
                "classes": as_json(step.classes, "classes"),
            }
            features = map(storable, step.features.values())
            rows = {f"features-{i}": X for i, X in enumerate(features)}
            arrays = {"labels": step.labels, "losses": step.losses, **rows}
            path = self.path / UPDATE.format(n_before)
            self._updates.append(path)
            write_archive(path, "update", arrays, about)

    def keep(self, n_updates: int) -> None:
        """Delete the updates of this race after the first ``n_updates``."""
        for path in self._updates[n_updates:]:
            path.unlink(missing_ok=True)
        del self._updates[n_updates:]

    def _files(self) -> list[Path]:
        return sorted(self.path.glob("labels-*.safetensors"))

    def _check_settings(self) -> None:
        """Raise if the folder belongs to a race with other settings."""
        path = self.path / NAME
        if not path.exists():
            return
        try:
            settings = dict(json.loads(path.read_text("utf-8")))
        except (TypeError, ValueError, RecursionError) as error:
            problem = f"it is damaged ({error})"
            cure = "restore it, or delete it and pass the same settings"
            raise damaged(path, "the settings of a race", problem, cure) from error
        check_format(path, "race", settings)
        for name, value in self.about.items():
            if (was := settings.get(name)) != value:
                shown, cure = f"{was!r}, as", f"{name}={was!r}"
                if isinstance(value, list | dict):
                    shown, cure = "the same as", "the earlier value"
                title = name + " (--readouts)" * (name == "switcher")
                required = f"{shown} when the race in {self.path} began"
                cure = f"pass {cure}, or another folder (--out)"
                raise invalid(title, required, value, cure)

    def _read(self, path: Path, n_before: int) -> Step:
        required = "an update of this race"
        cure = "restore it, or delete the folder to begin again"
        arrays, about = read_archive(path, "update", cure)
        if about.get("race") != self._key:
            cure = "pass those settings, or another folder (--out)"
            raise damaged(path, required, "it was saved with other settings", cure)
        if about.get("n_before") != n_before:
            problem = f"{UPDATE.format(n_before)} is missing"
            raise damaged(self.path, "all updates of this race", problem, cure)
        with readable(path, required, cure, KeyError, TypeError, ValueError):
            names = enumerate(about["encoders"])
            features = {name: np.array(arrays[f"features-{i}"]) for i, name in names}
            classes = np.asarray(from_json(about["classes"], {}))
            labels, losses = (np.array(arrays[name]) for name in ("labels", "losses"))
            return Step(labels, losses, features, classes)
