"""The nineteen tasks of VTAB, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

NATURAL, SPECIALIZED, STRUCTURED = "natural", "specialized", "structured"


@dataclass(frozen=True)
class VtabTask:
    """One task of the Visual Task Adaptation Benchmark (Zhai et al., 2019).

    Attributes
    ----------
    name : str
        As in the tables of Li, Bornschein and Hutter (2023).
    group : {"natural", "specialized", "structured"}
    n_classes : int
    n_examples : int
        Rows of the reshuffled train part, which is what the paper walks.
    n_test : int
        Rows of the test part.
    labels : str
        What the label says.
    parts : str
        How VTAB divides the images, and what is known of it from the files.
    origin : str
        Where the owners publish the data.
    licence : str
        On what terms; ask the owners where nothing is stated.
    files : tuple of str
        What must be there, relative to the folder of all data.
    download : str
        What to download, and how it becomes those files.
    """

    name: str
    group: str
    n_classes: int
    n_examples: int
    n_test: int
    labels: str
    parts: str
    origin: str
    licence: str
    files: tuple[str, ...]
    download: str


_CATEGORY = "the category of the picture"
_OWN = "as the owners divide them, train and validation together"
_RANDOM = (
    "a random part that TensorFlow Datasets drew; the files say nothing of it, so the "
    "loader knows no parts"
)
_NONE = "none stated"

# Licences are those of the owners. Where each is stated, or only quoted by those who
# hand the data on, the table in docs/images-and-vtab.md says.

_CLEVR_FILES = (
    "clevr/CLEVR_v1.0/scenes/CLEVR_train_scenes.json",
    "clevr/CLEVR_v1.0/scenes/CLEVR_val_scenes.json",
    "clevr/CLEVR_v1.0/images/train",
    "clevr/CLEVR_v1.0/images/val",
)
_CLEVR = (
    "the owners' train and validation part, whose scenes are published; the latter is "
    "the test part",
    "https://cs.stanford.edu/people/jcjohns/clevr/",
    "CC BY 4.0",
    _CLEVR_FILES,
    "CLEVR_v1.0.zip, unpacked in clevr/",
)
_DSPRITES = (
    _RANDOM,
    "https://github.com/google-deepmind/dsprites-dataset",
    "Apache-2.0",
    ("dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz",),
    "dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz",
)
_NORB_TRAIN = "smallnorb/smallnorb-5x46789x9x18x6x2x96x96-training"
_NORB_TEST = "smallnorb/smallnorb-5x01235x9x18x6x2x96x96-testing"
_NORB = (
    "train and half of the test part, at random, against the other half; the loader "
    "gives the owners' parts, 24,300 each, between which the toys differ",
    "https://cs.nyu.edu/~ylclab/data/norb-v1.0-small/",
    "for research; may not be sold",
    tuple(
        f"{stem}-{kind}.mat"
        for stem in (_NORB_TRAIN, _NORB_TEST)
        for kind in ("dat", "info")
    ),
    "the -dat and -info.mat.gz files of both parts, in smallnorb/, unpacked or not",
)

_TASKS = (
    VtabTask(
        "Caltech101",
        NATURAL,
        102,
        3060,
        6084,
        "the category of the picture, background clutter among them",
        "30 pictures of each category, drawn at random by TensorFlow Datasets; the "
        "files say nothing of it, so the loader knows no parts",
        "https://data.caltech.edu/records/mzrjq-6wc02",
        "CC BY 4.0",
        ("caltech101/101_ObjectCategories",),
        "caltech-101.zip, and 101_ObjectCategories.tar.gz in it, unpacked in "
        "caltech101/",
    ),
    VtabTask(
        "Cifar100",
        NATURAL,
        100,
        50_000,
        10_000,
        "the fine category of the picture",
        _OWN,
        "https://www.cs.toronto.edu/~kriz/cifar.html",
        _NONE,
        (
            "cifar-100-python/train",
            "cifar-100-python/test",
            "cifar-100-python/meta",
        ),
        "cifar-100-python.tar.gz, unpacked",
    ),
    VtabTask(
        "DTD",
        NATURAL,
        47,
        3760,
        1880,
        "the word for the texture",
        f"{_OWN}; the first of ten partitions",
        "https://www.robots.ox.ac.uk/~vgg/data/dtd/",
        "for research",
        ("dtd/dtd/images", "dtd/dtd/labels"),
        "dtd-r1.0.1.tar.gz, unpacked in dtd/",
    ),
    VtabTask(
        "Flowers102",
        NATURAL,
        102,
        2040,
        6149,
        "the kind of flower",
        _OWN,
        "https://www.robots.ox.ac.uk/~vgg/data/flowers/102/",
        _NONE,
        (
            "flowers-102/jpg",
            "flowers-102/imagelabels.mat",
            "flowers-102/setid.mat",
        ),
        "imagelabels.mat and setid.mat, in flowers-102/, and 102flowers.tgz, unpacked "
        "there",
    ),
    VtabTask(
        "Pets",
        NATURAL,
        37,
        3680,
        3669,
        "the breed of cat or dog",
        _OWN,
        "https://www.robots.ox.ac.uk/~vgg/data/pets/",
        "CC BY-SA 4.0",
        (
            "oxford-iiit-pet/images",
            "oxford-iiit-pet/annotations/trainval.txt",
            "oxford-iiit-pet/annotations/test.txt",
        ),
        "images.tar.gz and annotations.tar.gz, unpacked in oxford-iiit-pet/",
    ),
    VtabTask(
        "SVHN",
        NATURAL,
        10,
        73_257,
        26_032,
        "the digit in the middle; 0 is the digit zero",
        f"{_OWN}, without the extra part",
        "http://ufldl.stanford.edu/housenumbers/",
        "for non-commercial use",
        ("train_32x32.mat", "test_32x32.mat"),
        "train_32x32.mat and test_32x32.mat",
    ),
    VtabTask(
        "Sun397",
        NATURAL,
        397,
        87_003,
        21_750,
        "the category of the scene",
        f"{_RANDOM}, and one picture that decodes differently from program to program "
        "is left out",
        "https://vision.princeton.edu/projects/2010/SUN/",
        "for research",
        ("SUN397/ClassName.txt",),
        "SUN397.tar.gz, unpacked",
    ),
    VtabTask(
        "EuroSAT",
        SPECIALIZED,
        10,
        21_600,
        5400,
        "how the land is used or covered, from the colour bands",
        _RANDOM,
        "https://github.com/phelber/EuroSAT",
        "MIT",
        ("eurosat/2750",),
        "EuroSAT.zip (RGB), unpacked in eurosat/",
    ),
    VtabTask(
        "PatchCamelyon",
        SPECIALIZED,
        2,
        294_912,
        32_768,
        "whether the centre of 32 by 32 pixels holds tumour tissue",
        _OWN,
        "https://github.com/basveeling/pcam",
        "CC0 1.0",
        tuple(
            f"pcam/camelyonpatch_level_2_split_{part}_{kind}.h5"
            for part in ("train", "valid", "test")
            for kind in "xy"
        ),
        "the six camelyonpatch_level_2_split_*.h5.gz files, unpacked in pcam/",
    ),
    VtabTask(
        "Resisc45",
        SPECIALIZED,
        45,
        25_200,
        6300,
        "the category of the scene, from above",
        _RANDOM,
        "https://gcheng-nwpu.github.io/#Datasets",
        _NONE,
        ("NWPU-RESISC45",),
        "NWPU-RESISC45.rar, unpacked",
    ),
    VtabTask(
        "Retinopathy",
        SPECIALIZED,
        5,
        46_032,
        42_670,
        "the grade of diabetic retinopathy, 0 to 4",
        "the owners' train part and the test images of the public leaderboard, against "
        "those of the private one",
        "https://www.kaggle.com/c/diabetic-retinopathy-detection",
        "the rules of the competition",
        (
            "diabetic-retinopathy/train",
            "diabetic-retinopathy/test",
            "diabetic-retinopathy/trainLabels.csv",
            "diabetic-retinopathy/retinopathy_solution.csv",
        ),
        "train.zip.* and test.zip.*, joined and unpacked, trainLabels.csv, and from "
        "the forum retinopathy_solution.csv, in diabetic-retinopathy/",
    ),
    VtabTask(
        "ClevrCount",
        STRUCTURED,
        8,
        70_000,
        15_000,
        "the number of objects, 3 to 10",
        *_CLEVR,
    ),
    VtabTask(
        "ClevrDistance",
        STRUCTURED,
        6,
        70_000,
        15_000,
        "the depth of the nearest object: up to 8, 8.5, 9, 9.5, 10, or more",
        *_CLEVR,
    ),
    VtabTask(
        "DMLab",
        STRUCTURED,
        6,
        88_178,
        22_735,
        "how far an object is (near, far, very far), and whether it is a reward or a "
        "punishment",
        _OWN,
        "https://storage.googleapis.com/dmlab-vtab/dmlab.tar.gz",
        _NONE,
        ("dmlab",),
        "dmlab.tar.gz, whose files dmlab-train.tfrecord*, dmlab-validation.tfrecord* "
        "and dmlab-test.tfrecord* go in dmlab/",
    ),
    VtabTask(
        "DSpritesLocation",
        STRUCTURED,
        16,
        663_552,
        73_728,
        "the horizontal position, 32 of them in 16 bins",
        *_DSPRITES,
    ),
    VtabTask(
        "DSpritesOrientation",
        STRUCTURED,
        16,
        663_552,
        73_728,
        "the orientation, 40 of them in 16 bins of 2 or 3",
        *_DSPRITES,
    ),
    VtabTask(
        "KittiDistance",
        STRUCTURED,
        4,
        6770,
        711,
        "the depth of the nearest car, van or truck: up to 8 m, up to 20 m, more, or "
        "there is none",
        "a tenth of the videos is the test part; the loader knows which if the "
        "development kit's files are there, Kitti/raw/mapping/train_rand.txt and "
        "train_mapping.txt",
        "https://www.cvlibs.net/datasets/kitti/eval_object.php?obj_benchmark=3d",
        "CC BY-NC-SA 3.0",
        ("Kitti/raw/training/image_2", "Kitti/raw/training/label_2"),
        "data_object_image_2.zip, data_object_label_2.zip and, for the original split, "
        "devkit_object.zip, unpacked in Kitti/raw/",
    ),
    VtabTask(
        "SmallNORBAzimuth",
        STRUCTURED,
        18,
        36_450,
        12_150,
        "the azimuth of the camera, in steps of 20 degrees",
        *_NORB,
    ),
    VtabTask(
        "SmallNORBElevation",
        STRUCTURED,
        9,
        36_450,
        12_150,
        "the elevation of the camera, from 30 to 70 degrees in steps of 5",
        *_NORB,
    ),
)

VTAB_TASKS: Mapping[str, VtabTask] = MappingProxyType({t.name: t for t in _TASKS})
