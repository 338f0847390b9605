"""Run the code of pages as a stranger pastes it, with the installed package.

``make check-dist`` gives README and tutorial. The blocks of a page run as one program,
and its commands in a shell, in an empty folder. Where a browser is installed, it opens
the pages that the code wrote.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_iris

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
HEADLESS = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=9000"]


def blocks(page: Path, language: str) -> list[str]:
    """Return the blocks of a language, without prompts."""
    return re.findall(
        rf"^```{language}\n(.*?)^```", page.read_text("utf-8"), re.M | re.S
    )


def features(folder: Path) -> None:
    """Write files under the names that commands of the pages use."""
    X, y = load_iris(return_X_y=True)
    place = folder / "features" / "mydata"
    place.mkdir(parents=True)
    for name, array in {"clip": X, "dino": X[:, :2], "labels": y}.items():
        np.save(place / f"{name}.npy", array)


def try_code(page: Path, folder: Path) -> None:
    """Run all blocks of Python, and show what they print."""
    code = "\n".join(blocks(page, "python"))
    command = [sys.executable, "-I", "-W", "error", "-c", code]
    print(f"{page.name}:", flush=True)
    subprocess.run(command, check=True, cwd=folder)


def try_commands(page: Path, folder: Path) -> None:
    """Run the lines of blocks of shell that call our command."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    for line in "".join(blocks(page, "sh")).splitlines():
        if line.startswith("sklearn-mdl"):
            print(f"$ {line}", flush=True)
            words = {"check": True, "shell": True, "cwd": folder}
            subprocess.run(line, env={**os.environ, "PATH": path}, **words)


def try_browser(written: Path) -> None:
    """Check that a browser draws the page, by scripts that add canvases to it."""
    command = [BROWSER, *HEADLESS, "--dump-dom", written.as_uri()]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert shown.count("<canvas") > written.read_text("utf-8").count("<canvas"), written
    print(f"{written.name}: drawn by {Path(BROWSER).name}")


def main() -> None:
    """Try every page that is named."""
    for page in map(Path, sys.argv[1:]):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            features(folder)
            try_code(page, folder)
            try_commands(page, folder)
            written = sorted(folder.rglob("*.html"))
            assert written, f"{page} writes no page"
            for path in written if BROWSER else ():
                try_browser(path)


if __name__ == "__main__":
    main()
