"""Numeric options: no option of a command takes a value that is not a finite number. Oracle: IEEE 754."""

from __future__ import annotations

import math

import click
import pytest

import softib as library
from softib.cli.main import cli
from tests.cli.command_tree import commands
from tests.cli.run import one_line, softib

CASES = [
    pytest.param(param, id=" ".join((*words, param.name)))
    for words, command in commands((), cli)
    for param in command.params
    if isinstance(param.type, type(click.FLOAT) | click.FloatRange)
]


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "NaN", "1e999"])
@pytest.mark.parametrize("param", CASES)
def test_a_numeric_option_takes_finite_numbers_only(param, text):
    assert len(CASES) >= 15
    with pytest.raises(click.BadParameter, match="not a finite number"):
        param.type.convert(text, param, None)


def test_the_message_names_the_option():
    result = softib("advise", "--hosts", "64", "--kind", "training", "--step", "nan")
    assert one_line(result).endswith("--step: 'nan' is not a finite number")


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_the_library_refuses_them_too(number):
    for call in (
        lambda: library.Demand(4, oversubscription=number),
        lambda: library.advise(library.Facts(4, step_ms=number)),
        lambda: library.advise(library.Facts(4, calls_a_second=number)),
    ):
        with pytest.raises(library.InputError, match=f"{number:g}"):
            call()
