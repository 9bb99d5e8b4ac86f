"""Small models that tests share. All sizes differ, so that swapped axes are detected.

Tests that do not change a model use the session fixtures `small_encoder` and `small_pair` of
`conftest.py`. Tests that change a model, or need other sizes, build one here.
"""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from elmo_tf.config.model import CharCnnConfig, ElmoConfig, LstmConfig

if TYPE_CHECKING:
    from elmo_tf.model.encoder import ElmoEncoder

_CHAR_CNN = CharCnnConfig(
    embedding_dim=3, filters=((1, 4), (2, 6)), num_highway_layers=1, max_characters_per_token=11
)
_LSTM = LstmConfig(dim=9, projection_dim=5, num_layers=2)
_OF_CHAR_CNN = {field.name for field in dataclasses.fields(CharCnnConfig)}


def small_config(**changes: Any) -> ElmoConfig:
    """A model with character input: 2 layers of 9 units projected to 5.

    Args:
      **changes: values of `CharCnnConfig` and `LstmConfig` to change.
    """
    of_char_cnn = {name: changes.pop(name) for name in _OF_CHAR_CNN & set(changes)}
    return ElmoConfig(
        dataclasses.replace(_CHAR_CNN, **of_char_cnn), dataclasses.replace(_LSTM, **changes)
    )


def small_encoder(
    config: ElmoConfig | None = None,
    seed: int = 3,
    weights_scale: float | None = None,
    **kwargs: Any,
) -> "ElmoEncoder":
    """An encoder with a scalar mix that differs from the initial one.

    Args:
      config: the configuration; default: `small_config()`.
      seed: seed of the weights.
      weights_scale: standard deviation of the LSTMs' weights; with their initial values, outputs
        hardly depend on inputs.
      **kwargs: arguments of `ElmoEncoder`.
    """
    from elmo_tf.model.encoder import ElmoEncoder  # takes seconds; configurations do not need it

    encoder = ElmoEncoder(config or small_config(), seed=seed, **kwargs)
    mix = encoder.scalar_mix.layer_weights
    mix.assign(np.resize([0.5, -1.0, 0.25], mix.shape))
    encoder.scalar_mix.gamma.assign(1.5)
    if weights_scale is not None:
        rng = np.random.default_rng(seed)
        for variable in encoder.bilm.weights:
            variable.assign(rng.normal(size=variable.shape, scale=weights_scale))
    return encoder


def write_pair(folder: Path, encoder: "ElmoEncoder") -> Path:
    """Writes `options.json` and `weights.hdf5` into a folder, which it creates and returns."""
    from elmo_tf.formats import bilm_tf

    folder.mkdir(exist_ok=True)
    encoder.config.write(folder / "options.json")
    arrays = bilm_tf.collect_arrays(encoder)
    bilm_tf.write_weights(folder / "weights.hdf5", arrays, encoder.config)
    return folder
