"""bilm-tf's own checkpoints in our commands: export, scores, training that continues.

`tests/formats/test_bilm_tf_checkpoint.py` has their vectors and perplexities.
"""

import json

import numpy as np
import pytest
import tensorflow as tf

from elmo_tf import score
from elmo_tf.formats import bilm_tf, locate
from elmo_tf.text.characters import batch_to_ids
from elmo_tf.text.corpus import WindowStream
from elmo_tf.training import run_directory
from elmo_tf.training.loop import Trainer
from elmo_tf.training.run_directory import Request
from export import export_weights
from tests.hdf5_arrays import read_arrays

MODELS = ("one_layer", "two_layers", "word_shared_softmax")


@pytest.fixture(scope="module")
def folder(fixtures_dir):
    return fixtures_dir / "tf1_checkpoint"


@pytest.fixture(scope="module", params=MODELS)
def name(request):
    return request.param


@pytest.fixture(scope="module")
def model(folder, name):
    return folder / name / "checkpoint_dir"


def test_exported_weights_are_those_that_bilm_tf_dumps(folder, name, model, tmp_path):
    assert export_weights.main([f"--model={model}", f"--output_dir={tmp_path}/pair"]) == 0
    found = read_arrays(tmp_path / "pair/weights.hdf5")
    dumped = {
        bilm_tf.current_name(key): array
        for key, array in read_arrays(folder / name / "dumped_weights.hdf5").items()
    }
    # bilm-tf's weight files never contain the softmax.
    assert {key for key in found if not key.startswith("softmax/")} == dumped.keys()
    for key, array in dumped.items():
        np.testing.assert_array_equal(found[key], array, err_msg=key)


def test_scores(folder, tmp_path):
    """Each sentence starts from the zero state, in input order; losses are in nats."""
    expected = np.load(folder / "one_layer/expected.npz")
    arguments = [f"--model_dir={folder}/one_layer/checkpoint_dir"]
    arguments += [f"--input_file={folder}/heldout.txt", f"--output_file={tmp_path}/scores"]
    assert score.main(arguments) == 0
    lines = [json.loads(line) for line in (tmp_path / "scores").read_text().splitlines()]
    forward = [v for line in lines for v in (*line["forward"], line["forward_boundary"])]
    backward = [v for line in lines for v in (*line["backward"][::-1], line["backward_boundary"])]
    for ours, name in ((forward, "forward"), (backward, "backward")):
        theirs = expected[f"heldout/zero_state/{name}_losses"]
        np.testing.assert_allclose(np.negative(ours), theirs, rtol=1e-6, atol=1e-6)


def begin(folder, model, directory, **settings):
    """Starts a run on the checkpoint's text with the settings of its training."""
    options = json.loads((model / "options.json").read_text())
    settings = {
        "batch_size": options["batch_size"],
        "unroll_steps": options["unroll_steps"],
        "learning_rate": options["learning_rate"],
        "clip_norm": options["all_clip_norm_val"],
        "dropout": 0.0,
        "num_negative_samples": 0,
        "max_steps": 12,
        **settings,
    }
    with locate.open_model(model) as opened:
        config = opened.config
    vocabulary = str(folder / "vocab.txt")
    text = [str(folder / "train.txt")]
    request = Request(str(directory), text, vocabulary, None, settings, str(model))
    return run_directory.begin_run(request, config)


def losses_of(trainer, monkeypatch):
    """The forward and backward losses of each step of a trainer."""
    losses = []
    advance = Trainer._advance

    def recorded(self, data, signals):
        result = advance(self, data, signals)
        losses.append((result.forward_loss, result.backward_loss))
        return result

    monkeypatch.setattr(Trainer, "_advance", recorded)
    trainer.train()
    return np.array(losses)


def next_steps_of_bilm_tf(model, run):
    """The losses of bilm-tf's next steps, computed by its own restored training graph.

    The graph is part of the checkpoint. It gets the same inputs as in bilm-tf's `train`: windows,
    and the final state of the previous step.
    """
    stream = WindowStream(
        run.reader(), run.vocabulary, run.training.batch_size, run.training.unroll_steps
    )
    zero = "lm/DropoutWrapperZeroState{}/LSTMCellZeroState/zeros{}:0"
    initial = [zero.format(direction, part) for direction in ("", "_1") for part in ("", "_1")]
    last = 2 * run.training.unroll_steps - 1  # index of the last of each step's operations
    final = [f"lm/RNN_{d}/rnn/lstm_cell/{op}_{last}:0" for d in (0, 1) for op in ("add", "MatMul")]
    losses, state = [], {}
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        prefix = str(model / "model.ckpt-300")
        tf.compat.v1.train.import_meta_graph(f"{prefix}.meta", True).restore(session, prefix)
        for _ in range(run.num_steps):
            feed = dict(state)
            window = stream.next_window()
            shape = (2, run.training.batch_size, run.training.unroll_steps)
            # Character ids in training have no row for padding, like the file.
            tokens = [[token.decode() for token in window.tokens]]
            ids = batch_to_ids(tokens, run.config.input.max_characters_per_token)[0] - 1
            for direction, ending in enumerate(("", "_reverse")):
                characters = ids[window.token_index[direction]]
                assert characters.shape[:2] == shape[1:]
                feed[f"lm/tokens_characters{ending}:0"] = characters
                feed[f"lm/next_token_id{ending}:0"] = window.targets[direction]
            fetched = session.run([["lm/Mean:0", "lm/Mean_1:0"], final, "Adagrad"], feed)
            losses.append(fetched[0])
            state = dict(zip(initial, fetched[1], strict=True))
    return np.array(losses)


def test_training_continues_with_the_next_steps_of_bilm_tf(folder, tmp_path, monkeypatch):
    """Losses of 12 steps, from a checkpoint that bilm-tf wrote after 300 of its own."""
    model = folder / "one_layer/checkpoint_dir"
    run = begin(folder, model, tmp_path / "run")
    trainer = Trainer(run)
    assert trainer.origin.endswith("softmax too, continuing with its optimizer's variables")
    losses = losses_of(trainer, monkeypatch)
    theirs = next_steps_of_bilm_tf(model, run)
    np.testing.assert_allclose(losses, theirs, rtol=1e-5)

    anew = begin(folder, model, tmp_path / "anew", initial_optimizer=False)
    trainer = Trainer(anew)
    assert trainer.origin.endswith("softmax too")
    losses = losses_of(trainer, monkeypatch)
    np.testing.assert_allclose(losses[0], theirs[0], rtol=1e-5)
    assert np.abs(losses - theirs).max() > 0.01  # the accumulators have an effect
