"""Inputs of a model and its expected outputs, from a file that the test wrote."""

import numpy as np


class Expectation:
    """Arrays of an .npz file: `text`, `tokens`, `sequence_len`, `char_ids` and `WAY/OUTPUT`."""

    def __init__(self, path):
        with np.load(path, allow_pickle=True) as file:
            self._arrays = dict(file)
        self.text, self.tokens = (self._arrays[name].tolist() for name in ("text", "tokens"))
        self.sequence_len = self._arrays["sequence_len"]
        self.char_ids = self._arrays["char_ids"]

    def check(self, way, outputs, names=None):
        """Compares all outputs, or those with the given names, with the arrays for `way`."""
        start = f"{way}/"
        expected = {k[len(start) :]: v for k, v in self._arrays.items() if k.startswith(start)}
        wanted = set(expected if names is None else names)
        assert set(outputs) == wanted, sorted(outputs)
        for name in wanted:
            np.testing.assert_allclose(outputs[name], expected[name], rtol=0, atol=1e-6)
