"""The configurations of shared/fixtures/config_zoo, and how its sentences are fed."""

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
TOLERANCE = 1e-5  # what shared/README.md promises; 2e-6 is usual


def padded(sentences: list[list[str]]) -> list[list[bytes]]:
    """Token lists of one length, filled up with "", as a string tensor wants them."""
    width = max(map(len, sentences))
    return [
        [token.encode() for token in sentence] + [b""] * (width - len(sentence))
        for sentence in sentences
    ]
