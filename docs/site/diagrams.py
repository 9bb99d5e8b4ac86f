"""Draws the diagrams of docs/how-it-works.md: `python docs/site/diagrams.py` writes docs/images/.

The diagrams are SVG files of shapes and text, without scripts, fonts or other files.
"""

import html
import itertools
from pathlib import Path

IMAGES = Path(__file__).parents[1] / "images"
TEXT, QUIET, LINE = "#1f2430", "#5c6470", "#8a93a3"
BLUE, ORANGE, GREEN, GREY = "#dbe7fb", "#fde6cf", "#dcf1de", "#eef0f3"
FONT = "font-family='Helvetica, Arial, sans-serif'"


class Drawing:
    """Collects shapes. All sizes are in pixels; `x` and `y` are centres."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self.width, self.height, self.title = width, height, title
        self.parts: list[str] = []

    def box(self, x: float, y: float, width: float, height: float, fill: str, *lines: str) -> None:
        """A rounded box with lines of text, of which the first is bold."""
        left, top = x - width / 2, y - height / 2
        self.parts.append(
            f"<rect x='{left:g}' y='{top:g}' width='{width:g}' height='{height:g}' rx='6' "
            f"fill='{fill}' stroke='{LINE}'/>"
        )
        for number, line in enumerate(lines):
            offset = 18 * (number - (len(lines) - 1) / 2)
            self.words(x, y + offset, line, bold=number == 0, quiet=number > 0)

    def words(
        self,
        x: float,
        y: float,
        line: str,
        bold: bool = False,
        quiet: bool = False,
        anchor: str = "middle",
    ) -> None:
        """One line of text."""
        style = " font-weight='bold'" if bold else ""
        colour, size = (QUIET, 13) if quiet else (TEXT, 14)
        self.parts.append(
            f"<text x='{x:g}' y='{y + 5:g}' text-anchor='{anchor}' font-size='{size}' "
            f"fill='{colour}'{style}>{html.escape(line)}</text>"
        )

    def arrow(self, *points: tuple[float, float], dashed: bool = False) -> None:
        """A line through the points, with an arrowhead at the last."""
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        dash = " stroke-dasharray='4 3'" if dashed else ""
        self.parts.append(
            f"<polyline points='{path}' fill='none' stroke='{LINE}' stroke-width='1.6'{dash} "
            "marker-end='url(#head)'/>"
        )

    def svg(self) -> str:
        """The content of the SVG file."""
        head = (
            "<marker id='head' viewBox='0 0 8 8' refX='7' refY='4' markerWidth='7' "
            "markerHeight='7' orient='auto'>"
            f"<path d='M0,0 L8,4 L0,8 z' fill='{LINE}'/></marker>"
        )
        return "\n".join(
            [
                f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {self.width} {self.height}' "
                f"width='{self.width}' height='{self.height}' role='img' {FONT}>",
                f"<title>{html.escape(self.title)}</title>",
                f"<defs>{head}</defs>",
                f"<rect width='{self.width}' height='{self.height}' fill='#fff'/>",
                *self.parts,
                "</svg>\n",
            ]
        )


def overview() -> Drawing:
    """From text to vectors, with a box for each step."""
    drawing = Drawing(760, 560, "From a sentence to its ELMo vectors")
    middle = 300
    steps = [
        (GREY, "text", '"The cat sat"'),
        (GREY, "tokens with boundaries", "<S>   The   cat   sat   </S>"),
        (GREY, "character ids", "[1, 5, 50]"),
        (BLUE, "character CNN", "one vector per token, without context: [1, 5, P]"),
        (ORANGE, "LSTM layer 1", "forward and backward: [1, 5, 2P]"),
        (ORANGE, "LSTM layer 2", "forward and backward: [1, 5, 2P]"),
        (GREEN, "scalar mix", "weighted mean of the three layers: [1, 3, 2P]"),
    ]
    tops = [50 + 76 * index for index in range(len(steps))]
    for y, (fill, *lines) in zip(tops, steps, strict=True):
        drawing.box(middle, y, 380, 52, fill, *lines)
    for above, below in itertools.pairwise(tops):
        drawing.arrow((middle, above + 26), (middle, below - 27))
    # The mix reads every layer.
    right = middle + 190
    for y, lane, end in ((tops[3], right + 30, -9), (tops[4], right + 52, 9)):
        end += tops[6]
        drawing.arrow((right, y), (lane, y), (lane, end), (right + 1, end))
    drawing.words(right + 66, tops[3], "word_emb, twice side by side", quiet=True, anchor="start")
    drawing.words(right + 66, tops[4], "lstm_outputs1", quiet=True, anchor="start")
    drawing.words(right + 66, tops[5], "lstm_outputs2", quiet=True, anchor="start")
    drawing.words(right + 66, tops[6], "elmo", quiet=True, anchor="start")
    return drawing


def char_cnn() -> Drawing:
    """One token through the character CNN."""
    drawing = Drawing(760, 430, "One token through the character CNN")
    cells = ["begin", "c", "a", "t", "end", "fill", "...", "fill"]
    for index, cell in enumerate(cells):
        drawing.box(90 + 76 * index, 40, 70, 34, GREY if index > 4 else BLUE, cell)
    drawing.words(720, 40, "50 ids", quiet=True)
    for index in range(len(cells)):
        drawing.arrow((90 + 76 * index, 57), (90 + 76 * index, 84))
        drawing.box(90 + 76 * index, 100, 70, 30, GREY if index > 4 else BLUE, "16")
    drawing.words(720, 100, "[50, 16]", quiet=True)
    for x, width, filters in ((130, 1, 16), (380, 3, 32), (630, 5, 128)):
        drawing.arrow((x, 116), (x, 158))
        name = f"{filters} filters of width {width}"
        drawing.box(x, 184, 180, 50, BLUE, name, "maximum over positions")
        drawing.arrow((x, 210), (x, 250))
    drawing.words(255, 184, "...", bold=True)
    drawing.words(505, 184, "...", bold=True)
    drawing.box(380, 268, 680, 34, BLUE, "joined: 16 + 16 + 32 + 64 + 128 = 256 numbers")
    drawing.arrow((380, 286), (380, 308))
    drawing.box(380, 328, 320, 38, BLUE, "highway layer: 256 numbers")
    drawing.arrow((380, 348), (380, 372))
    drawing.box(380, 392, 320, 38, GREEN, "projection: P = 64 numbers")
    return drawing


def bilm() -> Drawing:
    """Both directions of both layers over one sentence."""
    drawing = Drawing(780, 330, "The two directions of the language model")
    following, preceding = ("The", "cat", "sat", "</S>", ""), ("", "<S>", "The", "cat", "sat")
    _direction(drawing, 30, "forward: predicts the next token", ORANGE, following)
    _direction(drawing, 420, "backward: predicts the previous token", GREEN, preceding)
    return drawing


def _direction(
    drawing: Drawing, left: float, title: str, fill: str, predicted: tuple[str, ...]
) -> None:
    columns = [left + 30 + 68 * index for index in range(5)]
    drawing.words(columns[2], 18, title, bold=True)
    tokens = ("<S>", "The", "cat", "sat", "</S>")
    for x, token, answer in zip(columns, tokens, predicted, strict=True):
        drawing.words(x, 54, answer, quiet=True)
        if answer:
            drawing.arrow((x, 93), (x, 70))
        drawing.box(x, 110, 54, 32, fill, "LSTM")
        drawing.arrow((x, 163), (x, 127))
        drawing.box(x, 180, 54, 32, fill, "LSTM")
        drawing.arrow((x, 233), (x, 197))
        drawing.box(x, 250, 54, 32, BLUE, "P")
        drawing.words(x, 300, token, bold=True)
    for first, second in itertools.pairwise(columns):
        ends = (first + 27, second - 28) if fill == ORANGE else (second - 27, first + 28)
        for y in (110, 180):
            drawing.arrow((ends[0], y), (ends[1], y))


def scalar_mix() -> Drawing:
    """Three layers, three weights, one sum."""
    drawing = Drawing(800, 250, "The scalar mix")
    rows = [
        (50, BLUE, "word_emb, word_emb", "s0"),
        (120, ORANGE, "lstm_outputs1", "s1"),
        (190, ORANGE, "lstm_outputs2", "s2"),
    ]
    for y, fill, name, weight in rows:
        drawing.box(140, y, 220, 44, fill, name, "[batch, tokens, 2P]")
        drawing.arrow((251, y), (296, y))
        drawing.box(330, y, 66, 34, GREY, f"x {weight}")
        drawing.arrow((364, y), (430, 120 + (y - 120) * 0.25))
    drawing.box(460, 120, 56, 44, GREY, "+")
    drawing.arrow((489, 120), (516, 120))
    drawing.box(562, 120, 90, 34, GREY, "x gamma")
    drawing.arrow((608, 120), (636, 120))
    drawing.box(713, 120, 150, 44, GREEN, "elmo", "[batch, tokens, 2P]")
    drawing.words(330, 228, "s = softmax of three trained numbers", quiet=True)
    return drawing


DIAGRAMS = {
    "overview.svg": overview,
    "char-cnn.svg": char_cnn,
    "bilm.svg": bilm,
    "scalar-mix.svg": scalar_mix,
}


def main() -> None:
    """Writes all files."""
    IMAGES.mkdir(exist_ok=True)
    for name, draw in DIAGRAMS.items():
        (IMAGES / name).write_text(draw().svg(), encoding="utf-8")


if __name__ == "__main__":
    main()
