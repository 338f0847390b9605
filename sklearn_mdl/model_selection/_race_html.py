"""Display of a race in notebooks: the verdict, and a table with bars of the bounds."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Protocol

import numpy as np

WIDTH = 220  # width of a bar's drawing, in pixels
CELL = "style='text-align:{};white-space:{};padding:.2em .7em'"
# Title and alignment of each column, and whether its cells wrap.
COLUMNS = (
    ("encoder", "left", "normal"),
    ("state", "left", "nowrap"),
    ("nats per label behind the leader", "right", "nowrap"),
    ("", "left", "nowrap"),
    ("evidence of being behind", "right", "nowrap"),
)


class Race(Protocol):
    """The attributes of a race that the display shows."""

    encoder_names_: list[str]
    leader_: str
    eliminated_at_: dict[str, int]
    bounds_: np.ndarray
    e_values_: np.ndarray
    threshold_: float
    start: int
    n_labels_: int

    def verdict(self) -> str:
        """Return a summary of the race in a few sentences."""


def html_of_race(race: Race) -> str:
    """Return the verdict and a table of encoders as HTML without scripts.

    The leader comes first. The other encoders are sorted by their difference in loss
    from the leader, and eliminated encoders come last. Each bar shows the bounds of
    this difference.
    """
    first, *others = map(escape, race.verdict().splitlines())
    lines = [f"<div><b>{first}</b></div>", *(f"<div>{line}</div>" for line in others)]
    names, bounds = race.encoder_names_, race.bounds_
    is_known = np.isfinite(bounds).all(1) & (race.n_labels_ > race.start)
    middles = np.where(is_known[:, None], bounds, 0.0).mean(1)
    is_out = np.array([name in race.eliminated_at_ for name in names])
    follows = np.array([name != race.leader_ for name in names])
    order = np.lexsort((middles, follows, is_out))
    ends = np.append(bounds[is_known].ravel(), 0.0)
    low, high = float(ends.min()), float(ends.max())
    rows = []
    for i in order:
        name = names[i]
        state = "leads" if name == race.leader_ and is_known.any() else "in the race"
        if name in race.eliminated_at_:
            state = f"out after {race.eliminated_at_[name]} labels"
        texts, bar = ["–", "–"], ""
        if is_known[i] and name != race.leader_:
            lower, upper = bounds[i].tolist()
            texts = [f"{lower:.3g} to {upper:.3g}", f"{race.e_values_[i].max():.3g}"]
            bar = _bar(lower, upper, low, high)
        rows.append([escape(name), state, texts[0], bar, texts[1]])
    heads = [title for title, *_ in COLUMNS]
    heads[-1] += f" (out at {race.threshold_:.3g})"
    body = "".join(f"<tr>{_cells('td', row)}</tr>" for row in rows)
    return (
        f"{''.join(lines)}<table><thead><tr>{_cells('th', heads)}</tr></thead>"
        f"<tbody>{body}</tbody></table>"
    )


def _cells(tag: str, texts: Sequence[str]) -> str:
    return "".join(
        f"<{tag} {CELL.format(side, 'normal' if tag == 'th' else wrap)}>{text}</{tag}>"
        for (_, side, wrap), text in zip(COLUMNS, texts, strict=True)
    )


def _bar(lower: float, upper: float, low: float, high: float) -> str:
    """Draw the interval from `lower` to `upper` on an axis that also marks zero."""
    zero, start, end = (
        round(4 + (WIDTH - 8) * (x - low) / ((high - low) or 1), 1)
        for x in (0, lower, upper)
    )
    return (
        f"<svg viewBox='0 0 {WIDTH} 14' aria-hidden='true' "
        f"style='width:{WIDTH}px;max-width:none;height:14px;vertical-align:middle'>"
        f"<path d='M{zero} 0V14' stroke='currentColor' opacity='.5'/>"
        f"<rect x='{start}' y='4' width='{max(end - start, 1):.1f}' height='6' rx='2' "
        "fill='#2f86bf'/></svg>"
    )
