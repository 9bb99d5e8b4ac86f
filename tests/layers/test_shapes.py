"""Layers whose weights depend on the width of their inputs refuse an unknown width."""

import re

import pytest

from elmo_tf.layers.highway import Highway
from elmo_tf.layers.projected_lstm import ProjectedLstm
from elmo_tf.layers.sampled_softmax import SampledSoftmax

pytestmark = pytest.mark.traced


@pytest.mark.parametrize(
    "layer", [Highway(), ProjectedLstm(units=5), SampledSoftmax(vocabulary_size=7)]
)
def test_unknown_last_dimension(layer):
    message = f"{type(layer).__name__}: the last dimension of inputs must be known, got shape"
    with pytest.raises(ValueError, match=re.escape(f"{message} (None, 3, None)")):
        layer.build((None, 3, None))
