import numpy as np
import pytest

from parm_ray.core.errors import ConfigError
from tests.support.data_set_files import write_cifar
from train.data import load_dataset


def some(count, seed, label_bytes, classes):
    random = np.random.default_rng(seed)
    labels = random.integers(0, classes, (count, label_bytes))
    labels[:, -1] = np.arange(count) % classes
    return random.integers(0, 256, (count, 32, 32, 3)), labels


def write_cifar10(folder):
    parts = [some(4, number, 1, 10) for number in range(6)]
    for number, part in enumerate(parts[:5], 1):
        write_cifar(folder / f"data_batch_{number}.bin", *part)
    write_cifar(folder / "test_batch.bin", *parts[5])
    return parts


@pytest.mark.parametrize("layout", ["cifar-10-batches-bin", "."])
def test_cifar10_joins_the_five_batches_in_order_as_rgb(tmp_path, layout):
    parts = write_cifar10(tmp_path / layout)
    data = load_dataset("cifar10", root=tmp_path)
    np.testing.assert_array_equal(data.train_images, np.concatenate([images for images, _ in parts[:5]]))
    np.testing.assert_array_equal(
        data.train_labels, np.concatenate([labels[:, 0] for _, labels in parts[:5]])
    )
    np.testing.assert_array_equal(data.test_images, parts[5][0])
    assert data.train_images.dtype == np.uint8
    assert data.input_spec.shape == (32, 32, 3)
    assert data.class_names[0] == "airplane"
    assert data.output_spec.shape == (10,)


def test_cifar100_takes_the_fine_labels(tmp_path):
    train, test = some(120, 0, 2, 100), some(5, 1, 2, 100)
    write_cifar(tmp_path / "cifar-100-binary" / "train.bin", *train)
    write_cifar(tmp_path / "cifar-100-binary" / "test.bin", *test)
    data = load_dataset("cifar100", root=tmp_path)
    np.testing.assert_array_equal(data.train_labels, train[1][:, 1])
    np.testing.assert_array_equal(data.test_images, test[0])
    assert len(set(data.class_names)) == 100
    assert data.class_names[-1] == "worm"


def test_pickles_are_not_read(tmp_path):
    (tmp_path / "cifar-10-batches-py").mkdir()
    (tmp_path / "cifar-10-batches-py" / "data_batch_1").write_bytes(b"cos\nsystem\n(S'false'\ntR.")
    with pytest.raises(ConfigError, match=r"expected the binary version's .*, not the pickles"):
        load_dataset("cifar10", root=tmp_path)
    with pytest.raises(ConfigError, match="--data"):
        load_dataset("cifar100")


def test_a_malformed_file_is_named(tmp_path):
    write_cifar10(tmp_path)
    path = tmp_path / "data_batch_3.bin"
    whole = path.read_bytes()
    for data, complaint in (
        (whole[:-1], "not a whole number of records of 3073"),
        (b"", "0 bytes are not a whole number"),
        (b"\x0a" + whole[1:], "label 10, expected 0 to 9"),
    ):
        path.write_bytes(data)
        with pytest.raises(ConfigError, match=f"data_batch_3.bin: .*{complaint}"):
            load_dataset("cifar10", root=tmp_path)
    path.unlink()
    with pytest.raises(ConfigError, match=r"data_batch_3.bin: cannot be read"):
        load_dataset("cifar10", root=tmp_path)
