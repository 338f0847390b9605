"""Elimination of encoders that a single other encoder beats in all races."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations

import numpy as np

from sklearn_mdl._core.validation import warn_caller
from sklearn_mdl.model_selection._encoding import Failure
from sklearn_mdl.model_selection._race import EncoderRace
from sklearn_mdl.model_selection._tasks import Task, draw_order
from sklearn_mdl.readouts import grouped

BLOCK = 16  # number of labels between two checks of a race

Out = dict[str, dict[str, int]]


def eliminated(tasks: Sequence[Task | Failure], alpha: float) -> Out:
    """Race the encoders on each dataset, in the first of its random orders of rows.

    An encoder is only eliminated if a single other encoder beats it on every dataset.
    An encoder that loses to different encoders can still have the best average rank.

    Parameters
    ----------
    tasks : sequence of Task or Failure
        Tasks of a ranking, and encoders that failed. If a dataset has groups, or only
        one encoder succeeded on it, no encoder is eliminated. Datasets on which all
        encoders failed are ignored.
    alpha : float
        Level of each race.

    Returns
    -------
    out : dict of str to dict of str to int
        For each eliminated encoder, a mapping from datasets to the number of labels
        after which it left the race.
    """
    ready = (task for task in tasks if isinstance(task, Task) and task.order == 0)
    entries = grouped((task.dataset, task) for task in ready)
    out: Out = {}
    names = {task.encoder for firsts in entries.values() for task in firsts}
    pairs = set(permutations(names, 2))
    for dataset, firsts in entries.items():
        if firsts[0].groups is not None or len(firsts) < 2:
            return {}
        race = _race(firsts, alpha)
        encoders = race.encoder_names_
        shown = np.argwhere(race.e_values_ >= race.threshold_)
        behind = {(encoders[i], encoders[j]) for i, j in shown}
        pairs = {pair for pair in pairs & behind if pair[0] in race.eliminated_at_}
        if not pairs:
            return {}
        for encoder, n_labels in race.eliminated_at_.items():
            out.setdefault(encoder, {})[dataset] = n_labels
    worse = {loser for loser, _ in pairs}
    return {encoder: where for encoder, where in out.items() if encoder in worse}


def _race(tasks: Sequence[Task], alpha: float) -> EncoderRace:
    """Race the encoders of a dataset until one is left or the labels end."""
    first, features = tasks[0], {task.encoder: task.X for task in tasks}
    race = EncoderRace(
        list(features),
        None if first.is_real else len(np.unique(first.y)),
        alpha=alpha,
        switcher=first.switcher,
        random_state=first.seed,
    ).resume()
    order = draw_order(first.seed, first.order, len(first.y))
    for start in range(0, len(order), BLOCK):
        rows = order[start : start + BLOCK]
        some = {name: features[name][rows] for name in race.alive_}
        try:
            race.update(some, first.y[rows])
        except Exception as error:  # may concern a single cell, which is run later
            warn_caller(f"The race on {first.dataset!r} stopped after {error!r}")
            break
        if race.should_stop_:
            break
    return race


def out_rows(out: Mapping[str, Mapping[str, int]]) -> list[tuple[str, str]]:
    """Return each eliminated encoder with a text such as "out at 48 labels on iris"."""
    longest = sorted(out.items(), key=lambda item: -max(item[1].values()))
    return [
        (encoder, "out at " + ", ".join(f"{n} labels on {d}" for d, n in where.items()))
        for encoder, where in longest
    ]


def out_text(out: Mapping[str, Mapping[str, int]]) -> str:
    """Return a table of the eliminated encoders, or "" if there are none."""
    width = max(map(len, out), default=0)
    lines = [f"  {encoder:{width}}  {text}" for encoder, text in out_rows(out)]
    return "\n".join(["Eliminated (not ranked)", *lines]) if out else ""
