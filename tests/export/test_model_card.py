"""The model card describes the model and contains nothing about the machine."""

import tensorflow as tf

from elmo_tf.config.model import CharCnnConfig, ElmoConfig, LstmConfig
from elmo_tf.export import model_card
from elmo_tf.model.inputs.kinds import make_input
from tests.export.small import CONFIG

VARIABLES = {"one": tf.Variable([[1.0, 2.0, 3.0]]), "two": tf.Variable(4.0)}


def card(config=CONFIG, variables=VARIABLES, trainable="mix", provenance=()):
    return model_card.text(config, make_input(config.input), variables, trainable, provenance)


def test_says_what_the_model_is():
    text = card()
    for part in (
        "language model of 2 layers",
        "up to 11 positions",
        "1 x 3, 2 x 5, 3 x 7",
        "9 units, projected to 6, cell clipped at 3, projection clipped at 3, 2 layers in each",
        "| parameters | 4 |",
        "| trainable | the scalar mix",
        "`lstm_outputs1`, `lstm_outputs2` | `[batch, max_tokens, 12]`",
        "`char_ids`: int32 `[batch, max_tokens, 11]`",
        "of which the first 9 count",
        "Provenance\nNot stated.",
        "License\nNot stated.",
    ):
        assert part in text
    assert text.isascii()
    assert "{" not in text


def test_other_shapes():
    config = ElmoConfig(
        CharCnnConfig(filters=((1, 8),), num_highway_layers=0),
        LstmConfig(8, 8, 1, use_skip_connections=False, cell_clip=None, projection_clip=None),
    )
    text = card(config, trainable="all")
    for part in (
        "language model of 1 layer ",
        "| LSTM | 8 units, not projected, 1 layer in each direction |",
        "| skip connections | none |",
        "| trainable | everything |",
        "| `lstm_outputs1` |",
    ):
        assert part in text


def test_fingerprint_follows_the_weights():
    def fingerprint(variables):
        return next(line for line in card(variables=variables).splitlines() if "sha256" in line)

    same = dict(reversed(VARIABLES.items()))
    other = {**VARIABLES, "two": tf.Variable(4.5)}
    renamed = {"one": VARIABLES["one"], "three": VARIABLES["two"]}
    assert fingerprint(same) == fingerprint(VARIABLES)
    assert len({fingerprint(each) for each in (VARIABLES, other, renamed)}) == 3


def test_provenance_is_given_line_by_line():
    assert "Provenance\nFrom here.\nAnd there.\nFingerprint" in card(
        provenance=["From here.", "And there."]
    )
