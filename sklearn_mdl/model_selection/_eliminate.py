"""Elimination of encoders that lose a race on a dataset, before the ranking."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sklearn_mdl.model_selection._encoding import Failure
from sklearn_mdl.model_selection._race import EncoderRace
from sklearn_mdl.model_selection._tasks import Task, draw_order

BLOCK = 16  # number of labels between two checks of a race

Out = dict[str, dict[str, int]]


def eliminated(tasks: Sequence[Task | Failure], alpha: float) -> Out:
    """Race the encoders on each dataset, with its rows in the first order.

    Parameters
    ----------
    tasks : sequence of Task or Failure
        Tasks of a ranking. There is no race on datasets with groups.
    alpha : float
        Level of each race.

    Returns
    -------
    out : dict of str to dict of str to int
        For each eliminated encoder, a mapping from datasets to the number of labels
        after which it was eliminated.
    """
    races: dict[str, list[Task]] = {}
    for task in tasks:
        if isinstance(task, Task) and task.order == 0 and task.groups is None:
            races.setdefault(task.dataset, []).append(task)
    out: Out = {}
    for dataset, firsts in races.items():
        if len(firsts) > 1:
            for encoder, n_labels in _losers(firsts, alpha).items():
                out.setdefault(encoder, {})[dataset] = n_labels
    return out


def _losers(tasks: Sequence[Task], alpha: float) -> dict[str, int]:
    """Return ``{encoder: n_labels}`` for the encoders that lose a race on a dataset."""
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
        race.update({name: features[name][rows] for name in race.alive_}, first.y[rows])
        if race.should_stop_:
            break
    return race.eliminated_at_


def without(tasks: Sequence[Task | Failure], out: Out) -> list[Task | Failure]:
    """Return the tasks and failures of the encoders that no race eliminated.

    Raises
    ------
    ValueError
        If every encoder was eliminated on some dataset.
    """
    kept = [task for task in tasks if task.encoder not in out]
    if tasks and not kept:
        raise ValueError(
            "At least one encoder must survive every race, but each was eliminated on "
            f"some dataset ({'; '.join(map(' '.join, out_rows(out)))}); pass "
            "eliminate=None (omit --eliminate), or rank each dataset by itself"
        )
    return kept


def out_rows(out: Mapping[str, Mapping[str, int]]) -> list[tuple[str, str]]:
    """Return each eliminated encoder with a text such as "out at 48 labels on iris"."""
    longest = sorted(out, key=lambda encoder: -max(out[encoder].values()))
    return [
        (encoder, "out at " + ", ".join(f"{n} labels on {d}" for d, n in where.items()))
        for encoder, where in ((encoder, out[encoder]) for encoder in longest)
    ]


def out_text(out: Mapping[str, Mapping[str, int]]) -> str:
    """Return a table of the eliminated encoders, or "" if there are none."""
    width = max(map(len, out), default=0)
    lines = [f"  {encoder:{width}}  {text}" for encoder, text in out_rows(out)]
    return "\n".join(["Eliminated (not ranked)", *lines]) if out else ""
