"""Public names of the package are imported at their first use."""

import subprocess
import sys

import pytest

import elmo_tf


def test_every_public_name_is_there():
    assert {"batch_to_ids", "ElmoEncoder", "InputError"} <= set(elmo_tf.__all__)
    for name in elmo_tf.__all__:
        assert getattr(elmo_tf, name).__name__ == name
        assert name in dir(elmo_tf)


def test_unknown_names_are_said():
    with pytest.raises(AttributeError, match="'elmo_tf' has no attribute 'batch_to_id'"):
        elmo_tf.batch_to_id  # noqa: B018


def test_characters_and_configuration_do_without_tensorflow():
    program = (
        "import sys, elmo_tf; "
        "assert elmo_tf.batch_to_ids([['a']]).shape == (1, 1, 50); "
        "elmo_tf.ElmoConfig; "
        "assert not {'tensorflow', 'keras'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
