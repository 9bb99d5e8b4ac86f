"""Inputs and expected outputs of shared/fixtures/config_zoo and bilm_tf."""

import json
from pathlib import Path
from typing import NamedTuple

import h5py
import numpy as np

from tests.hdf5_arrays import read_arrays

CONFIGURATIONS = (
    "filters_equal_projection",
    "long_words",
    "no_clips",
    "no_highway",
    "no_lstm_projection",
    "noskip",
    "one_highway",
    "one_layer",
    "skip",
    "tanh",
    "three_layers",
    "tight_clips",
)
TOLERANCE = 1e-5  # that of shared/README.md; 2e-6 is usual


def padded(sentences: list[list[str]]) -> list[list[bytes]]:
    """Token lists padded with "" to one length, for a string tensor."""
    width = max(map(len, sentences))
    return [
        [token.encode() for token in sentence] + [b""] * (width - len(sentence))
        for sentence in sentences
    ]


class Case(NamedTuple):
    """One configuration: its folder, the sentences by batch, and all expected arrays by name."""

    folder: Path
    sentences: dict[str, list[list[str]]]
    expected: dict[str, np.ndarray]


def read_case(fixtures_dir: Path, name: str) -> Case:
    """Reads a configuration of `CONFIGURATIONS`."""
    folder = fixtures_dir / "config_zoo" / name
    sentences = json.loads((fixtures_dir / "config_zoo/sentences.json").read_text())
    return Case(folder, sentences, read_arrays(folder / "expected.hdf5"))


def layers_of(outputs: dict, row: int, length: int) -> np.ndarray:
    """[num_layers + 1, length, 2 * P], the fixture's layout; checks zeros past the length."""
    word = np.asarray(outputs["word_emb"])
    layers = [np.concatenate([word, word], axis=-1)]
    while f"lstm_outputs{len(layers)}" in outputs:
        layers.append(np.asarray(outputs[f"lstm_outputs{len(layers)}"]))
    stacked = np.stack(layers)[:, row]
    assert not stacked[:, length:].any()
    return stacked[:, :length]


def check(outputs: dict, case: Case, batch: str, group: str | None = None) -> None:
    """Compares all layers of all sentences of a batch with the fixture's `group`."""
    for row, sentence in enumerate(case.sentences[batch]):
        actual = layers_of(outputs, row, len(sentence))
        expected = case.expected[f"{group or batch}/{row}"]
        np.testing.assert_allclose(actual, expected, rtol=0, atol=TOLERANCE)


def read_bilm_tf(fixtures_dir: Path) -> tuple[list[list[str]], list[list[np.ndarray]]]:
    """The sentences and the top layers of the fixture bilm_tf, `[3 files][10 sentences]` each."""
    folder = fixtures_dir / "bilm_tf"
    files = json.loads((folder / "lm_embeddings_sentences.json").read_text())
    expected = []
    for number, sentences in enumerate(files):
        with h5py.File(folder / f"lm_embeddings_{number}.hdf5") as file:
            expected.append([file[str(i)][()] for i in range(len(sentences))])
    return files, expected


def top_of_both_directions(outputs: dict, row: int, length: int) -> np.ndarray:
    """The top layer of one row in bilm_tf's layout: [2 directions, length, P]."""
    top = outputs["lstm_outputs2"].numpy()[row, :length]
    return np.stack(np.split(top, 2, axis=-1))
