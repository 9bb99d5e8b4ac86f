"""The largest difference from each model's own program, in Python and exported.

`pytest -s -m slow tests/integration/test_peers.py` prints them.
"""

import json

import numpy as np
import pytest

from tests.integration import peers

PER_LAYER = {  # the model, its sentences, and its program's vectors
    f"tf1_checkpoint/{name}/checkpoint_dir": (
        "tf1_checkpoint/sentences.json",
        f"tf1_checkpoint/{name}/expected.npz",
    )
    for name in ("one_layer", "two_layers", "word_shared_softmax")
} | {
    f"archives/{name}": ("archives/sentences.json", f"archives/plain/{plain}_expected.npz")
    for name, plain in (("193.zip", "nlpl"), ("pair_in_folder.tar.gz", "pair"))
}
MODULES = ("google_full", "google_other_sizes", "deeppavlov")
PER_TOKEN = ("word_emb", "lstm_outputs1", "lstm_outputs2", "elmo")


def ways(model, folder):
    return {
        "Python": peers.through_python(model),
        "SavedModel": peers.through_saved_model(model, folder),
    }


@pytest.mark.slow  # 8 s each, for the export
@pytest.mark.parametrize("name", PER_LAYER)
def test_layers(fixtures_dir, tmp_path, name):
    sentences, expected = (fixtures_dir / path for path in PER_LAYER[name])
    for way, outputs_of in ways(fixtures_dir / name, tmp_path).items():
        difference = peers.largest_difference(outputs_of, sentences, np.load(expected))
        print(f"{name} {way}: {difference:.1e}")
        assert difference < peers.TOLERANCE


@pytest.mark.slow  # 8 s each, for the export
@pytest.mark.parametrize("name", MODULES)
def test_outputs_of_modules(fixtures_dir, tmp_path, name):
    """Without padding and the row of `<S>` and `</S>`, which modules read as characters."""
    folder = fixtures_dir / "tf1_hub"
    sentences = json.loads((folder / "sentences.json").read_text(encoding="utf-8"))["tokens"]
    expected = np.load(folder / name / "expected.npz")
    rows = [row for row, tokens in enumerate(sentences) if tokens and "<S>" not in tokens]
    assert len(rows) == 5
    for way, outputs_of in ways(folder / name / "module", tmp_path).items():
        outputs = outputs_of(sentences)
        difference = max(
            np.abs(outputs[key][row] - expected[f"tokens/{key}"][row])[: len(sentences[row])].max()
            for key in PER_TOKEN
            for row in rows
        )
        print(f"{name} {way}: {difference:.1e}")
        assert difference < peers.TOLERANCE
