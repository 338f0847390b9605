"""Count the lines of code of the package: no blanks, comments or docstrings.

Run ``python tests/count_code.py`` for a table by package.
"""

import ast
import io
import tokenize
from collections import Counter
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "sklearn_mdl"
LAYOUT = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT),
    *(tokenize.DEDENT, tokenize.ENDMARKER),
}
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def lines_of_code(text):
    """Lines of a module that hold code."""
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False):
            lines -= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    return len(lines)


def counted():
    """Lines of code by package, those of ``_core`` by subpackage."""
    found = Counter()
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE).parts
        name = "/".join(parts[: 2 if parts[0] == "_core" else 1])
        found[name] += lines_of_code(path.read_text("utf-8"))
    return found


if __name__ == "__main__":
    table = counted()
    for name, n_lines in table.most_common():
        print(f"{n_lines:6}  {name}")
    print(f"{table.total():6}  in all")
