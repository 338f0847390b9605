"""Combine parts, each of which has the features of one encoder on one dataset."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sklearn_mdl._core.validation import as_labels, damaged, invalid, may_be_real

LABEL_NAMES = ("label", "labels", "target", "targets", "y", "class", "cell_type")
ID_NAMES = ("id", "ids")
LONGEST = 4096  # most characters of a label, an id or a group
MOST = 2**24  # most characters of an array of fixed width
MISSING = {"", "#n/a", "<na>", "n/a", "na", "nan", "none", "null"}  # in lower case
RECREATE = "recreate the file, for example with df.to_parquet(path)"


class ReadRequest(NamedTuple):
    """The columns and splits to read.

    A field that is None means the default label column, all splits, or no groups.
    """

    label: str | None = None
    splits: Sequence[str] | None = None
    groups: str | None = None

    def refuse(self, place: object, *fields: str) -> None:
        """Raise ValueError if one of the fields is given, since the files lack it."""
        for field in fields:
            given = getattr(self, field)
            if given is not None:
                raise invalid(field, f"None for {place}", given, _INSTEAD[field])


_INSTEAD = {
    "label": "omit label (--label)",
    "splits": "omit splits (--splits), or save only the rows of one split",
    "groups": "omit groups (--groups), and save them as DATASET/groups.npy next to "
    "DATASET/ENCODER.npy and DATASET/labels.npy",
}


class Part(NamedTuple):
    """Features of one encoder on one dataset, with labels.

    Attributes
    ----------
    dataset, encoder : str
    features : ndarray of shape (n_samples, n_features)
    labels : ndarray of shape (n_samples,)
    known : ndarray of bool, shape (n_samples,), or None
        True for rows with a label. Labels of other rows are undefined. If None, all
        rows have a label.
    ids : ndarray of shape (n_samples,) or None
        Ids of rows, used to match the rows of different encoders.
    note : str
        Remark for the summary.
    groups : ndarray of str, shape (n_samples,), or None
        Groups of rows, such as patients, or None if not requested.
    """

    dataset: str
    encoder: str
    features: np.ndarray
    labels: np.ndarray
    known: np.ndarray | None = None
    ids: np.ndarray | None = None
    note: str = ""
    groups: np.ndarray | None = None


class Representations(NamedTuple):
    """Embeddings read from a path, for ``RepresentationScorer.fit``.

    Attributes
    ----------
    kind : str
        Format of the files.
    datasets : dict
        Maps each dataset's name to a tuple ``(features, labels)``, or ``(features,
        labels, groups)`` if there are groups. ``features`` maps each encoder's name to
        an array of shape (n_samples, n_features). Labels and groups have shape
        (n_samples,).
    ids : dict of str to ndarray of shape (n_samples,)
        Ids of rows, keyed by dataset, for datasets whose files contain ids.
    notes : list of str
        Remarks, such as dropped rows and skipped entries.
    """

    kind: str
    datasets: dict[str, tuple[Any, ...]]
    ids: dict[str, np.ndarray]
    notes: list[str]

    def __str__(self) -> str:
        """Return the format, and a line for each dataset and each remark."""
        n = len(self.datasets)
        lines = [f"found {self.kind}: {n} dataset{'s' * (n != 1)}"]
        for name, (features, labels, *groups) in self.datasets.items():
            widths = ", ".join(f"{e} ({X.shape[1]})" for e, X in features.items())
            whole = labels.dtype.kind != "f" or np.array_equal(labels, np.rint(labels))
            are_classes = bool(len(labels)) and whole and not may_be_real(labels)
            classes = f", {len(np.unique(labels))} classes" if are_classes else ""
            known = f", {len(np.unique(groups[0]))} groups" if groups else ""
            lines.append(f"  {name}: {len(labels)} rows{classes}{known}; {widths}")
        lines += [f"  {note}" for note in self.notes]
        # Names come from files and may contain escape sequences for the terminal.
        return "\n".join(map(_printable, lines))


def named_in(folder: Path, name: str, source: object) -> Path:
    """Return the path of a file in a folder, given its name in the file `source`.

    Raises
    ------
    ValueError
        If the path is outside the folder.
    """
    path = Path(os.path.normpath(folder / name))
    if not path.is_relative_to(os.path.normpath(folder)):
        required, fault = "only names of files in its folder", f"it names {name!r}"
        raise damaged(source, required, fault, "move that file in and correct the name")
    return path


def _printable(line: str) -> str:
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)


def label_column(columns: Iterable[str], wanted: ReadRequest, place: object) -> str:
    """Return the name of the label column.

    Without a request, this is the only column with a common name, or else the only
    column.

    Raises
    ------
    ValueError
        If the label column or the group column does not exist, if the choice is
        ambiguous, or if no groups are requested although there is a column "groups".
    """
    names = list(columns)
    if wanted.groups is None and wanted.label != "groups" and "groups" in names:
        cure = "rename it, or pass groups='groups' (--groups) to load_representations"
        raise damaged(place, "no unused column 'groups'", "it has one", cure)
    if wanted.groups is not None and wanted.groups not in names:
        required, cure = f"one of {names} in {place}", "omit groups (--groups)"
        raise invalid("groups", required, wanted.groups, cure)
    names = [name for name in names if name != wanted.groups]
    if wanted.label in names:
        return str(wanted.label)
    if wanted.label is None:
        candidates = [name for name in LABEL_NAMES if name in names] or names
        if len(candidates) == 1:
            return candidates[0]
    if not names:
        cure = "add an array or column named y"
        raise damaged(place, "labels", "it holds none", cure)
    cure = f"for example, pass label={names[0]!r} (--label)"
    raise invalid("label", f"one of {names} in {place}", wanted.label, cure)


def id_and_label(
    columns: Sequence[str], wanted: ReadRequest, place: object
) -> tuple[str | None, str]:
    """Return the names of the id column (or None) and the label column."""
    key = next((name for name in ID_NAMES if name in columns), None)
    return key, label_column([n for n in columns if n != key], wanted, place)


def groups_in(
    columns: Mapping[str, Sequence[object]], wanted: ReadRequest, place: object
) -> np.ndarray | None:
    """Return each row's group in the requested column as text, or None without one."""
    return None if wanted.groups is None else groups_of(columns[wanted.groups], place)


def groups_of(values: Sequence[object], place: object) -> np.ndarray:
    """Return the group of each row as text.

    Raises
    ------
    ValueError
        If a row has no group.
    """
    _, known = labels_of([v if v is None or v != v else str(v) for v in values])
    if not known.all():
        fault = f"{int(np.sum(~known))} of {len(known)} rows have none"
        raise damaged(place, "a group for every row", fault, "add the missing groups")
    return texts_of(values, "groups")


def masked(values: Iterable[object], known: Iterable[object]) -> list[object]:
    """Return values as a list, with None for unknown values."""
    return [v if k else None for v, k in zip(values, known, strict=True)]


def chosen_splits(
    names: Sequence[str], wanted: ReadRequest, place: object
) -> list[str]:
    """Return the requested splits in the order of `names`, or all if None.

    If there are no splits, return none, so that the caller reports what is missing.
    """
    if wanted.splits is None or not names:
        return list(names)
    unknown = [name for name in wanted.splits if name not in names]
    if unknown:
        cure = f"pass splits=[{names[0]!r}] (--splits) for {place}"
        raise invalid("splits", f"among {list(names)}", unknown[0], cure)
    return [name for name in names if name in wanted.splits]


def labels_of(values: Sequence[object]) -> tuple[np.ndarray, np.ndarray]:
    """Return labels as a NumPy array, and a mask of known labels.

    None, NaN and empty text mean that a label is unknown. The array then contains an
    arbitrary label.

    Raises
    ------
    ValueError
        If numbers, text and bools are mixed, or if a label has another type.
    """
    known = np.array([v is not None and v == v and v != "" for v in values], dtype=bool)
    present = [value for value, is_known in zip(values, known, strict=True) if is_known]
    types = {type(value) for value in present}
    kinds = {str if issubclass(t, str) else bool if t is bool else float for t in types}
    if len(kinds) > 1 or not all(issubclass(t, str | int | float) for t in types):
        required = "all numbers, all text or all bool"
        given = sorted(kind.__name__ for kind in types)
        raise invalid("labels", required, given, "save [str(label) for label in y]")
    if not present:
        return np.zeros(len(values), dtype=np.int64), known
    filled = [v if k else present[0] for v, k in zip(values, known, strict=True)]
    labels = texts_of(filled, "labels") if kinds == {str} else as_labels(filled)
    return np.asarray(labels), known


def texts_of(values: Sequence[object], what: str) -> np.ndarray:
    """Return values as an array of text, of fixed width unless that takes much memory.

    Raises
    ------
    ValueError
        If a text has more than ``LONGEST`` characters.
    """
    texts = [str(value) for value in values]
    longest = max(map(len, texts), default=0)
    if longest > LONGEST:
        required = f"at most {LONGEST} characters long"
        raise invalid(what, required, longest, "pass another column, or shorten them")
    return np.array(texts, dtype=str if longest * len(texts) < MOST else object)


def parsed(texts: Sequence[str], path: Path, is_real: bool = False) -> list[object]:
    """Return a table's cells as integers, floats or text, with None if empty.

    Long integers and those written like 01 or 1_1 are text, since they may be names of
    classes. Among numbers, NA and the like are None.

    Raises
    ------
    ValueError
        If a real number is written in two ways, since these may be names of two
        classes. This is allowed if ``is_real``, which says that all cells are numbers.
    """
    given, seen = {t for t in texts if t.lower() not in MISSING}, dict[str, str]()
    with suppress(ValueError):
        is_plain = {str(int(t)) for t in given} == given
        is_plain &= len(max(given, key=len)) < 19  # fits into 64 bits
        return [(int(t) if is_plain else t) if t in given else None for t in texts]
    try:
        # NaN in any spelling is no label.
        values = {t: x for t in sorted(given) if (x := number_of(t)) == x}
    except ValueError:
        return list(texts)
    for text, number in values.items():
        if (other := seen.setdefault(repr(number), text)) != text and not is_real:
            required, fault = "numbers written in one way", f"it holds {other}, {text}"
            cure = f"write equal numbers alike, or names of classes like c{text}"
            raise damaged(path, required, fault, cure)
    return [values.get(text) for text in texts]


def number_of(text: str) -> float:
    """Return a text as a number. Unlike float, refuse 1_1, which may be a name."""
    if "_" in text:
        raise ValueError(f"could not convert string to float: {text!r}")
    return float(text)


def joined(kind: str, parts: Sequence[Part], missing: str) -> Representations:
    """Combine parts by dataset, with the same rows for all encoders on a dataset.

    Parameters
    ----------
    kind : str
        Format of the files.
    parts : sequence of Part
    missing : {"raise", "drop"}
        What to do with rows that lack a label or an encoder's features.

    Raises
    ------
    ValueError
        If embeddings are invalid, if encoders have different rows, labels or groups,
        if labels are missing, or if two encoders on a dataset have the same name.
    """
    representations = Representations(kind, {}, {}, [])
    by_dataset: dict[str, list[Part]] = {}
    for part in parts:
        _check_part(part)
        by_dataset.setdefault(part.dataset, []).append(part)
    for name, members in by_dataset.items():
        notes = [part.note for part in members if part.note]
        representations.notes.extend(f"{name}: {note}" for note in dict.fromkeys(notes))
        aligned = _align(members, missing, representations.notes)
        masks = [part.known for part in aligned if part.known is not None]
        if masks:
            known = np.logical_and.reduce(masks)
            aligned = [part._replace(known=known) for part in aligned]
        for part in aligned[1:]:
            _check_same_labels(aligned[0], part)
        aligned = _drop_unlabelled(aligned, missing, representations.notes)
        features = {part.encoder: part.features for part in aligned}
        if len(features) < len(aligned):
            names = [part.encoder for part in aligned]
            required = f"distinct on dataset {name!r}"
            raise invalid("Names of encoders", required, names, "rename their files")
        groups = aligned[0].groups
        kept = (features, aligned[0].labels)
        representations.datasets[name] = kept if groups is None else (*kept, groups)
        if aligned[0].ids is not None:
            representations.ids[name] = aligned[0].ids
    return representations


def _check_part(part: Part) -> None:
    X = part.features
    if X.ndim != 2 or X.dtype.kind not in "biuf" or not X.size:
        fault = f"it holds {X.dtype} in shape {X.shape}"
        cure = "save X.reshape(len(X), -1).astype('float32')"
        raise damaged(_title(part), "real numbers (n, d)", fault, cure)
    lengths = {len(part.features), len(part.labels)}
    lengths |= {len(v) for v in (part.ids, part.groups) if v is not None}
    if len(lengths) > 1:
        raise ValueError(
            "Embeddings, labels, ids and groups must have the same length, got lengths "
            f"{sorted(lengths)} in {_title(part)}; save one of each per row"
        )


def _title(part: Part) -> str:
    return f"{part.encoder!r} on {part.dataset!r}"


def _align(parts: list[Part], missing: str, notes: list[str]) -> list[Part]:
    """Use ids to bring the rows of all encoders on a dataset into the same order."""
    first = parts[0]
    unlike = [part for part in parts if not _same_rows(first, part)]
    if not unlike:
        return parts
    if any(
        part.ids is None or len(np.unique(part.ids)) < len(part.ids) for part in parts
    ):
        raise ValueError(
            "Without unique ids all encoders must have the same rows, but rows of "
            f"{_title(first)} and {_title(unlike[0])} differ; add unique ids"
        )
    ids = [np.asarray(part.ids).tolist() for part in parts]
    places = [{name: row for row, name in enumerate(names)} for names in ids]
    common = [name for name in places[0] if all(name in rows for rows in places)]
    n_all = len(set().union(*places))
    n_lost = n_all - len(common)
    if n_lost and (missing == "raise" or not common):
        cure = "pass missing='drop' (--missing drop)"
        cure = cure if common else "save the same ids for all encoders"
        raise ValueError(
            f"Every row must have an embedding from every encoder, but {n_lost} of "
            f"{n_all} ids on dataset {first.dataset!r} lack one; {cure}"
        )
    if n_lost:
        notes.append(f"{first.dataset}: dropped {n_lost} of {n_all} rows (incomplete)")
    return [
        _rows_of(part, np.array([rows[name] for name in common], dtype=np.intp))
        for part, rows in zip(parts, places, strict=True)
    ]


def _same_rows(first: Part, part: Part) -> bool:
    if first.ids is None or part.ids is None:
        return len(first.features) == len(part.features)
    return first.ids is part.ids or np.array_equal(first.ids, part.ids)


def _rows_of(part: Part, rows: np.ndarray) -> Part:
    """Return a part that contains only the given rows, in the given order."""
    if np.array_equal(rows, np.arange(len(part.features))):
        return part
    by_row = ("features", "labels", "known", "ids", "groups")
    arrays = {name: getattr(part, name) for name in by_row}
    return part._replace(**{k: v[rows] for k, v in arrays.items() if v is not None})


def _check_same_labels(first: Part, part: Part) -> None:
    known = slice(None) if first.known is None else first.known
    labels = first.labels[known], part.labels[known]
    pairs: dict[str, Any] = {"labels": labels}
    pairs["groups"] = first.groups, part.groups
    for name, (required, given) in pairs.items():
        if required is not given and not np.array_equal(required, given):
            raise ValueError(
                f"All encoders must have the same {name}, but those of {_title(first)} "
                f"and {_title(part)} differ; save the same {name} with both"
            )


def _drop_unlabelled(parts: list[Part], missing: str, notes: list[str]) -> list[Part]:
    """Drop rows without a label, or raise if `missing` is "raise" or no row has one."""
    known, name = parts[0].known, parts[0].dataset
    if known is None or known.all():
        return parts
    n_lost = int(np.sum(~known))
    if missing == "raise" or not known.any():
        ids = parts[0].ids
        example = "" if ids is None else f" (one is {ids[~known][0]!s})"
        drop = " or pass missing='drop' (--missing drop)" if known.any() else ""
        raise ValueError(
            f"Every row must have a label, but {n_lost} of {len(known)} on dataset "
            f"{name!r} have none{example}; add labels{drop}"
        )
    notes.append(f"{name}: dropped {n_lost} of {len(known)} rows (no label)")
    return [_rows_of(part, np.flatnonzero(known)) for part in parts]


def check_vector(vector: np.ndarray, width: int, what: str, place: Path) -> None:
    """Raise ValueError unless an embedding is a vector of the given width."""
    if vector.shape != (width,):
        raise ValueError(
            f"Embeddings in {place} must all be vectors of length {width}, but {what} "
            f"has shape {vector.shape}; save the mean over tokens, or omit the row"
        )
