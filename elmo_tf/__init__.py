"""ELMo on TensorFlow 2 and Keras 3: train a biLM, load one, get its vectors, export it.

Reading order of the source: `config` (a model's architecture), `text.characters` (tokens to
character ids), `layers` (`char_cnn`, `projected_lstm`, `bilm`, `scalar_mix`), `model.encoder` (the
whole model, from strings to named outputs), `model.language_model` and `training` (how weights are
trained), `formats` (how they are stored), and `export.saved_model` (how a model is exported).

    encoder = elmo_tf.ElmoEncoder.from_model("options.json,weights.hdf5")
    encoder(["The cat sat on the mat ."])["elmo"]         # [1, 7, 2 * projection_dim]

Public names are imported at their first use, because importing TensorFlow takes seconds and
neither `--help` nor `batch_to_ids` needs it.
"""

import importlib
from typing import Any

__version__ = "0.1.0"  # setup.py reads it here

_MODULES = {
    "ElmoConfig": "elmo_tf.config.model",
    "ElmoEmbedding": "elmo_tf.model.embedding",
    "ElmoEncoder": "elmo_tf.model.encoder",
    "ElmoMix": "elmo_tf.layers.elmo_mix",
    "InputError": "elmo_tf.errors",
    "batch_to_ids": "elmo_tf.text.characters",
    "batches_by_tokens": "elmo_tf.text.batches",
    "describe": "elmo_tf.formats.description",
    "embed_sentences": "elmo_tf.vectors.line_vectors",
    "models": "elmo_tf.formats.catalog",
}

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *_MODULES]
