"""Models with word input at every entry point for models; layers compared with NumPy."""

import json
import shutil
import zipfile
from types import SimpleNamespace

import h5py
import keras
import numpy as np
import pytest
import tensorflow as tf

import elmo_tf
from elmo_tf import embed, evaluate, score, train
from elmo_tf.cli import train_flags
from elmo_tf.config.inputs import WordInputConfig
from elmo_tf.config.model import ElmoConfig, LstmConfig
from elmo_tf.errors import InputError, UsageError
from elmo_tf.export import export_elmo, export_weights
from elmo_tf.model.language_model import ElmoLanguageModel
from elmo_tf.model.loading import load_encoder, load_language_model
from elmo_tf.scoring.evaluation import WindowScorer, score_batch
from elmo_tf.text.vocabulary import Vocabulary
from elmo_tf.training.optimizers import Adagrad
from elmo_tf.training.step import TrainStep
from tests.checkpoints import newest_arrays
from tests.integration.numpy_bilm import word_layers
from tests.training import tiny

SENTENCES = [["a0", "b1", "nothing", "w22"], ["c2"], ["<UNK>", "a0", "<S>", ""]]
LENGTHS = [len(sentence) for sentence in SENTENCES]
PADDED = [sentence + [""] * (4 - len(sentence)) for sentence in SENTENCES]
SETTINGS = (
    "--batch_size=3",
    "--unroll_steps=4",
    "--num_negative_samples=5",
    "--num_epochs=10",
    "--learning_rate=0.5",
)


def command(main, *arguments):
    assert main([*map(str, arguments)]) == 0


def run_training(folder, name, *more, options="options.json"):
    command(
        train.main,
        f"--train_files={folder}/[ab].txt",
        f"--vocab_file={folder}/vocab",
        f"--model_dir={folder / name}",
        *([f"--options_file={folder / options}"] if options else []),
        *SETTINGS,
        *more,
    )
    return folder / name


def write_options(folder, share, name="options.json"):
    lstm = LstmConfig(dim=6, projection_dim=3, cell_clip=0.4, projection_clip=0.3)
    ElmoConfig(WordInputConfig(share_softmax=share), lstm).write(folder / name)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run with one table for input and softmax, and both kinds of export of it."""
    folder = tiny.write_files(tmp_path_factory.mktemp("words"))
    write_options(folder, share=True)
    heldout = f"--heldout_files={folder}/heldout.txt"
    run = run_training(folder, "run", heldout, "--steps_per_evaluation=20")
    exported, published = folder / "exported", folder / "published"
    command(export_elmo.main, f"--model={run}", f"--output_dir={exported}")
    command(export_weights.main, f"--model={run}", f"--output_dir={published}")
    return SimpleNamespace(folder=folder, run=run, exported=exported, published=published)


def assert_layers(outputs, published):
    """Compares layers with NumPy, and padding with zeros."""
    for row, sentence in enumerate(SENTENCES):
        expected = word_layers(published, sentence)
        length = len(sentence)
        names = [f"lstm_outputs{n}" for n in range(1, len(expected))]
        found = [np.tile(outputs["word_emb"][row], 2), *(outputs[name][row] for name in names)]
        np.testing.assert_allclose(np.array(found)[:, :length], expected, rtol=0, atol=1e-6)
        assert not np.array(found)[:, length:].any()


@pytest.mark.traced
def test_layers_are_those_of_numpy_from_the_published_files(made):
    encoder = elmo_tf.ElmoEncoder.from_weights(
        *(str(made.published / name) for name in ("options.json", "weights.hdf5", "vocab.txt"))
    )
    outputs = {k: v.numpy() for k, v in encoder(PADDED, sequence_len=LENGTHS).items()}
    assert_layers(outputs, made.published)
    # Text and ids give bitwise equal outputs.
    by_ids = encoder(encoder.token_ids.batch(SENTENCES), sequence_len=LENGTHS)
    for wrong in (-1, 27):
        with pytest.raises(InputError, match=rf"ids\[0, 1\] must be from 0 to 26 .*got {wrong}"):
            encoder([[3, wrong]])
    by_text = encoder([" ".join(sentence) for sentence in SENTENCES[:2]])
    for name, values in outputs.items():
        np.testing.assert_array_equal(by_ids[name], values, err_msg=name)
        np.testing.assert_allclose(by_text[name], values[:2], atol=1e-6, err_msg=name)


def test_every_form_of_the_model_gives_the_same(made, tmp_path):
    pair = [str(made.published / name) for name in ("options.json", "weights.hdf5", "vocab.txt")]
    with zipfile.ZipFile(tmp_path / "model.zip", "w") as archive:
        for path in pair:
            archive.write(path, f"model/{path.rsplit('/', 1)[1]}")
    forms = (made.run, made.run / "best", made.exported, made.published, ",".join(pair))
    for form in (*forms, tmp_path / "model.zip"):
        if form == made.run / "best":  # different weights, the same words
            assert load_encoder(form).vocabulary.words[3:] == tiny.WORDS
            continue
        outputs = load_encoder(form)(PADDED, sequence_len=LENGTHS)
        assert_layers({k: v.numpy() for k, v in outputs.items()}, made.published)


def test_the_export_needs_only_tensorflow(made):
    shutil.move(made.run, made.folder / "gone")
    try:
        loaded = tf.saved_model.load(str(made.exported))
        inputs = {"tokens": tf.constant(PADDED), "sequence_len": tf.constant(LENGTHS)}
        outputs = loaded.signatures["tokens"](**inputs)
    finally:
        shutil.move(made.folder / "gone", made.run)
    assert_layers({k: v.numpy() for k, v in outputs.items()}, made.published)
    ids = tf.constant(load_encoder(made.exported).token_ids.batch(SENTENCES))
    by_ids = loaded.signatures["word_ids"](word_ids=ids)
    for name in outputs:  # dense products of other widths, which round differently
        np.testing.assert_allclose(by_ids[name], outputs[name], atol=1e-6, err_msg=name)
        np.testing.assert_array_equal(loaded.word_ids(ids)[name], by_ids[name])
    for wrong in (-1, 27):  # there are 26 words
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"is not in \[0, 26\)"):
            loaded.signatures["word_ids"](word_ids=tf.constant([[3, wrong]]))
    texts = [" ".join(sentence) for sentence in SENTENCES[:2]]
    np.testing.assert_allclose(loaded(texts)["elmo"], outputs["elmo"][:2], atol=1e-6)
    assert sorted(loaded.signatures) == sorted(
        ["default", "elmo", "serve", "serving_default", "tokens", "word_ids"]
    )
    assert not hasattr(loaded, "char_ids")
    card = (made.exported / "assets.extra/README.md").read_text()
    assert "| `word_ids` | `word_ids`: int32 `[batch, max_tokens]` | all |" in card
    assert "| words | 26, each with a vector |" in card


def test_published_files(made, tmp_path):
    assert sorted(path.name for path in made.published.iterdir()) == [
        "options.json",
        "text.json",
        "vocab.txt",
        "weights.hdf5",
    ]
    with h5py.File(made.published / "weights.hdf5") as file:
        assert file["embedding"].shape == (26, 3)
    options = json.loads((made.published / "options.json").read_text())
    assert (options["n_tokens_vocab"], options["share_embedding_softmax"]) == (26, True)
    # Writing the pair again, from the pair or from the export, gives equal bytes.
    for number, form in enumerate((made.published, made.exported)):
        target = tmp_path / str(number)
        command(export_weights.main, f"--model={form}", f"--output_dir={target}")
        for path in made.published.iterdir():
            assert (target / path.name).read_bytes() == path.read_bytes()


def test_a_softmax_with_a_kernel_of_its_own(made):
    write_options(made.folder, share=False, name="apart.json")
    run = run_training(made.folder, "apart", "--max_steps=2", options="apart.json")
    shared, apart = (newest_arrays(path) for path in (made.run, run))
    assert apart.keys() - shared.keys() == {"softmax.kernel"}
    assert not shared.keys() - apart.keys()
    published = made.folder / "published_apart"
    command(export_weights.main, f"--model={run}", f"--output_dir={published}")
    outputs = load_encoder(published)(PADDED, sequence_len=LENGTHS)
    assert_layers({k: v.numpy() for k, v in outputs.items()}, published)


def test_evaluate_score_and_embed(made, capfd, tmp_path):
    capfd.readouterr()
    text = f"{made.folder}/heldout.txt"
    command(evaluate.main, f"--model_dir={made.run}", f"--heldout_files={text}")
    figures = json.loads(capfd.readouterr().out)
    flags = (f"--model_dir={made.run}", f"--input_file={text}", "--substitutes=2")
    command(score.main, *flags)
    scores = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    total = sum(sum(s["forward"]) + s["forward_boundary"] for s in scores)
    assert np.exp(-total / figures["num_tokens"]) == pytest.approx(
        figures["forward_perplexity"], rel=1e-5
    )
    assert len(scores[0]["substitutes"][0]) == 2

    output = tmp_path / "vectors.hdf5"
    (tmp_path / "text").write_text("\n".join(" ".join(s) for s in SENTENCES[:2]))
    command(
        embed.main,
        f"--model={made.published}",
        f"--input_file={tmp_path}/text",
        f"--output_file={output}",
    )
    with h5py.File(output) as file:
        for row, sentence in enumerate(SENTENCES[:2]):
            expected = word_layers(made.published, sentence)
            np.testing.assert_allclose(file[str(row)][()], expected, rtol=0, atol=1e-6)


@pytest.mark.traced
def test_loss_falls_and_resumed_equals_unbroken_bit_for_bit(made):
    best = json.loads((made.run / "heldout.json").read_text())["best"]
    assert best["perplexity"] < 21  # an untrained model has 26
    run_training(made.folder, "resumed", "--max_steps=33")
    run_training(made.folder, "resumed", "--max_steps=1000")
    one, two = (newest_arrays(path) for path in (made.folder / "resumed", made.run))
    assert one.keys() == two.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], two[name], err_msg=name)


def test_exact_losses_by_hand(made):
    """From the encoder's top layer and the softmax in the file: one sentence, both directions."""
    trained = load_language_model(made.run)
    model, words = trained.model, trained.vocabulary
    assert model.softmax.kernel.shape == (26, 3)
    assert model.softmax.kernel is model.encoder.word_embedding.embedding
    tokens = [b"a0", b"b1", b"new"]
    (losses,) = score_batch(WindowScorer(model), [tokens], words)
    table = model.encoder.word_embedding.embedding.numpy()
    kernel, bias = model.softmax.kernel.numpy(), model.softmax.bias.numpy()
    line = [words.begin_id, *words.ids(tokens), words.end_id]
    for way, direction in enumerate(("forward", "backward")):
        ids = line[:: 1 - 2 * way]
        inputs = tf.constant(table[ids[:-1]][np.newaxis])
        layers, _ = model.encoder.bilm.run_direction(direction, inputs)
        logits = layers[-1].numpy()[0] @ kernel.T + bias
        expected = np.log(np.exp(logits).sum(axis=1)) - logits[range(4), ids[1:]]
        np.testing.assert_allclose(losses[way], expected, rtol=1e-5)


def test_no_array_of_a_step_grows_with_the_vocabulary():
    size = 7919
    words = Vocabulary([b"<S>", b"</S>", b"<UNK>", *(b"w%d" % k for k in range(size - 3))])
    lstm = LstmConfig(dim=6, projection_dim=3)
    for share in (False, True):
        config = ElmoConfig(WordInputConfig(share_softmax=share), lstm)
        model = ElmoLanguageModel(config, size, vocabulary=words)
        step = TrainStep(model, Adagrad(), 2, 5, num_negatives=11, clip_norm=1.0)
        graph = step.function.get_concrete_function().graph
        shapes = [
            output.shape
            for operation in graph.get_operations()
            for output in operation.outputs
            if output.dtype != tf.resource
        ]
        assert len(shapes) > 100
        assert not [shape for shape in shapes if shape.rank and size in shape.as_list()]


def test_flags():
    def config_of(*flags):
        options = train_flags.define()
        options(["train", "--train_files=a", "--vocab_file=b", "--model_dir=c", *flags])
        return train_flags.model_config(options)

    tiny_size = ElmoConfig.from_size("tiny")
    for flags, share in (((), False), (("--share_embedding_softmax",), True)):
        config = config_of("--size=tiny", "--word_input", *flags)
        assert config == ElmoConfig(WordInputConfig(share_softmax=share), tiny_size.lstm)
    assert config_of("--word_input").lstm == ElmoConfig.from_size("original").lstm
    with pytest.raises(UsageError, match="--share_embedding_softmax: needs --word_input"):
        config_of("--size=tiny", "--share_embedding_softmax")
    with pytest.raises(UsageError, match="--word_input: use it with --size; an --options_file"):
        config_of("--word_input", "--options_file=x")


def test_other_vocabularies_are_refused(made, capfd, tmp_path):
    """As initial weights, and with weights of a different size."""
    other = tmp_path / "vocab"
    other.write_bytes((made.folder / "vocab").read_bytes().replace(b"a0", b"zz"))
    flags = [
        f"--train_files={made.folder}/[ab].txt",
        f"--model_dir={tmp_path}/run",
        f"--initial_weights={made.published}",
        "--max_steps=1",
        *SETTINGS,
    ]
    assert train.main([*flags, f"--vocab_file={other}"]) == 1
    assert "reads words by its own vocabulary of 26, which --vocab_file" in capfd.readouterr().err
    assert not (tmp_path / "run").exists()
    assert train.main([*flags, f"--vocab_file={made.folder}/vocab"]) == 0

    pair = f"{made.published}/options.json,{made.published}/weights.hdf5"
    with pytest.raises(InputError, match="VOCABULARY.txt"):
        load_encoder(pair)
    other.write_bytes(b"<S>\n</S>\n<UNK>\na\n")
    with pytest.raises(InputError, match="n_tokens_vocab is 26, but the vocabulary has 4 words"):
        load_encoder(f"{pair},{other}")


# Keras 3.15 saves variables through an `__array__` that NumPy 2 wants to have a `copy` argument.
@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
def test_keras_layer(made, tmp_path):
    """With ids and tokens, and saved with a model."""
    layer = elmo_tf.ElmoEmbedding.from_model(made.published, num_mixes=1)
    tokens = keras.Input([None], dtype="string")
    model = keras.Model(tokens, layer(tokens))
    padded = tf.constant([["a0", "b1", "nothing"], ["c2", "", ""]])
    expected = model(padded)
    ids = layer.encoder.token_ids.batch([["a0", "b1", "nothing"], ["c2"]])
    np.testing.assert_array_equal(layer(ids), expected)
    with pytest.raises(InputError, match=r"ElmoEmbedding: ids\[1, 0\] must be .* got -1"):
        layer(np.array([[4, 5], [-1, 0]]))
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again(padded), expected)
    tf.saved_model.save(model, str(tmp_path / "saved"))  # includes the lookup table
    with pytest.raises(ValueError, match=r"integers \[batch, time\] \(ids of words\)"):
        layer(np.zeros([1, 2, 50], np.int32))
