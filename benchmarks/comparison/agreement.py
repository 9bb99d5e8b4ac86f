"""Checks that all systems compute the same results before anything is timed."""

from collections.abc import Sequence
from pathlib import Path

import h5py
import numpy as np

from comparison.workers import Worker
from elmo_tf.config.model import ElmoConfig
from elmo_tf.formats import bilm_tf
from elmo_tf.storage.files import read_json

TOLERANCE = 1e-4


def check_encoders(
    encoders: Sequence[Worker], sentences: Sequence[Sequence[str]], directory: Path
) -> float:
    """Compares encodings of sentences of medium length; returns the largest difference.

    Raises:
      SystemExit: it is more than `TOLERANCE`.
    """
    count = min(7, len(sentences))
    first = (len(sentences) - count) // 2
    lengths = [len(tokens) for tokens in sentences[first : first + count]]
    outputs = []
    for encoder in encoders:
        path = directory / f"{encoder.name}.npy"
        encoder.call("write_outputs", path=str(path), first=first, count=count)
        vectors = np.load(path)
        outputs.append(np.concatenate([vectors[i, :length] for i, length in enumerate(lengths)]))
    return _largest_difference([encoder.name for encoder in encoders], outputs)


def check_trainers(trainers: Sequence[Worker], num_steps: int) -> float:
    """Compares losses step by step, including those after updates; needs the full softmax.

    Raises:
      SystemExit: the largest difference is more than `TOLERANCE`.
    """
    losses = [
        np.array(trainer.call("train", num_steps=num_steps)["losses"]) for trainer in trainers
    ]
    return _largest_difference([trainer.name for trainer in trainers], losses)


def write_reference_run(fixture: Path, directory: Path) -> dict:
    """Writes the model and windows of a recorded bilm-tf run; returns settings for a trainer.

    The run's losses are in `expected_losses` of the result.
    """
    options = read_json(fixture / "training_options.json")
    config = ElmoConfig.from_options(options)
    with h5py.File(fixture / "trajectory.hdf5", "r") as file:
        arrays = {}
        file["initial"].visititems(
            lambda name, item: (
                arrays.update({bilm_tf.current_name(name): item[...]})
                if isinstance(item, h5py.Dataset)
                else None
            )
        )
        windows = file["windows"]
        characters = np.stack(  # [windows, 2, batch, steps, max_characters]
            [windows["tokens_characters"], windows["tokens_characters_reverse"]], axis=1
        )
        targets = np.stack([windows["next_token_id"], windows["next_token_id_reverse"]], axis=1)
        losses = file["loss"][...]
    words, places = np.unique(
        characters.reshape(-1, characters.shape[-1]), axis=0, return_inverse=True
    )
    directory.mkdir()
    config.write(directory / "options.json")
    bilm_tf.write_weights(directory / "model.hdf5", arrays, config)
    np.savez(
        directory / "windows.npz",
        character_ids=words.astype(np.int32) + 1,
        token_index=places.reshape(targets.shape).astype(np.int32),
        targets=targets,
    )
    return {
        "model": str(directory),
        "windows": str(directory / "windows.npz"),
        "settings": {
            "batch_size": options["batch_size"],
            "unroll_steps": options["unroll_steps"],
            "num_negatives": 0,
            "dropout": 0.0,
            "clip_norm": options["all_clip_norm_val"],
            "learning_rate": options["learning_rate"],
        },
        "expected_losses": losses.tolist(),
    }


def check_losses(trainer: Worker, expected: Sequence[float]) -> float:
    """Compares a trainer's losses with recorded ones.

    Raises:
      SystemExit: the largest difference is more than `TOLERANCE`.
    """
    losses = trainer.call("train", num_steps=len(expected))["losses"]
    return _largest_difference([trainer.name, "recorded"], [np.array(losses), np.array(expected)])


def _largest_difference(names: Sequence[str], values: Sequence[np.ndarray]) -> float:
    differences = [float(np.abs(array - values[0]).max()) for array in values]
    worst = int(np.argmax(differences))
    if not differences[worst] <= TOLERANCE:
        raise SystemExit(
            f"{names[worst]} and {names[0]} differ by {differences[worst]:.2g}, "
            f"more than {TOLERANCE:g}: nothing is timed"
        )
    return differences[worst]
