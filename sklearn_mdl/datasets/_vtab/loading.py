"""Loader of VTAB tasks from a folder of files."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from functools import partial
from gzip import BadGzipFile
from os import PathLike
from pathlib import Path

from sklearn_mdl._core.validation import invalid
from sklearn_mdl.datasets._vtab import arrays, data, folders, norb, records, scenes
from sklearn_mdl.datasets._vtab.data import VTAB_TASKS, VtabData, VtabTask

READERS: dict[str, Callable[[VtabTask, Path], VtabData | data.Parts]] = {
    "Caltech101": partial(folders.categories, place="caltech101/101_ObjectCategories"),
    "Cifar100": arrays.cifar100,
    "DTD": partial(folders.own_parts, kind="DTD", partition=1),
    "Flowers102": partial(folders.own_parts, kind="Flowers102"),
    "Pets": folders.pets,
    "SVHN": arrays.svhn,
    "Sun397": folders.sun397,
    "EuroSAT": folders.eurosat,
    "PatchCamelyon": arrays.patch_camelyon,
    "Resisc45": partial(folders.categories, place="NWPU-RESISC45"),
    "Retinopathy": folders.retinopathy,
    "ClevrCount": scenes.clevr,
    "ClevrDistance": scenes.clevr,
    "DMLab": records.dmlab,
    "DSpritesLocation": arrays.dsprites,
    "DSpritesOrientation": arrays.dsprites,
    "KittiDistance": scenes.kitti,
    "SmallNORBAzimuth": norb.smallnorb,
    "SmallNORBElevation": norb.smallnorb,
}


def load_vtab(task: str | VtabTask, data_dir: str | PathLike[str]) -> VtabData:
    """Read a task of VTAB from the files that the data owners publish.

    Labels follow the benchmark's code (``task_adaptation``), as described in
    :data:`~sklearn_mdl.datasets.VTAB_TASKS`. The result contains the images of all
    parts, which are decoded on demand. To divide it into a train part and a test part,
    call ``split()`` or ``reshuffled()``.

    Parameters
    ----------
    task : str or VtabTask
        A name in ``VTAB_TASKS``.
    data_dir : path-like
        Folder of all VTAB data. ``VTAB_TASKS[task].files`` lists the required files in
        this folder. If torchvision downloads a dataset, it creates the same paths.

    Returns
    -------
    data : VtabData
        Images, labels, and the part of each image if the files define parts.

    Raises
    ------
    FileNotFoundError
        If a file is missing. The message says what to download and where to save it.
    ValueError
        If the task does not exist, or if files are damaged.
    ImportError
        If torchvision, Pillow or h5py is needed and missing.

    Examples
    --------
    >>> from sklearn_mdl.datasets import VTAB_TASKS, load_vtab
    >>> VTAB_TASKS["KittiDistance"].n_examples
    6770
    >>> data = load_vtab("KittiDistance", "data")  # doctest: +SKIP
    >>> train, test = data.reshuffled(random_state=0)  # doctest: +SKIP
    """
    if not isinstance(task, VtabTask):
        if task not in VTAB_TASKS:
            near = get_close_matches(str(task), VTAB_TASKS, n=3, cutoff=0.0)
            raise invalid("task", "a name in VTAB_TASKS", task, f"pass one of {near}")
        task = VTAB_TASKS[task]
    folder = Path(data_dir)
    _check_files(task, folder)
    try:
        found = READERS[task.name](task, folder)
        return found if isinstance(found, VtabData) else data.joined(task, found)
    except Exception as error:  # damaged files may cause any error
        if isinstance(error, OSError | ImportError) and type(error) is not BadGzipFile:
            raise
        reason = str(error).partition(". ")[0]
        raise ValueError(
            f"The files of {task.name} in {folder} must be as their owners publish "
            f"them, but they cannot be read ({type(error).__name__}: {reason}); "
            f"download again from {task.origin}: {task.download}"
        ) from error


def _check_files(task: VtabTask, folder: Path) -> None:
    for file in task.files:
        place = folder / file
        packed = place.with_name(f"{place.name}.gz")
        if place.exists() or (place.suffix == ".mat" and packed.exists()):
            continue  # SmallNORB's .mat.gz files are read without unpacking
        if packed.exists():  # only unpacked files allow reading one image at a time
            raise FileNotFoundError(f"{task.name} needs {place}; unpack {packed.name}")
        raise FileNotFoundError(
            f"{task.name} needs {place}, which is missing; download from {task.origin} "
            f"to {folder}: {task.download}"
        )
