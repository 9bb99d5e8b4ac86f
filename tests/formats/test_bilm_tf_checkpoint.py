"""Checkpoints of bilm-tf's training, compared with bilm-tf's own results from them."""

import json
import shutil

import numpy as np
import pytest

from elmo_tf.errors import InputError
from elmo_tf.formats import bilm_tf, locate
from elmo_tf.model.encoder import ElmoEncoder
from elmo_tf.model.loading import load_language_model
from elmo_tf.scoring.evaluation import WindowScorer, evaluate_streams
from elmo_tf.text.corpus import WindowStream
from elmo_tf.text.sentences import SentenceReader
from elmo_tf.text.tokens import make_tokenizer
from tests.hdf5_arrays import read_arrays
from tests.integration import peers

NAMES = ["two_layers", "one_layer", "word_shared_softmax"]
TOLERANCE = 1e-6


@pytest.fixture(scope="module")
def folder(fixtures_dir):
    return fixtures_dir / "tf1_checkpoint"


@pytest.fixture(scope="module", params=NAMES)
def name(request):
    return request.param


def opened(path):
    return locate.find_model(path).open()


def test_arrays_are_those_that_bilm_tf_dumps(folder, name):
    dumped = {
        bilm_tf.current_name(key): array
        for key, array in read_arrays(folder / name / "dumped_weights.hdf5").items()
    }
    variables = np.load(folder / name / "variables.npz")
    with opened(folder / name / "checkpoint_dir") as model:
        expected = bilm_tf.from_bilm_tf(model.config, dumped)
        assert set(model.names(softmax=False)) == set(expected)
        for path, array in expected.items():
            np.testing.assert_array_equal(model.arrays[path].read(), array)
        np.testing.assert_array_equal(model.arrays["softmax.bias"], variables["lm/softmax/b"])
        sums = model.optimizer["softmax.bias.accumulator"]
        np.testing.assert_array_equal(sums, variables["lm/softmax/b/Adagrad"])
        assert len(model.optimizer) == len(model.arrays)


def test_vectors(folder, name):
    expected = np.load(folder / name / "expected.npz")
    outputs_of = peers.through_python(folder / name / "checkpoint_dir")
    difference = peers.largest_difference(outputs_of, folder / "sentences.json", expected)
    assert difference < peers.TOLERANCE


@pytest.mark.traced
@pytest.mark.parametrize("batch_size", [1, 2])
def test_heldout_perplexity(folder, name, batch_size):
    """At batch size 2 bilm-tf drops a stream's last window, so we compare over its windows."""
    expected = np.load(folder / name / "expected.npz")
    model = load_language_model(folder / name / "checkpoint_dir")
    scorer = WindowScorer(model.model)
    reader = SentenceReader([str(folder / "heldout.txt")], make_tokenizer(), passes=1)
    stream = WindowStream(reader, model.vocabulary, batch_size, 1, keep_incomplete=True)
    if batch_size == 1:
        result = evaluate_streams(scorer, stream)
        np.testing.assert_allclose(
            result.perplexity, expected["heldout/batch_1/perplexity"], rtol=TOLERANCE
        )
        carried = [expected[f"heldout/carried/{d}_losses"].mean() for d in ("forward", "backward")]
        np.testing.assert_allclose(
            [result.forward_loss, result.backward_loss], carried, rtol=TOLERANCE
        )
        return
    state, losses = None, []
    for window in iter(stream.next_window, None):
        state = state or scorer.initial_state(len(window.lengths))
        values, state = scorer(window, state)
        if window.lengths.sum() == batch_size:
            losses.append(values.sum(axis=(1, 2)).mean() / batch_size)
    perplexity = np.exp(np.mean(losses))
    np.testing.assert_allclose(perplexity, expected["heldout/batch_2/perplexity"], rtol=TOLERANCE)


@pytest.fixture
def copy(folder, tmp_path):
    return shutil.copytree(folder / "two_layers/checkpoint_dir", tmp_path / "copy")


def test_one_of_several_checkpoints(copy):
    """The file `checkpoint` names one of two, or the user does."""
    for ending in ("index", "data-00000-of-00001"):
        shutil.copy(copy / f"model.ckpt-360.{ending}", copy / f"model.ckpt-90.{ending}")
    with opened(copy) as model:
        assert model.source == str(copy / "model.ckpt-360")
    with opened(copy / "model.ckpt-90") as model:
        assert model.source == str(copy / "model.ckpt-90")
    (copy / "checkpoint").write_text('model_checkpoint_path: "/other/machine/model.ckpt-90"\n')
    with opened(copy) as model:
        assert model.source == str(copy / "model.ckpt-90")
    (copy / "checkpoint").unlink()
    with opened(copy) as model:
        assert model.source == str(copy / "model.ckpt-360")


def error_of(path):
    with pytest.raises(InputError) as caught, opened(path) as model:
        model.read(model.names(), lambda name, array: None)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_without_a_vocabulary(copy, folder, tmp_path):
    (copy / "vocab.txt").unlink()
    ElmoEncoder.from_model(copy)
    with pytest.raises(InputError, match="does not say which words its softmax predicts"):
        load_language_model(copy)
    words = shutil.copytree(folder / "word_shared_softmax/checkpoint_dir", tmp_path / "words")
    (words / "vocab.txt").unlink()
    assert "no char_cnn, so the model needs a vocabulary" in error_of(words)


def test_options_that_do_not_fit(copy):
    options = json.loads((copy / "options.json").read_text())
    options["lstm"]["n_layers"] = 1
    (copy / "options.json").write_text(json.dumps(options))
    assert f"{copy}/model.ckpt-360: does not fit its options: unexpected: " in error_of(copy)


@pytest.mark.parametrize("file", ["index", "data-00000-of-00001"])
@pytest.mark.parametrize("tenth", range(10))
def test_cut_off_at_every_tenth(copy, file, tenth):
    path = copy / f"model.ckpt-360.{file}"
    content = path.read_bytes()
    path.write_bytes(content[: len(content) * tenth // 10])
    assert f"{copy}/model.ckpt-360: damaged or truncated checkpoint: " in error_of(copy)
