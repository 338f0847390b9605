"""Laws and errors that are one test each and hold for many small cases."""

import contextlib
import functools
import inspect

import numpy as np


def for_each(names, cases):
    """Run a test for every case, as ``pytest.mark.parametrize`` would, but as one test.

    A failure ends the test and says in a note which case it is. Every case has its own
    folder as ``tmp_path``, and what it patches by ``monkeypatch`` is undone after it.
    """
    names = names.split(", ")
    cases = list(cases)
    assert cases, "there is no case to test"

    def decorator(test):
        @functools.wraps(test)
        def tested(*args, **kwargs):
            for i, case in enumerate(cases):
                values = case if len(names) > 1 else (case,)
                given = dict(zip(names, values, strict=True))
                try:
                    with _fixtures_of_its_own(kwargs, i) as fixtures:
                        test(*args, **fixtures, **given)
                except BaseException as error:
                    error.add_note(f"This is the case of {_described(given)}")
                    raise

        signature = inspect.signature(test)
        rest = [p for name, p in signature.parameters.items() if name not in names]
        tested.__signature__ = signature.replace(parameters=rest)
        return tested

    return decorator


@contextlib.contextmanager
def _fixtures_of_its_own(fixtures, i):
    own = dict(fixtures)
    with contextlib.ExitStack() as undone:
        if "monkeypatch" in own:
            own["monkeypatch"] = undone.enter_context(own["monkeypatch"].context())
        if "tmp_path" in own:
            own["tmp_path"] = own["tmp_path"] / f"case{i}"
            own["tmp_path"].mkdir()
        yield own


def _described(given):
    with np.printoptions(threshold=10):
        texts = [f"{name}={_named(value)}" for name, value in given.items()]
    return ", ".join(text if len(text) <= 300 else text[:300] + "…" for text in texts)


def _named(value):
    named = inspect.isfunction(value) or inspect.isclass(value)
    return value.__name__ if named else " ".join(repr(value).split())
