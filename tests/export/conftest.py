"""Exports of one small encoder, which all tests of this folder share."""

import pytest
import tensorflow as tf

from elmo_tf.export import saved_model
from tests.export.small import VOCABULARY, make_encoder


@pytest.fixture(scope="session")
def encoder():
    return make_encoder()


@pytest.fixture(scope="session")
def exported(encoder, tmp_path_factory):
    """The path of an export with default settings, a vocabulary, and an archive next to it."""
    folder = tmp_path_factory.mktemp("export")
    (folder / "words.txt").write_bytes(VOCABULARY)
    path = folder / "exported"
    saved_model.export(
        encoder,
        path,
        archive=True,
        vocabulary_file=folder / "words.txt",
        provenance=["Drawn at random."],
    )
    return path


@pytest.fixture(scope="session")
def loaded(exported):
    return tf.saved_model.load(str(exported))


@pytest.fixture(scope="session")
def loaded_trainable(encoder, tmp_path_factory):
    """A loaded export in which everything is trainable."""
    path = tmp_path_factory.mktemp("export") / "trainable"
    saved_model.export(encoder, path, trainable="all")
    return tf.saved_model.load(str(path))
