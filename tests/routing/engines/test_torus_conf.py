"""Which torus-2QoS.conf files are taken and which refused: as stock OpenSM 3.3.23 does on ibsim (:mod:`.torus_conf_mutants`)."""

from __future__ import annotations

import pytest

from softib.routing.engine import RouteOptions, route
from tests.routing import stock_sm
from tests.routing.engines.torus_conf_mutants import MUTANTS, PORTS, TORI, verdicts


@pytest.mark.parametrize("name", TORI)
def test_files_are_taken_and_refused_as_opensm_does(name):
    assert len(verdicts()) == len(MUTANTS) == 100 + 2 * len(PORTS)
    for number, ((torus, text), taken) in enumerate(zip(MUTANTS, verdicts(), strict=True)):
        if torus == name:
            found = route(TORI[name].graph, "torus-2QoS", RouteOptions(torus_config=text))
            assert (found.engine == "torus-2QoS") == bool(taken), (number, text, found.notes)


@pytest.mark.slow
@pytest.mark.stock
@pytest.mark.timeout(600)
def test_opensm_takes_and_refuses_what_is_recorded(stock, tmp_path):
    opensm, ibsim = stock("opensm"), stock("ibsim")
    said: dict[int, int] = {}
    for name, lab in TORI.items():
        folder = tmp_path / name
        folder.mkdir()
        with stock_sm.ibsim(ibsim, lab.graph, folder) as env:
            for number, (torus, text) in enumerate(MUTANTS):
                if torus != name:
                    continue
                (folder / "torus.conf").write_text(text)
                (folder / "log").unlink(missing_ok=True)
                log = stock_sm.opensm(
                    opensm, env, folder, "torus-2QoS", "-Q", "--torus_config", str(folder / "torus.conf")
                )
                said[number] = int("torus-2QoS tables configured on all switches" in log)
    print("".join(str(said[n]) for n in range(len(MUTANTS))))
    assert [said[n] for n in range(len(MUTANTS))] == verdicts()
