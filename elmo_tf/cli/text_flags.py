"""The flags `--tokenizer` and `--normalize` of every command that reads text."""

from absl import flags

from elmo_tf.cli import command_line
from elmo_tf.text import tokens


def define(flag_values: flags.FlagValues, otherwise: str | None = None) -> None:
    """Defines `--tokenizer` and `--normalize`.

    Args:
      flag_values: the command's flags.
      otherwise: text for `--help` that names the source of the default values; the flags' defaults
        are then None. Without it the defaults are "whitespace" and "none".
    """
    source = f" Default: {otherwise}." if otherwise else ""
    flags.DEFINE_enum(
        "tokenizer",
        None if otherwise else "whitespace",
        tokens.TOKENIZERS,
        "Method that splits a line into tokens. whitespace: at ASCII white space, like an exported "
        "model. The others are those of tensorflow_text. unicode_whitespace: at any Unicode white "
        "space; unicode_script: also where the script changes, as between letters and punctuation; "
        "unicode_punctuation: also around each punctuation mark, symbol and Han character."
        + source,
        flag_values,
    )
    flags.DEFINE_enum(
        "normalize",
        None if otherwise else "none",
        tokens.NORMALIZATIONS,
        "Unicode normalization, applied before the text is split. nfc: composes letters and "
        "accents, without visible change; nfkc: also replaces ligatures, full-width letters and "
        "no-break spaces with plain characters." + source,
        flag_values,
    )


def settings(
    options: flags.FlagValues, tokenizer: str | None, normalize: str | None
) -> tuple[str, str]:
    """The tokenizer and normalization to use: the flags' values, or the model's as defaults.

    A flag that differs from the model's value causes a warning. Text that is split differently from
    the training text gives worse vectors, and no other symptom.

    Args:
      options: flags that include those of `define`.
      tokenizer, normalize: the model's values; None if unknown.
    """
    chosen = []
    own = (("tokenizer", tokenizer, "whitespace"), ("normalize", normalize, "none"))
    for name, of_model, default in own:
        value = options[name].value
        if value is not None and of_model is not None and value != of_model:
            command_line.warn(f"--{name}={value}: the model was trained with {of_model}")
        chosen.append(value or of_model or default)
    return chosen[0], chosen[1]
