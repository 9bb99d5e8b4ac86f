"""A biLM with word input in NumPy, from files in bilm-tf format."""

import json
from pathlib import Path

import h5py
import numpy as np


def _sigmoid(values: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-values))


def _lstm(inputs: np.ndarray, weights: h5py.Group, options: dict) -> np.ndarray:
    """One layer over `[time, P]`, from the zero state: `[time, P]`."""
    kernel, bias = weights["W_0"][()].astype(float), weights["B"][()].astype(float)
    projection = weights["W_P_0"][()].astype(float) if "W_P_0" in weights else None
    dim = bias.size // 4
    cell, hidden, outputs = np.zeros(dim), np.zeros(options["projection_dim"]), []
    for step in inputs:
        gates = np.concatenate([step, hidden]) @ kernel + bias
        inner, new, forget, outer = np.split(gates, 4)  # i, j, f, o
        cell = _sigmoid(forget + 1.0) * cell + _sigmoid(inner) * np.tanh(new)
        if options.get("cell_clip"):
            cell = np.clip(cell, -options["cell_clip"], options["cell_clip"])
        hidden = _sigmoid(outer) * np.tanh(cell)
        if projection is not None:
            hidden = hidden @ projection
            if options.get("proj_clip"):
                hidden = np.clip(hidden, -options["proj_clip"], options["proj_clip"])
        outputs.append(hidden)
    return np.array(outputs)


def word_layers(folder: Path, tokens: list[str]) -> np.ndarray:
    """All layers of one sentence, `[num_layers + 1, tokens, 2 * P]`, without boundaries."""
    options = json.loads((folder / "options.json").read_text())["lstm"]
    words = (folder / "vocab.txt").read_text().splitlines()
    unknown = words.index("<UNK>")
    rows = [words.index(token) if token in words else unknown for token in ("<S>", *tokens, "</S>")]
    with h5py.File(folder / "weights.hdf5") as file:
        embedded = file["embedding"][()].astype(float)[rows]  # [tokens + 2, P]
        layers = [[embedded] * 2]
        for number in range(options["n_layers"]):
            both = []
            for way in (0, 1):
                inputs = layers[-1][way][:: 1 - 2 * way]
                name = f"RNN_{way}/RNN/MultiRNNCell/Cell{number}/LSTMCell"
                outputs = _lstm(inputs, file[name], options)
                if number and options["use_skip_connections"]:
                    outputs += inputs
                both.append(outputs[:: 1 - 2 * way])
            layers.append(both)
    return np.array([np.concatenate(both, axis=-1)[1:-1] for both in layers])
