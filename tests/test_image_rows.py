"""Images as rows of pixels: whole, of one size, and read where they lie."""

import math

import numpy as np
import pytest
import torch
from image_cases import pixels
from PIL import Image, ImageOps

from sklearn_mdl import KNeighborsReadout, MDLReadoutSwitcher
from sklearn_mdl._core.images.lazy import LazyImages
from sklearn_mdl._core.images.rows import check_pixels, image_shape_of, pixels_of
from sklearn_mdl.encoders import image_rows


def test_pixels_of_bytes_are_a_view():
    images = pixels(3)
    rows = image_rows(images)
    assert (rows.shape, rows.dtype) == ((3, 40 * 52 * 3), np.uint8)
    assert np.shares_memory(rows, images)
    back = pixels_of(torch.from_numpy(rows.astype(np.float32)), (40, 52, 3))
    np.testing.assert_array_equal(back, images)


def test_floats_become_bytes_and_grey_is_one_number_a_pixel():
    images = np.linspace(0, 1, 2 * 5 * 4).reshape(2, 5, 4)
    expected = np.rint(images * 255).reshape(2, 20)
    np.testing.assert_array_equal(image_rows(images, mode="L"), expected)
    np.testing.assert_array_equal(image_rows(images), np.repeat(expected, 3, axis=1))


@pytest.mark.parametrize("kind", ["array", "pil", "files"])
def test_images_are_cropped_at_the_centre_and_resized(kind, tmp_path):
    images = pixels(3)
    given = {"array": images, "pil": [Image.fromarray(image) for image in images]}
    if kind == "files":
        given["files"] = [tmp_path / f"{i}.png" for i in range(3)]
        for path, image in zip(given["files"], given["pil"], strict=True):
            image.save(path)
    rows = image_rows(given[kind], (12, 9))
    fitted = [
        np.asarray(ImageOps.fit(image, (9, 12), method=Image.Resampling.BICUBIC))
        for image in given["pil"]
    ]
    np.testing.assert_array_equal(rows.reshape(3, 12, 9, 3), fitted)
    square = image_rows(given[kind], 8).reshape(3, 8, 8, 3)
    middle = images[:, :, 6:46]
    np.testing.assert_allclose(
        square.astype(float).mean((1, 2)), middle.mean((1, 2)), atol=6
    )


def test_lazy_images_become_rows_too():
    images = pixels(4)
    lazy = LazyImages(images, Image.fromarray).take([2, 0])
    np.testing.assert_array_equal(image_rows(lazy, 9), image_rows(images, 9)[[2, 0]])


@pytest.mark.parametrize("size", [None, 8])
def test_rows_in_a_file_are_complete_and_mapped(size, tmp_path):
    images, path = pixels(6, 16, 16), tmp_path / "rows.npy"
    rows = image_rows(images, size, path=path)
    assert isinstance(rows, np.memmap)
    assert not rows.flags.writeable
    np.testing.assert_array_equal(rows, image_rows(images, size))
    np.testing.assert_array_equal(np.load(path), rows)
    assert list(tmp_path.iterdir()) == [path]
    broken = [*images, np.zeros((16, 16), np.complex64)]
    with pytest.raises(
        ValueError, match=r"Pixels of row 6 must .* got complex64, from"
    ):
        image_rows(broken, size, path=tmp_path / "other.npy")
    with pytest.raises(ValueError, match=r"rows\.npy is not; move it"):
        image_rows(images, size, path=path)
    assert list(tmp_path.iterdir()) == [path]
    np.testing.assert_array_equal(np.load(path), rows)
    readout = KNeighborsReadout(2, scaling=None)
    y = [0, 1, 0, 1, 1, 0]
    runs = [
        MDLReadoutSwitcher([readout], batch_size=2, random_state=0).fit(X, y)
        for X in (rows, np.array(rows))
    ]
    np.testing.assert_array_equal(runs[0].codelengths_, runs[1].codelengths_)


@pytest.mark.parametrize(
    ("images", "options", "words"),
    [
        (pixels(2), {"mode": "CMYK"}, "mode must be 'RGB' or 'L', got 'CMYK'"),
        (pixels(2), {"size": 0}, "a positive integer or a pair of them, got 0"),
        (
            pixels(2),
            {"size": 2.5},
            "size must be None, a positive integer or a pair of them, got 2.5",
        ),
        (
            pixels(2),
            {"size": (3, 4, 3)},
            r"got \(3, 4, 3\); for example, pass size=224",
        ),
        (pixels(2), {"path": "rows.bin"}, "path must be a .npy file, got 'rows.bin'"),
        (
            [pixels(1)[0], pixels(1, 30, 30)[0]],
            {},
            r"row 1 must be of shape .* got \(30, 30, 3\); for example, pass size=224",
        ),
    ],
)
def test_images_are_refused_in_a_sentence(images, options, words):
    with pytest.raises(ValueError, match=words):
        image_rows(images, **options)


def test_squares_are_known_by_their_number_of_pixels():
    assert image_shape_of(64, None) == (8, 8, 1)
    assert image_shape_of(3 * 224**2, None) == (224, 224, 3)
    grey = {side**2 for side in range(1, 2000)}
    assert not grey & {3 * side**2 for side in range(1, 2000)}
    for n_features in (2, 63, 6 * 64):
        with pytest.raises(ValueError, match=f"got {n_features}; pass image_shape"):
            image_shape_of(n_features, None)


def test_shapes_given_must_have_the_pixels_of_a_row():
    assert image_shape_of(24, (2, 4, 3)) == (2, 4, 3)
    assert image_shape_of(24, [4, 6]) == (4, 6, 1)
    for shape in [(2, 4), (2, 4, 3, 1), (24,), (-2, -12), (math.nan, 24), (2.0, 12)]:
        with pytest.raises(ValueError, match=r"must be .*\(H, W, C\) with product 24"):
            image_shape_of(24, shape)


@pytest.mark.parametrize("value", [math.nan, -1, 255.5])
def test_numbers_that_are_no_bytes_are_named_with_their_place(value):
    for dtype in (np.uint8, np.float32, np.int16):  # whole numbers of any kind are
        check_pixels(np.arange(256).reshape(2, 128).astype(dtype))
    X = np.zeros((300, 4))
    X[299, 2] = value
    with pytest.raises(ValueError, match=r"row 299, column 2 must .*image_rows"):
        check_pixels(X)
