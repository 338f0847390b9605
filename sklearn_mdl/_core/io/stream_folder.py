"""The folder of one stream, which contains only the files of that stream."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from pathlib import Path

from sklearn_mdl._core.io.formats import NewerFormat, check_format
from sklearn_mdl._core.io.parameters import Json
from sklearn_mdl._core.io.whole_files import replaced

STAMP = "losses.json"


class StreamFolder:
    """Folder of one stream, inside a user-given folder.

    ``losses.json`` identifies the owner of all files by a random id of the stream and
    an id of the run that wrote last. Another run may continue a stream where it ended.
    The earlier run then raises an error when it uses the files, since rows may have
    changed.

    Parameters
    ----------
    root : Path
        The user-given folder.
    about : mapping
        Further content of ``losses.json``, including the format of losses.

    Attributes
    ----------
    name : str
        Name of the stream's folder, by default random. You may change it until
        something is written.
    stream : str
        Random id of the stream.
    """

    def __init__(self, root: Path, about: Mapping[str, object]) -> None:
        self.root = root
        self.about = about
        self.stream = secrets.token_hex(16)
        self.name = self.stream[:16]
        self._writer = ""  # last known id of the run that wrote the files
        self._is_writer = False

    @property
    def path(self) -> Path:
        """Path of the stream's folder."""
        return self.root / self.name

    @property
    def is_begun(self) -> bool:
        """True if there are files of this stream."""
        return bool(self._writer)

    def adopt(self, stream: str) -> None:
        """Continue a stream that another run began, without writing yet.

        Raises
        ------
        ValueError
            If the folder does not contain this stream.
        """
        content = self._read()
        if content is None or content["stream"] != stream:
            held = "another trace" if content else "no trace"
            raise ValueError(
                f"{self.path} must contain the trace that the checkpoint continues, "
                f"but contains {held}; pass the folder of the trace as store=, or "
                "delete the checkpoint to begin again"
            )
        self.stream, self._writer = stream, content["writer"]

    def claim(self) -> None:
        """Acquire write ownership of the folder. Call this before every write.

        Raises
        ------
        ValueError
            If another run has acquired the folder since, or if the folder contains
            files of other programs.
        """
        if self.is_begun:
            self.check()
        elif self.path.is_dir() and self._read() is None:
            strangers = [p.name for p in self.path.iterdir() if p.name[0] != "."]
            if strangers:
                raise ValueError(
                    f"{self.path} must contain only files of sklearn_mdl, but contains "
                    f"{min(strangers)}; pass another folder as store="
                )
        if self._is_writer:
            return
        writer = secrets.token_hex(16)
        about = {**self.about, "stream": self.stream, "writer": writer}
        text = json.dumps(about, indent=1, allow_nan=False) + "\n"
        self.path.mkdir(parents=True, exist_ok=True)
        with replaced(self.path / STAMP) as aside:
            aside.write_text(text, encoding="utf-8")
        self._writer, self._is_writer = writer, True

    def check(self) -> None:
        """Raise if another run has written to the files.

        Raises
        ------
        ValueError
            If another run has changed or removed the files.
        """
        content = self._read()
        if content is None or content["writer"] != self._writer:
            what = "another run has written to them" if content else "they are gone"
            raise ValueError(
                f"The files in {self.path} must be as this stream left them, but "
                f"{what}; call fit again"
            )

    def _read(self) -> Json | None:
        """Return the content of ``losses.json``, or None if it describes no stream."""
        path = self.path / STAMP
        try:
            content: Json = json.loads(path.read_text(encoding="utf-8"))
            check_format(path, "losses", content)
        except NewerFormat:
            raise
        except (FileNotFoundError, ValueError, RecursionError):
            return None
        return content if {"stream", "writer"} <= content.keys() else None
