"""Documents back into results. Oracles: the result itself, and jsonschema with the schema of the same declaration."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from softib.cli.documents import model_of
from softib.document_reader import read_result
from softib.errors import InputError
from softib.live.faults.options import KINDS
from softib.live.faults.replies import ActiveFault, FaultedPlace, FaultReply
from softib.live.status import (
    Administration,
    Client,
    FabricStatus,
    LastSweep,
    Mads,
    ManagerStatus,
    PortStates,
    Status,
    VerbsUsage,
    Wait,
)
from softib.result import Result, also, document, key
from softib.sm.sweep.report import SweepReport


def status() -> Status:
    sweep = SweepReport(4, 2, 2, 5, 4, {"Get NODE_INFO": 4, "Set PORT_INFO": 9}, phase_s={"discovery": 0.25})
    waits = Administration(5, 0, 1, Wait({"0.1": 4, "inf": 5}, 0.5, 0.0))
    last = LastSweep(sweep, sweep.sent, sweep.sets, {"Get NODE_DESC": 1}, 0)
    manager = ManagerStatus("internal", "minhop", "MASTER", "", 3, "host-1[1]", "minhop", ["one"], waits, last)
    one = FabricStatus(
        name="one",
        pid=17,
        source="small.yaml",
        ready=True,
        ready_s=None,
        uptime_s=9.5,
        nodes=4,
        switches=2,
        cas=2,
        links=5,
        port_states=PortStates(0, 0, 0, 10),
        sm=manager,
        pace=False,
        clients=[Client(0, 99, "host-2", 1, False, 3)],
        verbs=VerbsUsage(1, 2, 0, 3, 4, 4096),
        mads=Mads(10, 20, 0),
        traps={"trap_128": 1},
        kernels="both",
        bugs=0,
        log="/run/log",
        epoch=12,
        shared_fabric="/run/shared",
        sockname="",
        version="0.1.0",
    )
    none = FabricStatus(**{**vars(one), "sm": ManagerStatus("none"), "clients": []})
    return Status([one, none])


def test_what_is_read_is_what_was_written():
    written = status()
    read = read_result(Status, json.loads(json.dumps(document("status", written))), "status")
    assert read == written
    assert read.fabrics[0].sm.report.report.phase_s == {"discovery": 0.25} and read.fabrics[1].sm.sa is None


def test_options_of_every_kind_of_fault_come_back():
    """The fields of a listed fault are the options in the table of kinds."""
    examples = {"guid": "0x0000000000000001", "speed": "EDR", "width": 4, "count": 3, "overrun": True}
    for name, kind in KINDS.items():
        options = {option: examples.get(option, 0.5) for option in kind.options}
        fault = ActiveFault(name, "leaf-1[1]", **options, age_s=1.0)
        assert fault.options() == options
        reply = FaultReply(locations=[FaultedPlace(name, ["a[1]", "b[1]"])], cleared=[fault])
        assert read_result(FaultReply, json.loads(json.dumps(reply.to_json())), "fault") == reply


@dataclass
class Inner(Result):
    x: int


@dataclass
class Outer(Result):
    kind: Literal["a", "b"]
    pair: tuple[int, str]
    many: tuple[float, ...]
    by_number: dict[int, Inner]
    either: Inner | list[int] | None
    other: str | None = field(default=None, metadata=key("else", optional=True))

    @also()
    def derived(self) -> int:
        """Not read."""
        return len(self.many)


OUTER = Outer("a", (1, "one"), (0.5, 1.0), {3: Inner(4)}, Inner(5), "text")


def test_every_form_of_a_field():
    for outer in (OUTER, Outer("b", (0, ""), (), {}, [1, 2]), Outer("b", (0, ""), (), {}, None)):
        assert read_result(Outer, json.loads(json.dumps(outer.to_json())), "outer") == outer


def test_keys_of_later_versions_are_ignored():
    assert read_result(Outer, {**OUTER.to_json(), "later": 1}, "outer") == OUTER


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"kind": "c"}, "file: kind: 'c' is not one of a, b"),
        ({"pair": [1]}, "file: pair: a list of 1; it has 2 values"),
        ({"pair": [True, "one"]}, "file: pair[0]: True is not of type int"),
        ({"many": {"a": 1}}, "file: many: {'a': 1} is not a list"),
        ({"by_number": {"x": {"x": 1}}}, "file: by_number: a key is not a number"),
        ({"by_number": {"3": {}}}, "file: by_number: 3: key 'x' is missing"),
        ({"by_number": 7}, "file: by_number: 7 is not an object"),
        ({"either": "text"}, "file: either: 'text' is not an object"),
        ({"else": 1}, "file: else: 1 is not of type str"),
    ],
)
def test_an_error_names_the_key(change, line):
    with pytest.raises(InputError) as error:
        read_result(Outer, {**OUTER.to_json(), **change}, "file")
    assert str(error.value) == line


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, inside in entries:
        yield from places(inside, (*path, step))


def test_it_accepts_what_the_schema_of_the_same_declaration_accepts():
    jsonschema = pytest.importorskip("jsonschema")
    pydantic = pytest.importorskip("pydantic")
    validator = jsonschema.Draft202012Validator(pydantic.TypeAdapter(model_of("status")).json_schema())
    whole = json.loads(json.dumps(document("status", status())))
    validator.validate(whole)
    rng, verdicts = random.Random(30), set()
    for path in places(whole):
        if path in ((), ("schema",)):
            continue
        changed = copy.deepcopy(whole)
        *inner, last = path
        at = changed
        for step in inner:
            at = at[step]
        if isinstance(at, dict) and rng.random() < 0.3:
            del at[last]
        else:
            at[last] = rng.choice([None, True, -3, 1.5, "text", [], {}, [1, "x"], {"k": "v"}])
        try:
            read_result(Status, changed, "status")
            read = True
        except InputError:
            read = False
        assert read == validator.is_valid(changed), path
        verdicts.add(read)
    assert verdicts == {True, False}
