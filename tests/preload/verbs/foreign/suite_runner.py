"""Run rdma-core's own suite, in whose folder this starts, and print one JSON line a test: its id, how it ended, why.

Runs under Debian's ``/usr/bin/python3``, which has pyverbs; standard library only.
"""

import json
import os
import sys
import unittest
from importlib.machinery import SourceFileLoader


class Lines(unittest.TestResult):
    """One line a test."""

    def say(self, test, how, why=""):
        print(json.dumps([test.id(), how, why]), flush=True)

    def addSuccess(self, test):
        self.say(test, "passed")

    def addSkip(self, test, reason):
        self.say(test, "skipped", reason)

    def addFailure(self, test, err):
        self.say(test, "failed", self._exc_info_to_string(err, test))

    def addError(self, test, err):
        self.say(test, "failed", self._exc_info_to_string(err, test))


folder = os.path.join(os.getcwd(), "tests")
sys.path[:0] = [folder, os.getcwd()]
from args_parser import parser  # noqa: E402 (of the suite)

tests = SourceFileLoader("tests", os.path.join(folder, "__init__.py")).load_module()
parser.parse_args()
unittest.defaultTestLoader.loadTestsFromModule(tests).run(Lines())
