import cv2
import numpy as np
import pytest

from parm_ray.core.errors import ConfigError
from tests.support.data_set_files import write_jpeg
from train.data import load_dataset
from train.data.pictures import read_pictures

RED, BLUE = (200, 20, 20), (20, 20, 200)


def write(root, cat, dog, each=3):
    for number in range(each):
        write_jpeg(root / cat.format(number), RED, height=20 + 5 * number)
        write_jpeg(root / dog.format(number), BLUE, width=30 + 9 * number)


@pytest.mark.parametrize(
    ("cat", "dog"),
    [
        ("train/cat.{}.jpg", "train/dog.{}.jpg"),
        ("cat/{}.jpg", "dog/{}.jpg"),
        ("train/cat/{}.jpg", "train/dog/{}.jpg"),
    ],
)
def test_both_layouts_give_rgb_squares_and_labels(tmp_path, cat, dog):
    write(tmp_path, cat, dog)
    images, labels = read_pictures(tmp_path, size=16).train
    assert images.shape == (6, 16, 16, 3)
    assert images.dtype == np.uint8
    assert labels.tolist() == [0, 0, 0, 1, 1, 1]
    # JPEG keeps a flat colour to within rounding.
    assert np.abs(images[:3].astype(int) - RED).max() <= 3
    assert np.abs(images[3:].astype(int) - BLUE).max() <= 3


@pytest.mark.parametrize(("name", "size"), [("cat_v_dog", 224), ("cat_v_dog64", 64)])
def test_the_test_set_is_set_aside_by_class(tmp_path, name, size):
    write(tmp_path, "train/cat.{}.jpg", "train/dog.{}.jpg")
    data = load_dataset(name, test_size=2, root=tmp_path)
    assert data.input_spec.shape == (size, size, 3)
    assert sorted(data.test_labels) == [0, 1]
    assert data.class_names == ("cat", "dog")
    with pytest.raises(ConfigError, match="test_size: "):
        load_dataset(name, root=tmp_path)


def test_both_sides_are_scaled_and_nothing_is_cut_off(tmp_path):
    halves = np.zeros((20, 80, 3), np.uint8)
    halves[:, 40:] = 255
    (tmp_path / "cat").mkdir()
    cv2.imwrite(str(tmp_path / "cat" / "a.jpg"), halves)
    write_jpeg(tmp_path / "dog" / "a.jpg", BLUE)
    image = read_pictures(tmp_path, size=10).train[0][0]
    assert image[:, :5].max() < 10
    assert image[:, 5:].min() > 245


def test_what_is_missing_or_broken_is_named(tmp_path):
    with pytest.raises(ConfigError, match="--data"):
        load_dataset("cat_v_dog", test_size=1)
    write_jpeg(tmp_path / "cat" / "a.jpg", RED)
    with pytest.raises(ConfigError, match=r"no pictures of dog under .*dog/\*.jpg"):
        read_pictures(tmp_path, size=8)
    write_jpeg(tmp_path / "dog" / "a.jpg", BLUE)
    path = tmp_path / "dog" / "a.jpg"
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ConfigError, match=r"dog/a.jpg: .*mend or remove"):
        read_pictures(tmp_path, size=8)
