"""Training and held-out loss against one run of bilm-tf's own graph, recorded step by step."""

import numpy as np
import pytest

from elmo_tf.config.inputs import CharCnnConfig
from elmo_tf.config.model import ElmoConfig
from elmo_tf.config.training import TrainingConfig
from elmo_tf.formats import bilm_tf
from elmo_tf.model.inputs.characters import CharacterInput
from elmo_tf.model.language_model import ElmoLanguageModel
from elmo_tf.model.variables import model_variables
from elmo_tf.scoring.evaluation import WindowScorer, evaluate_streams
from elmo_tf.text.corpus import WindowStream
from elmo_tf.text.sentences import SentenceReader
from elmo_tf.text.tokens import make_tokenizer
from elmo_tf.text.vocabulary import Vocabulary
from elmo_tf.training.checkpoints import trained_variables
from elmo_tf.training.input_pipeline import TrainingData
from elmo_tf.training.optimizers import make_optimizer, named_slots
from elmo_tf.training.step import TrainStep
from tests.hdf5_arrays import read_arrays

pytestmark = pytest.mark.traced  # many small batches through one model

NUM_STEPS = 26
SETTINGS = TrainingConfig(
    batch_size=3,
    unroll_steps=6,
    learning_rate=0.2,
    initial_accumulator=1.0,
    clip_norm=1.5,
    dropout=0.0,
    num_negative_samples=0,
)
# Measured: losses 7e-7, weights 3e-6, accumulators 7e-6, norms 2e-5. The norms differ because
# bilm-tf sums the squares of the character embedding's gradient before it adds the rows of equal
# characters, which makes its first norm smaller than the gradient's by 1e-5.
TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def folder(fixtures_dir):
    return fixtures_dir / "training"


@pytest.fixture(scope="module")
def trajectory(folder):
    return read_arrays(folder / "trajectory.hdf5")


def group(trajectory, name):
    """Arrays of one group by bilm-tf's names; the file has names of TensorFlow 1's graph."""
    start = f"{name}/"
    return {
        bilm_tf.current_name(key.removeprefix(start)): array
        for key, array in trajectory.items()
        if key.startswith(start)
    }


@pytest.fixture(scope="module")
def vocabulary(folder):
    return Vocabulary.from_file(folder / "vocab.txt")


def make_model(folder, vocabulary, weights):
    config = ElmoConfig.from_file(folder / "training_options.json")
    model = ElmoLanguageModel(config, len(vocabulary), dropout=SETTINGS.dropout)
    variables = model_variables(model.encoder, model.softmax)
    for name, array in bilm_tf.from_bilm_tf(config, weights).items():
        variables[name].assign(array)
    return model


def make_stream(path, vocabulary, batch_size, unroll_steps, **options):
    reader = SentenceReader([str(path)], make_tokenizer(), passes=1)
    return WindowStream(reader, vocabulary, batch_size, unroll_steps, **options)


@pytest.fixture(scope="module")
def run(folder, trajectory, vocabulary):
    """The 26 steps: (results of each, the model after them, Adagrad's sums by our names)."""
    model = make_model(folder, vocabulary, group(trajectory, "initial"))
    optimizer = make_optimizer(SETTINGS)
    step = TrainStep(model, optimizer, 3, 6, num_negatives=0, clip_norm=SETTINGS.clip_norm)
    stream = make_stream(folder / "train.txt", vocabulary, 3, 6)
    state, figures = model.zero_state(3), []
    for batch in TrainingData(stream, SETTINGS, len(vocabulary), CharacterInput(CharCnnConfig())):
        result, state = step(batch, state)
        figures.append(result)
    return figures, model, named_slots(optimizer, trained_variables(model))


def test_every_loss(run, trajectory):
    figures, _, _ = run
    assert len(figures) == NUM_STEPS
    np.testing.assert_allclose([each.loss for each in figures], trajectory["loss"], rtol=2e-6)
    directions = [(each.forward_loss, each.backward_loss) for each in figures]
    np.testing.assert_allclose(directions, trajectory["loss_forward_backward"], rtol=2e-6)


def test_every_gradient_norm(run, trajectory):
    figures, _, _ = run
    norms = [each.gradient_norm for each in figures]
    expected = trajectory["gradient_global_norm_before_clip"]
    np.testing.assert_allclose(norms, expected, rtol=TOLERANCE)
    assert min(norms) > SETTINGS.clip_norm  # so gradients are clipped


def relative_difference(ours, theirs):
    return np.linalg.norm(ours - theirs) / np.linalg.norm(theirs)


def test_final_weights(run, trajectory):
    _, model, _ = run
    ours = bilm_tf.collect_arrays(model.encoder, model.softmax)
    final, initial = group(trajectory, "final"), group(trajectory, "initial")
    assert ours.keys() == final.keys()
    for name, theirs in final.items():
        assert relative_difference(ours[name], theirs) < 1e-5, name
        # Also compare the changes of the weights, which are much smaller than the weights.
        added, added_theirs = ours[name] - initial[name], theirs - initial[name]
        assert relative_difference(added, added_theirs) < TOLERANCE, name


def test_final_accumulators(run, trajectory, folder, vocabulary):
    _, _, slots = run
    config = ElmoConfig.from_file(folder / "training_options.json")
    ours = bilm_tf.to_bilm_tf(
        config, lambda path: slots[f"{path}.accumulator"].numpy(), len(vocabulary)
    )
    theirs = group(trajectory, "final_accumulator")
    assert ours.keys() == theirs.keys()
    for name, array in theirs.items():
        np.testing.assert_allclose(ours[name], array, rtol=2e-5, err_msg=name)


@pytest.fixture(scope="module")
def scorer(folder, trajectory, vocabulary):
    return WindowScorer(make_model(folder, vocabulary, group(trajectory, "final")))


def losses_by_window(scorer, stream):
    """(loss sums of both directions, tokens) of each window, with carried-over state."""
    state, windows = None, []
    for window in iter(stream.next_window, None):
        state = state or scorer.initial_state(len(window.lengths))
        losses, state = scorer(window, state)
        windows.append((losses.sum(axis=(1, 2), dtype=np.float64), int(window.lengths.sum())))
    return windows


@pytest.mark.parametrize(("batch_size", "num_dropped"), [(1, 0), (2, 5)])
def test_heldout_with_carried_state(
    folder, trajectory, vocabulary, scorer, batch_size, num_dropped
):
    """Our perplexity equals bilm-tf's over its windows and the tokens that it drops.

    bilm-tf tests with windows of one step and stops at the first incomplete one. With one stream
    that is the end of the text, so nothing is dropped and both results are equal. With two streams
    it is the end of the shorter one, and five tokens of the other are dropped.
    """
    num_windows = trajectory[f"heldout/batch_{batch_size}/n_windows"]
    theirs = trajectory[f"heldout/batch_{batch_size}/forward_backward_mean_loss"]
    path, options = folder / "heldout.txt", {"keep_incomplete": True}

    windows = losses_by_window(scorer, make_stream(path, vocabulary, batch_size, 1, **options))
    full = [window for window in windows if window[1] == batch_size]
    assert len(full) == num_windows
    assert full == windows[: len(full)]
    tail = windows[len(full) :]
    assert sum(count for _, count in tail) == num_dropped

    num_full = sum(count for _, count in full)
    np.testing.assert_allclose(sum(s for s, _ in full) / num_full, theirs, rtol=1e-6)

    ours = evaluate_streams(scorer, make_stream(path, vocabulary, batch_size, 1, **options))
    num_words = sum(len(line.split()) + 1 for line in path.read_text().splitlines())
    assert ours.num_tokens == num_words == num_full + num_dropped
    expected = theirs * num_full + sum((s for s, _ in tail), np.zeros(2))
    np.testing.assert_allclose(
        [ours.forward_loss, ours.backward_loss], expected / ours.num_tokens, rtol=1e-6
    )


def test_heldout_perplexity_of_one_stream(folder, trajectory, vocabulary, scorer):
    """With one stream, the length of windows does not matter."""
    for unroll_steps in (1, 6, 100):
        stream = make_stream(
            folder / "heldout.txt", vocabulary, 1, unroll_steps, keep_incomplete=True
        )
        perplexity = evaluate_streams(scorer, stream).perplexity
        np.testing.assert_allclose(perplexity, trajectory["heldout/batch_1/perplexity"], rtol=1e-6)
