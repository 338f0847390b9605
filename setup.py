"""Make archives whose bytes only depend on their content; metadata is in setup.cfg."""

import gzip
import os
import re
import tarfile
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.sdist import sdist

# Times in both archives, for those who set none: setuptools would take those of files.
EPOCH = int(os.environ.setdefault("SOURCE_DATE_EPOCH", "1577836800"))  # January 2020
# The project's address, which a release sets, and which its source archive keeps: a
# package index shows the README by itself, where relative links lead nowhere.
INFO = Path("PKG-INFO").read_text("utf-8") if Path("PKG-INFO").exists() else ""
(KEPT,) = re.findall("^Project-URL: Source, (.*)$", INFO, re.MULTILINE) or [""]
ADDRESS = os.environ.get("PROJECT_ADDRESS", KEPT).rstrip("/")


def metadata(readme, address, version):
    """Return a README with absolute links to a version, and the project's addresses."""
    files = {"raw": r"(!\[[^\]]*\]\()", "blob": r"(\]\()"}  # images, then other links
    for place, start in files.items():
        target = rf"\1{address}/{place}/v{version}/"
        readme = re.sub(rf"{start}(?!https?://|#)", target, readme)
    documentation = f"{address}/blob/v{version}/docs/index.md"
    urls = {"Source": address, "Documentation": documentation}
    return {"long_description": readme, "project_urls": urls}


def without_origin(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Drop from an entry who packed it, and when."""
    entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname = EPOCH, 0, 0, "", ""
    entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
    return entry


class SourceArchive(sdist):
    """A source archive that is the same wherever and whenever it is made."""

    def make_archive(self, base_name, *_, base_dir, **__):
        """Pack a folder, in the order of its names."""
        path = Path(f"{base_name}.tar.gz")
        path.parent.mkdir(parents=True, exist_ok=True)
        with (
            path.open("wb") as file,
            gzip.GzipFile("", "wb", fileobj=file, mtime=EPOCH) as packed,
            tarfile.open(fileobj=packed, mode="w") as archive,
        ):
            archive.add(base_dir, filter=without_origin)
        return str(path)


class Wheel(bdist_wheel):
    """A wheel whose files have the same modes, whatever those of the checkout are."""

    def write_wheelfile(self, *args, **kwargs):
        """Set the modes: this file is the last one before all are packed."""
        super().write_wheelfile(*args, **kwargs)
        for path in Path(self.bdist_dir).rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)


if __name__ == "__main__":
    text = Path("sklearn_mdl/__init__.py").read_text("utf-8")
    version = re.search(r'__version__ = "(.*)"', text)[1]
    readme = Path("README.md").read_text("utf-8")
    found = metadata(readme, ADDRESS, version) if ADDRESS else {}
    setup(cmdclass={"sdist": SourceArchive, "bdist_wheel": Wheel}, **found)
