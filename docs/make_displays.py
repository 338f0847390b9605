"""Draw the pictures of ``displays.md`` with the code of that page.

    python docs/make_displays.py

The code blocks run in order. The figure that a block draws becomes the picture below
the block. The script fails if the page has no picture for a figure, or if the blocks
above a picture do not draw exactly one figure.
"""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt

PAGE = Path(__file__).with_name("displays.md")
PART = re.compile(
    r"^```python\n(?P<block>.*?)^```$|^!\[[^\]]*\]\((?P<picture>[^)]+)\)$",
    re.MULTILINE | re.DOTALL,
)


def main() -> None:
    """Run the page and write its pictures."""
    namespace: dict[str, object] = {}
    for part in PART.finditer(PAGE.read_text(encoding="utf-8")):
        if part["block"] is not None:
            if plt.get_fignums():
                raise SystemExit(f"write ![alt](images/NAME.png) above {part['block']}")
            exec(compile(part["block"], PAGE.name, "exec"), namespace)
            continue
        path = PAGE.parent / part["picture"]
        if (n := len(plt.get_fignums())) != 1:
            raise SystemExit(f"draw one figure above {path.name}, not {n}")
        # Omit dates and versions, so that equal pictures give equal files.
        plt.savefig(path, dpi=100, metadata={"Software": None})
        plt.close("all")
        print(f"wrote {path.relative_to(PAGE.parents[1])}")


if __name__ == "__main__":
    main()
