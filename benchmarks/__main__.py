"""``python -m benchmarks NAME [TABLE] [options]``: run a benchmark."""

from __future__ import annotations

import argparse
import ast
import copy
import importlib
import itertools
import multiprocessing
import pkgutil
import re
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed

from benchmarks._memory import peak_memory

PREFIXES = ("time_", "track_", "peakmem_")


def main(arguments=None):
    """Run the command line."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    names = benchmark_names()
    if not arguments or arguments[0] not in names:
        parser = argparse.ArgumentParser(
            prog="python -m benchmarks",
            description="Benchmarks:\n\n" + "\n".join(map(describe, names)),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        parser.add_argument("name", choices=names, metavar="NAME")
        parser.add_argument("table", nargs=argparse.REMAINDER, metavar="[TABLE] ...")
        if arguments:
            parser.parse_args(arguments)
        parser.print_help()
        return
    module = importlib.import_module(f"benchmarks.{arguments[0]}")
    options = make_parser(module).parse_args(arguments[1:])
    run(options.benchmark(), vars(options))


def benchmark_names():
    """Return the names of the modules that contain benchmarks."""
    modules = pkgutil.iter_modules([str(Path(__file__).parent)])
    return sorted(m.name for m in modules if not m.name.startswith("_"))


def describe(name):
    """Return a line that describes a module, without importing the module."""
    tree = ast.parse(Path(__file__).with_name(f"{name}.py").read_text("utf-8"))
    classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    tables = [name.lower() for name in classes if not name.startswith("_")]
    title = ast.get_docstring(tree).splitlines()[0]
    choice = f"  [{', '.join(tables)}]" if len(tables) > 1 else ""
    return f"  {name:13s} {title}{choice}"


def make_parser(module):
    """Return the parser of a module, with a command for each of several classes."""
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks {module.__name__.rpartition('.')[2]}",
        description=module.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    classes = [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and value.__module__ == module.__name__
        and not value.__name__.startswith("_")
    ]
    if len(classes) == 1:
        add_options(parser, classes[0])
        return parser
    tables = parser.add_subparsers(required=True, metavar="TABLE")
    for benchmark in classes:
        title = benchmark.__doc__.splitlines()[0]
        name = benchmark.__name__.lower()
        add_options(tables.add_parser(name, help=title, description=title), benchmark)
    return parser


def add_options(parser, benchmark):
    """Add the options of one class and the options of the runner."""
    parser.set_defaults(benchmark=benchmark)
    for name, settings in getattr(benchmark, "options", {}).items():
        parser.add_argument(name, **{"help": "(default: %(default)s)", **settings})
    parser.add_argument(
        "--repeats",
        type=int,
        default=getattr(benchmark, "repeat", 1),
        help="number of rounds over all rows; before several rounds, one more round is "
        "run and not counted (default: %(default)s)",
    )
    parser.add_argument(
        "--n-jobs",
        type=int,
        default=1,
        help="number of rows measured in parallel; has no effect if --repeats is above "
        "1 (default: 1)",
    )


def run(benchmark, options):
    """Measure all rows of a benchmark, print them, and return them."""
    for name, value in options.items():
        setattr(benchmark, name, value)
    if hasattr(benchmark, "prepare"):
        benchmark.prepare()
    kinds = reversed(type(benchmark).__mro__)  # methods of base classes first
    names = dict.fromkeys(name for kind in kinds for name in vars(kind))
    methods = [name for name in names if name.startswith(PREFIXES)]
    rows = [row for row in rows_of(benchmark) if getattr(benchmark, "has", all_)(*row)]
    table = {}
    if methods:
        printer = Printer(benchmark, methods, rows)
        for row, values in measured(benchmark, methods, rows):
            table[row] = values
            printer.print_row(row, {n: np.median(v) for n, v in values.items()})
        if getattr(benchmark, "summarise", False):
            printer.print_summary(table)
    if hasattr(benchmark, "report"):
        print()
        benchmark.report(table)
    return table


def all_(*row):
    """Keep every row."""
    return True


def rows_of(benchmark):
    """Return all combinations of values. A flat list is for a single parameter."""
    params = list(getattr(benchmark, "params", []))
    if params and not isinstance(params[0], list | tuple):
        params = [params]
    return list(itertools.product(*params))


def measured(benchmark, methods, rows):
    """Yield each row with the values of its methods, one value for each round."""
    if benchmark.repeats == 1:
        parallel = Parallel(benchmark.n_jobs, return_as="generator")
        results = parallel(
            delayed(measure)(start(benchmark, ()), methods, row) for row in rows
        )
        for row, values in zip(rows, results, strict=True):
            yield row, {name: [value] for name, value in values.items()}
        return
    started = {row: start(benchmark, row) for row in rows}
    rounds = [
        {row: call_all(ready, methods, row) for row, ready in started.items()}
        for _ in range(benchmark.repeats + 1)
    ]
    for row in rows:
        results = [values[row] for values in rounds[1:]]
        yield row, {name: [values[name] for values in results] for name in methods}


def start(benchmark, row):
    """Return a copy of the benchmark, set up for a row unless the row is empty."""
    benchmark = copy.copy(benchmark)
    if row and hasattr(benchmark, "setup"):
        benchmark.setup(*row)
    return benchmark


def measure(benchmark, methods, row):
    """Set up a row, call the methods, and return their values."""
    if hasattr(benchmark, "setup"):
        benchmark.setup(*row)
    return call_all(benchmark, methods, row)


def call_all(benchmark, methods, row):
    """Call methods, and return seconds, numbers or bytes keyed by method."""
    values = {}
    for name in methods:
        method = getattr(benchmark, name)
        if name.startswith("peakmem_"):
            context = multiprocessing.get_context("spawn")
            with ProcessPoolExecutor(1, context) as pool:
                values[name] = pool.submit(peak_memory, benchmark, name, row).result()
        elif name.startswith("time_"):
            before = time.perf_counter()
            method(*row)
            values[name] = time.perf_counter() - before
        else:
            values[name] = method(*row)
    return values


class Printer:
    """Prints a text table with a line for each row and a column for each method.

    Parameters
    ----------
    benchmark : object
        ``formats`` maps methods to the formats of their values (default ``.5g``), and
        ``unit`` is printed above the table.
    methods : list of str
    rows : list of tuple
    """

    def __init__(self, benchmark, methods, rows):
        self.methods = methods
        self.formats = getattr(benchmark, "formats", {})
        names = list(getattr(benchmark, "param_names", ["case"]))
        labels = [names, *([str(value) for value in row] for row in rows)]
        columns = itertools.zip_longest(*labels, fillvalue="")
        self.widths = [max(map(len, column)) + 2 for column in columns]
        titles = [re.sub("^[a-z]+_", "", n).replace("_", " ") for n in methods]
        self.columns = [max(12, len(title) + 2) for title in titles]
        if hasattr(benchmark, "unit"):
            print(f"{benchmark.unit}\n")
        self._print(names, titles)

    def print_row(self, row, values):
        """Print one row."""
        texts = [format(values[n], self.formats.get(n, ".5g")) for n in self.methods]
        self._print(map(str, row), texts)

    def print_summary(self, table):
        """Print the mean and standard deviation of every column."""
        for name, function in (("mean", np.mean), ("sd", sd)):
            values = {
                n: function([np.median(row[n]) for row in table.values()])
                for n in self.methods
            }
            self.print_row([name] + [""] * (len(self.widths) - 1), values)

    def _print(self, labels, texts):
        line = "".join(f"{t:{w}s}" for t, w in zip(labels, self.widths, strict=False))
        line += "".join(f"{t:>{w}s}" for t, w in zip(texts, self.columns, strict=True))
        print(line.rstrip(), flush=True)


def sd(values):
    """Return the standard deviation of a sample, or NaN for a single value."""
    return np.std(values, ddof=1) if len(values) > 1 else np.nan


if __name__ == "__main__":
    main()
