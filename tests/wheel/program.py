"""A user's work with an installed wheel: vectors, a short training, an export, loading it.

    python program.py DIRECTORY

DIRECTORY holds reference models of bilm-tf; without it that part is skipped. The working
directory is empty.
"""

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import h5py
import numpy as np
import tensorflow as tf

import elmo_tf

SENTENCES = ["The cat sat on the mat .", "Rain fell .", "A dog barked at the cat ."]


def command(name, **flags):
    arguments = [f"--{flag}={value}" for flag, value in flags.items()]
    return run([name, *arguments])


def run(words):
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout


def check_installation():
    assert "site-packages" in elmo_tf.__file__, elmo_tf.__file__
    assert run(["elmo-train", "--version"]).split()[-1] == elmo_tf.__version__
    assert metadata.version("elmo_tf") == elmo_tf.__version__
    assert elmo_tf.models()  # read from a file of the package


def check_reference(directory):
    """A model that bilm-tf trained gives bilm-tf's vectors."""
    encoder = elmo_tf.ElmoEncoder.from_model(directory / "model")
    sentence = json.loads((directory / "lm_embeddings_sentences.json").read_text())[0][0]
    with h5py.File(directory / "lm_embeddings_0.hdf5") as file:
        forward, backward = file["0"][()]
    top = encoder([sentence])["lstm_outputs2"][0]
    np.testing.assert_allclose(top, np.concatenate([forward, backward], -1), atol=1e-6)


def train_and_export():
    Path("text.txt").write_text("\n".join(SENTENCES * 10), encoding="utf-8")
    command("elmo-vocab", input_files="text.txt", output_file="vocab.txt")
    command(
        "elmo-train",
        train_files="text.txt",
        heldout_files="text.txt",
        vocab_file="vocab.txt",
        model_dir="run",
        size="tiny",
        max_steps=2,
        batch_size=2,
        unroll_steps=5,
        num_negative_samples=4,
    )
    figures = command("elmo-evaluate", model_dir="run", heldout_files="text.txt")
    assert json.loads(figures.splitlines()[-1])["perplexity"] > 1
    command("elmo-embed", model="run", input_file="text.txt", output_file="vectors.hdf5")
    command("elmo-export", model="run", output_dir="exported")
    command("elmo-export-weights", model="run", output_dir="published")


def check_that_all_forms_agree():
    expected = elmo_tf.ElmoEncoder.from_model("run")(SENTENCES)["elmo"].numpy()
    assert expected.shape == (3, 7, 128)
    assert np.abs(expected).max() > 0.01
    exported = tf.saved_model.load("exported")(SENTENCES)["elmo"]
    np.testing.assert_allclose(exported, expected, atol=1e-5)
    published = elmo_tf.ElmoEncoder.from_model("published")(SENTENCES)["elmo"]
    np.testing.assert_allclose(published, expected, atol=1e-5)


def main(directory):
    print(f"Python {sys.version.split()[0]}, TensorFlow {tf.__version__}", flush=True)
    check_installation()
    if os.path.isdir(directory):
        check_reference(Path(directory))
    else:
        print(f"{directory}: absent, its check is left out")
    train_and_export()
    check_that_all_forms_agree()


if __name__ == "__main__":
    main(sys.argv[1])
