"""The entry point: ``sklearn-mdl COMMAND``."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence
from contextlib import suppress

import sklearn_mdl
from sklearn_mdl.cli import (
    _decode,
    _demo,
    _encode,
    _race,
    _rank,
    _remix,
    _score,
    _shift,
)

COMMANDS = (_demo, _rank, _race, _score, _remix, _encode, _decode, _shift)
EXAMPLES = """examples:
  sklearn-mdl demo --out demo-results
      rank five encoders on datasets of scikit-learn
  sklearn-mdl rank FEATURES_DIR --out ranking
      FEATURES_DIR contains DATASET/ENCODER.npy and DATASET/labels.npy (.npz and
      .safetensors too), or is one such DATASET
  sklearn-mdl race FEATURES_DIR/DATASET --labels labels.txt --classes 10 --within 0.1
      compare encoders while you label, and stop when the best one is clear
  sklearn-mdl score features.npy labels.npy
      codelength of one set of labels given one set of features
  sklearn-mdl remix losses.npy --prior bayes --prior fixed-share:m=11
      codelengths under other priors, from losses saved by score
  sklearn-mdl encode features.npy labels.npy --out labels.mdl
  sklearn-mdl decode features.npy labels.mdl --out decoded.npy
      compress labels to about their codelength, and restore them
  sklearn-mdl shift train.npy train-labels.npy test.npy test-labels.npy
      test whether the train and test parts have the same distribution
"""

RESUMED = {
    "rank": "; run it again to score the missing cells",
    "race": "; run it again to continue",
}

# Errors that are reported in one line. A RuntimeError is only reported if memory runs
# out or recursion is too deep.
KINDS = ValueError, TypeError, OSError, ImportError, EOFError, MemoryError, RuntimeError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, and return its exit status.

    The status is 0, 2 after a reported error, 130 if you interrupt the command, and 141
    if another program stops reading its output, as in ``sklearn-mdl ... | head``.
    """
    sys.stderr = sys.stderr or io.StringIO()  # None if it is closed
    options = make_parser().parse_args(arguments)
    if hasattr(sys.stdout, "reconfigure"):  # print every name, as standard error does
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        options.run(options)
        print(end="", flush=True)  # sys.stdout may be None
    except BrokenPipeError:
        with suppress(BrokenPipeError):
            sys.stdout.close()  # otherwise Python flushes it again when it exits
        return 141
    except KINDS as error:
        if isinstance(error, RuntimeError) and not _lacks_memory(error):
            raise
        print(f"sklearn-mdl {options.command}: {_sentence(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        more = RESUMED.get(options.command, "")
        print(f"\nsklearn-mdl {options.command}: interrupted{more}", file=sys.stderr)
        return 130
    return 0


def _lacks_memory(error: Exception) -> bool:
    """Return True if memory ran out or recursion was too deep."""
    no_memory = isinstance(error, RuntimeError) and "memory" in str(error)
    return no_memory or isinstance(error, MemoryError | RecursionError)


def _sentence(error: Exception) -> str:
    """Return the message of an error as one line without control characters."""
    line = " ".join(str(error).split())
    text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)
    if isinstance(error, RecursionError):
        return "The input is nested too deeply; save an array with np.save(path, X)"
    if _lacks_memory(error) and "; " not in text:  # after "; ", messages name a fix
        more = f" ({text})" if text else ""
        need = f"More memory is needed than is available{more}"
        return f"{need}; use fewer rows, for example np.save(path, X[:1000])"
    return text


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="sklearn-mdl",
        description="Measure representations by codelengths of labels.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    version = f"sklearn_mdl {sklearn_mdl.__version__}"
    parser.add_argument("--version", action="version", version=version)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in COMMANDS:
        subparser = commands.add_parser(
            command.EXAMPLE.split()[1],
            help=command.HELP,
            description=command.HELP,
            epilog=f"example:\n  {command.EXAMPLE}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        subparser.set_defaults(run=command.run)
        command.add_options(subparser)
    return parser
