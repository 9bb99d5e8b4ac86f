"""A model from any format, written in the format of bilm-tf, is the same model there."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from elmo_tf.formats import locate
from elmo_tf.model.encoder import ElmoEncoder
from export import export_weights
from tests.integration import peers
from tests.integration.zoo import layers_of

# All have character input, which simple_elmo requires.
MODELS = (
    "tf1_checkpoint/one_layer/checkpoint_dir",
    "tf1_checkpoint/two_layers/checkpoint_dir",
    "tf1_hub/google_full/module",
    "tf1_hub/deeppavlov/module",
    "archives/tfhub_module.tar.gz",
    "archives/folder_inside.zip",
    "archives/pair_in_folder.tar.gz",
)
SENTENCES = [["The", "cat", "sat", "."], ["Naïve", "日本語", "internationalisation" * 3], ["one"]]


@pytest.fixture(scope="module")
def written(fixtures_dir, tmp_path_factory):
    """A function that returns the directory of a written model by name."""
    folder = tmp_path_factory.mktemp("written")

    def write(name):
        path = folder / str(MODELS.index(name))
        if not path.exists():
            arguments = [f"--model={fixtures_dir / name}", f"--output_dir={path}"]
            assert export_weights.main(arguments) == 0
        return path

    return write


@pytest.mark.parametrize("name", MODELS)
def test_arrays_are_equal(fixtures_dir, written, name):
    with (
        locate.open_model(fixtures_dir / name) as original,
        locate.open_model(written(name)) as again,
    ):
        assert again.config == original.config
        assert again.names() == original.names(scalar_mix=False)
        for each in again.names():
            np.testing.assert_array_equal(again.arrays[each].read(), original.arrays[each].read())


@pytest.mark.slow  # installs simple_elmo, which runs bilm-tf's graph for each model
def test_simple_elmo_computes_the_same(fixtures_dir, written, tmp_path):
    packages = tmp_path / "packages"  # its dependencies except TensorFlow
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]
    wanted = ["simple-elmo==0.9.2", "smart-open==7.1.0"]
    subprocess.run([*command, str(packages), *wanted], check=True)
    (tmp_path / "sentences.json").write_text(json.dumps(SENTENCES))
    script = os.path.join(os.path.dirname(__file__), "consumers", "simple_elmo_vectors.py")
    output = tmp_path / "vectors.npz"
    arguments = [script, tmp_path / "sentences.json", output, *map(written, MODELS)]
    subprocess.run(
        [sys.executable, *map(str, arguments)],
        check=True,
        env={**os.environ, "PYTHONPATH": str(packages)},
    )
    theirs = np.load(output)
    for number, name in enumerate(MODELS):
        outputs = ElmoEncoder.from_model(fixtures_dir / name)(*peers.padded(SENTENCES))
        for row, sentence in enumerate(SENTENCES):
            ours = layers_of(outputs, row, len(sentence))
            np.testing.assert_allclose(
                ours, theirs[f"{number}/{row}"], rtol=0, atol=peers.TOLERANCE, err_msg=name
            )
