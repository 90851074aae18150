"""Data sets to train on and to test with: `load_dataset(name, ...)`."""

from train.data.dataset import Dataset
from train.data.registry import dataset_names, load_dataset, task_of

__all__ = ["Dataset", "dataset_names", "load_dataset", "task_of"]
