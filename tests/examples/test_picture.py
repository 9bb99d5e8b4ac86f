"""The picture: a PNG with a colour for each cue, marks and labels."""

import matplotlib.image
import numpy as np
from matplotlib import colors, pyplot

from examples import picture

POINTS = np.array([[0.0, 0], [1, 2], [3, 1], [2, 4], [5, 3]])
CUES = ["the close", "close to", None, "close to", "close to"]


def draw(path, monkeypatch=None, cues=CUES):
    marks = [picture.Mark(1, "near", "near: [close] to it"), picture.Mark(4, "far", "far: it")]
    picture.draw(path, POINTS, cues, marks, "a title", ["one", "two"])


def test_writes_a_png_in_which_each_colour_is_seen(tmp_path):
    draw(tmp_path / "picture")
    assert (tmp_path / "picture").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    image = matplotlib.image.imread(tmp_path / "picture", format="png")[..., :3]
    assert image.shape == (960, 1320, 3)
    for colour in (*picture.COLOURS[:2], picture.OTHER_COLOUR):
        shown = 0.8 * np.array(colors.to_rgb(colour)) + 0.2  # dots let some white through
        assert np.isclose(image, shown, atol=0.02).all(axis=-1).sum() > 50, colour
    assert not np.isclose(image, colors.to_rgb(picture.COLOURS[2]), atol=0.02).all(axis=-1).any()


def test_words_of_the_picture(tmp_path, monkeypatch):
    figures = []
    monkeypatch.setattr(pyplot, "close", figures.append)
    draw(tmp_path / "picture.png")
    monkeypatch.undo()
    axes = figures[0].axes[0]
    legend = [text.get_text() for text in axes.get_legend().get_texts()]
    # The frequent cue comes first and gets the first colour.
    assert legend == ["close to (3)", "the close (1)", "anything else (1)"]
    assert [text.get_text() for text in axes.texts] == ["near", "far"]
    assert figures[0].get_supxlabel() == "near: [close] to it\nfar: it"
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("one", "two")
    pyplot.close(figures[0])


def test_no_figure_is_left_open(tmp_path):
    draw(tmp_path / "picture.png", cues=["close to"] * 5)
    assert pyplot.get_fignums() == []
