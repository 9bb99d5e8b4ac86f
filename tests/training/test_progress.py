"""Progress lines, progress bar, and TensorBoard records."""

import io
import math

import pytest

from elmo_tf.training import progress
from elmo_tf.training.progress import ProgressDisplay, Scalars, show_duration
from elmo_tf.training.step import StepResult
from tests.training.events import read_events


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test sets."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_first_line_then_one_a_minute_then_the_last(clock, capsys):
    shown = ProgressDisplay(num_steps=20, first_step=6, tokens_per_step=50, is_sampled=True)
    for step in range(7, 21):
        clock[0] += 25.0
        shown.step(step, StepResult(step, step + 1.0, 2.0))
    shown.close()
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "step 7 of 20: sampled loss 7.500",
        "step 10 of 20: sampled loss 9.000, 2 tokens/s, 4 min left",
        "step 13 of 20: sampled loss 10.500, 2 tokens/s, 3 min left",
        "step 16 of 20: sampled loss 12.000, 2 tokens/s, 2 min left",
        "step 19 of 20: sampled loss 13.500, 2 tokens/s, 25 s left",
        "step 20 of 20: sampled loss 14.000, 2 tokens/s, 0 s left",
    ]


def test_an_evaluation_counts_for_no_speed(clock, capsys):
    shown = ProgressDisplay(num_steps=5, first_step=0, tokens_per_step=50, is_sampled=False)
    for step in range(1, 6):
        if step == 4:
            clock[0] += 1000.0
            shown.resume_clock()
        clock[0] += 1.0
        shown.step(step, StepResult(1.0, 1.0, 1.0))
        assert shown.tokens_per_second == (0.0 if step == 1 else 50.0)
    assert capsys.readouterr().out.splitlines()[0] == "step 1 of 5: loss 1.000"


def test_a_long_evaluation_has_a_line_a_minute(clock, capsys):
    shown = ProgressDisplay(num_steps=5, first_step=0, tokens_per_step=50, is_sampled=False)
    for _ in range(2):
        for _ in range(10):
            clock[0] += 20.0
            shown.evaluate(600)
        shown.resume_clock()
    lines = [f"{tokens} tokens of held-out text" for tokens in ("2,400", "4,200", "6,000")]
    assert capsys.readouterr().out.splitlines() == 2 * lines


def test_a_bar_on_a_terminal(monkeypatch, capsys):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr(progress.sys, "stderr", terminal)
    shown = ProgressDisplay(num_steps=9, first_step=2, tokens_per_step=50, is_sampled=True)
    for step in range(3, 10):
        shown.step(step, StepResult(2.0, 3.0, 1.0))
    shown.evaluate(1234)
    assert terminal.getvalue().endswith("1,234 tokens of held-out text]")
    shown.resume_clock()
    shown.say("a line above")
    shown.close()
    assert "9/9" in terminal.getvalue()
    assert "sampled loss 2.500" in terminal.getvalue()
    assert capsys.readouterr().out == "a line above\n"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (99, "99 s"),
        (100, "2 min"),
        (5940, "99 min"),
        (12_000, "3 h 20 min"),
        (187_300, "2 d 4 h"),
    ],
)
def test_durations(seconds, text):
    assert show_duration(seconds) == text


def test_scalars_are_means_over_the_steps_of_a_report(tmp_path):
    scalars = Scalars(str(tmp_path), is_sampled=True, steps_per_report=3)
    for step in range(1, 8):
        scalars.step(step, StepResult(step, step + 2.0, 10.0 * step), {"learning rate": step / 8})
    scalars.write(7, {"held-out perplexity": 5.0})
    scalars.close()
    events = read_events(tmp_path)
    assert events.pop((3, "sampled perplexity")) == pytest.approx(math.exp(3.0))
    assert events.pop((6, "sampled perplexity")) == pytest.approx(math.exp(6.0))
    assert events == {
        (3, "sampled loss/forward"): 2.0,
        (3, "sampled loss/backward"): 4.0,
        (3, "gradient norm"): 20.0,
        (3, "learning rate"): 0.375,
        (6, "sampled loss/forward"): 5.0,
        (6, "sampled loss/backward"): 7.0,
        (6, "gradient norm"): 50.0,
        (6, "learning rate"): 0.75,
        (7, "held-out perplexity"): 5.0,
    }
