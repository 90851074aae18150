import gzip

import numpy as np
import pytest

from parm_ray.core.errors import ConfigError
from tests.support.data_set_files import write_idx, write_mnist_like
from train.data import load_dataset
from train.data.idx import DEBIAN, FASHION_CLASSES, read_idx

debian = pytest.mark.skipif(
    not (DEBIAN / "train-images-idx3-ubyte.gz").is_file(),
    reason=f"Debian's package dataset-fashion-mnist is not installed ({DEBIAN})",
)


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("layout", ["FashionMNIST/raw", "raw", "."])
def test_every_layout_plain_and_gzipped(tmp_path, layout, ending):
    written = write_mnist_like(tmp_path / layout, ending)
    data = load_dataset("fashion", root=tmp_path)
    np.testing.assert_array_equal(data.train_images[..., 0], written["train"][0])
    np.testing.assert_array_equal(data.train_labels, written["train"][1])
    np.testing.assert_array_equal(data.test_images[..., 0], written["t10k"][0])
    assert data.train_images.shape == (20, 28, 28, 1)
    assert data.train_images.dtype == np.uint8
    assert data.train_labels.dtype == np.int64
    assert data.class_names == FASHION_CLASSES
    assert data.output_spec.shape == (10,)


def test_mnist_is_found_in_torchvisions_layout_and_cut_to_size(tmp_path):
    written = write_mnist_like(tmp_path / "MNIST" / "raw", train=40)
    data = load_dataset("mnist", test_size=3, root=tmp_path, train_size=20, validation_size=10)
    np.testing.assert_array_equal(data.test_images[..., 0], written["t10k"][0][:3])
    np.testing.assert_array_equal(np.bincount(data.train_labels), 1)
    np.testing.assert_array_equal(np.bincount(data.validation_labels), 1)


def test_a_missing_directory_or_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"looked in .*MNIST/raw.*--data"):
        load_dataset("mnist", root=tmp_path)
    with pytest.raises(ConfigError, match=r"nowhere.*--data"):
        load_dataset("mnist")
    write_mnist_like(tmp_path)
    (tmp_path / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(ConfigError, match=r"t10k-labels-idx1-ubyte\(\.gz\) is missing"):
        load_dataset("mnist", root=tmp_path)


def test_images_and_labels_of_different_number_are_refused(tmp_path):
    write_mnist_like(tmp_path)
    write_idx(tmp_path / "train-labels-idx1-ubyte", np.zeros(19))
    with pytest.raises(ConfigError, match=r"train: images \(20, 28, 28\) and labels \(19,\)"):
        load_dataset("mnist", root=tmp_path)


WHOLE = b"\0\0\x08\x01\0\0\0\x02ab"


@pytest.mark.parametrize(
    ("name", "data", "complaint"),
    [
        ("short", WHOLE[:-1], "cut short: 1 values"),
        ("long", WHOLE + b"c", "cut short: 3 values"),
        ("header", WHOLE[:6], "cut short"),
        ("empty", b"", "not an IDX file"),
        ("floats", b"\0\0\x0d" + WHOLE[3:], "not an IDX file of unsigned bytes"),
        ("no_dims", b"\0\0\x08\0", "cut short"),
        ("plain.gz", WHOLE, "cannot be read"),
        ("cut.gz", gzip.compress(WHOLE)[:-9], "cannot be read"),
        ("spoilt.gz", gzip.compress(WHOLE)[:10] + b"\xff" * 20, "cannot be read"),
    ],
)
def test_a_malformed_file_is_named(tmp_path, name, data, complaint):
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(ConfigError, match=complaint) as error:
        read_idx(path)
    assert str(path) in str(error.value)


def test_a_whole_file_is_read(tmp_path):
    (tmp_path / "whole").write_bytes(WHOLE)
    assert read_idx(tmp_path / "whole").tobytes() == b"ab"


@debian
def test_fashion_mnist_as_debian_has_it():
    data = load_dataset("fashion")
    assert data.train_images.shape == (60_000, 28, 28, 1)
    assert data.test_images.shape == (10_000, 28, 28, 1)
    np.testing.assert_array_equal(np.bincount(data.train_labels), 6000)
    np.testing.assert_array_equal(np.bincount(data.test_labels), 1000)
    # As published: mean 0.2860, standard deviation 0.3530 of pixels in 0..1.
    assert data.train_images.mean() / 255 == pytest.approx(0.2860, abs=5e-5)
    assert data.train_images.std() / 255 == pytest.approx(0.3530, abs=5e-5)
