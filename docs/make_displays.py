"""Draw the pictures of ``displays.md`` from its own blocks.

    python docs/make_displays.py

Blocks run one after the other, as a reader would run them; the figure that a block has
drawn becomes the picture that the page shows below it. A block without a picture below,
or a picture without a figure above, ends the run.
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
                raise SystemExit(f"{PAGE.name} shows no picture above {part['block']}")
            exec(compile(part["block"], PAGE.name, "exec"), namespace)
            continue
        path = PAGE.parent / part["picture"]
        if len(plt.get_fignums()) != 1:
            raise SystemExit(f"one figure was to be drawn for {path.name}")
        # No dates and versions in the file: it changes when the picture does.
        plt.savefig(path, dpi=100, metadata={"Software": None})
        plt.close("all")
        print(f"wrote {path.relative_to(PAGE.parents[1])}")


if __name__ == "__main__":
    main()
