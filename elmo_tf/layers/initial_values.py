"""Initial values of weights: random draws, or zeros for weights that are read from a file."""

import dataclasses

import keras

from elmo_tf.layers.seeds import derive_seed


@dataclasses.dataclass(frozen=True)
class InitialValues:
    """The initializers of one layer's weights.

    Attributes:
      seed: the layer's seed, from which each weight's seed is derived; None: not repeatable.
      without_initialization: whether weights start as zeros, because their values will be read from
        a file. Random values for the 93 million weights of the original size take a third of the
        loading time.
    """

    seed: int | None
    without_initialization: bool = False

    def uniform(self, limit: float, name: str) -> keras.initializers.Initializer:
        """uniform(-limit, limit) for the weight `name`."""
        if self.without_initialization:
            return keras.initializers.Zeros()
        return keras.initializers.RandomUniform(-limit, limit, seed=derive_seed(self.seed, name))

    def normal(self, stddev: float, name: str) -> keras.initializers.Initializer:
        """normal(0, stddev) for the weight `name`."""
        if self.without_initialization:
            return keras.initializers.Zeros()
        return keras.initializers.RandomNormal(stddev=stddev, seed=derive_seed(self.seed, name))
