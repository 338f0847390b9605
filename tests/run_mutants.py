"""Do tests fail for each fault that mutmut has put into the code?

mutmut starts pytest for each fault, but collecting the tests takes longer than running
those that find most faults. So one process collects them here, and forks of it run the
tests that reach a fault, the fastest first. Faults that survive the first seconds of
their tests meet the other tests at the end.

``make mutants`` runs this after mutmut, which writes the faults and finds out which
tests reach them. If you run it again by hand, it continues where it was stopped. It
prints the faults that survive, and counts them.
"""

import argparse
import gc
import json
import os
import resource
import signal
import sys
import tomllib
from collections import Counter
from fnmatch import fnmatch
from itertools import accumulate
from pathlib import Path
from time import process_time

import pytest
from mutmut.mutation import trampoline

FOUND = Path("found.jsonl")
FIRST_SECONDS = 15.0
NO_FAULT = ""
MANY, NOT_RUN = 254, 255  # the largest exit codes
SURVIVED, SURVIVED_SOME = "survived", "survived some"
FAILED = "not run"  # for a fault of this runner, so try again
FOUND_BY_A_TEST, TOOK_TOO_MUCH = "found", "took too much time or memory"
LIMITS = (signal.SIGXCPU, signal.SIGALRM, signal.SIGKILL)  # the last is the system's
STATUS = {0: SURVIVED, NOT_RUN: FAILED}
STATUS |= {-limit: TOOK_TOO_MUCH for limit in LIMITS}


def names_in(meta):
    """Return the names of the faults in a file, as mutmut's statistics spell them."""
    names = json.loads(meta.read_text("utf-8"))["exit_code_by_key"]
    return [name.replace("__init__.", "") for name in names]


def function_of(fault):
    return fault.rpartition("__mutmut_")[0]


class Faults:
    """A plugin of pytest that runs the tests of each fault in a fork."""

    def __init__(self, patterns, n_jobs):
        self.n_jobs = n_jobs
        self.first = {}  # the test that found the last fault of a function
        stats = json.loads(Path("mutmut-stats.json").read_text("utf-8"))
        self.tests, self.seconds = (
            stats[key] for key in ("tests_by_mangled_function_name", "duration_by_test")
        )
        self.names = [
            name
            for path in sorted(Path("sklearn_mdl").rglob("*.meta"))
            for name in names_in(path)
            if any(fnmatch(name, pattern) for pattern in patterns)
        ]
        self.names.insert(0, NO_FAULT)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session):
        items = {item.nodeid: item for item in session.items}
        self.tests[NO_FAULT] = list(items)
        gc.freeze()  # or collections in forks would copy all that they share
        found = {}
        if FOUND.exists():
            lines = FOUND.read_text("utf-8").splitlines()
            found = dict(json.loads(line) for line in lines)
            found = {name: found[name] for name in found if found[name] != FAILED}
        for is_first, so_far in ((True, None), (False, SURVIVED_SOME)):
            left = [name for name in self.names if found.get(name) == so_far]
            self.run(left, is_first, items, found)
        if found[NO_FAULT] != SURVIVED:
            raise pytest.UsageError("tests fail without a fault")
        faults = self.names[1:]
        print("\n".join(name for name in faults if found[name] == SURVIVED))
        print(dict(Counter(found[name] for name in faults)))
        return True

    def run(self, names, is_first, items, found):
        """Run faults, and add their status to ``found`` and to the file."""
        running = {}
        with FOUND.open("a", encoding="utf-8", buffering=1) as file:
            for name in [*names, *[None] * self.n_jobs]:
                while running and (name is None or len(running) == self.n_jobs):
                    pid, code = os.wait()
                    ended, tests, has_all = running.pop(pid)
                    code = os.waitstatus_to_exitcode(code)
                    if 0 < code < MANY:  # the next fault of the function meets it first
                        self.first[function_of(ended)] = tests[code - 1]
                    status = STATUS.get(code, FOUND_BY_A_TEST)
                    if status == SURVIVED and not has_all:
                        status = SURVIVED_SOME
                    found[ended] = status
                    file.write(json.dumps([ended, status]) + "\n")
                if name is not None:
                    tests, has_all = self.chosen(name, is_first, items)
                    pid = self.start(name, [items[test] for test in tests])
                    running[pid] = name, tests, has_all

    def chosen(self, name, is_first, items):
        """Return the first or the other tests of a fault, and whether none are left."""
        met = items.keys() & self.tests.get(function_of(name), [])
        met = sorted(met, key=self.seconds_of)
        elapsed = accumulate(self.seconds_of(test) + 0.01 for test in met)
        n_first = max(1, sum(total <= FIRST_SECONDS for total in elapsed))
        if not is_first:
            return met[n_first:], True
        if name == NO_FAULT:
            return met, True
        killer = self.first.get(function_of(name))
        first = met[:n_first]
        return ([killer] if killer in met else []) + first, n_first >= len(met)

    def seconds_of(self, test):
        return self.seconds.get(test, 0.0)

    def start(self, name, items):
        """Run tests in a fork, whose exit code is the number of the one that fails."""
        pid = os.fork()
        if pid:
            return pid
        try:
            silence = os.open(os.devnull, os.O_RDWR)
            os.dup2(silence, 1)
            os.dup2(silence, 2)
            trampoline.set_mutant_under_test(name)
            trampoline.get_mutant_under_test = lambda: name  # without os.environ
            for self.n_run, item in enumerate(items, start=1):
                self.limit_time_of(item)
                following = items[self.n_run] if self.n_run < len(items) else None
                item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
        except BaseException:  # of this runner, since pytest catches those of tests
            os._exit(NOT_RUN)
        os._exit(0)

    def limit_time_of(self, item):
        """Let a signal end the process if a test takes much longer than usual."""
        most = int(10 + 10 * self.seconds_of(item.nodeid))
        hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
        resource.setrlimit(resource.RLIMIT_CPU, (int(process_time()) + most, hard))
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(10 * most)  # of the clock, in case it waits forever

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, call):
        """End a fork before pytest formats the traceback, which takes a second."""
        if call.excinfo and not isinstance(call.excinfo.value, pytest.skip.Exception):
            os._exit(min(self.n_run, MANY))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("patterns", nargs="*", default=["*"])
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    os.chdir("mutants")
    sys.path.insert(0, os.getcwd())
    tools = tomllib.loads(Path("pyproject.toml").read_text("utf-8"))["tool"]
    options = ["--rootdir=.", "-q", "--capture=no"]
    for name in ("pytest_add_cli_args_test_selection", "pytest_add_cli_args"):
        options += tools["mutmut"][name]
    return pytest.main(options, plugins=[Faults(arguments.patterns, arguments.jobs)])


if __name__ == "__main__":
    sys.exit(main())
