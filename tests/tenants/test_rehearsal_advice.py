"""The advice of ``softib audit --rehearse`` is what stops the attack: if the M_Key was obtained first, what keeps it secret."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from softib.tenants import rehearsal
from softib.tenants.rehearsal import ATTACKS, KEYED, STOPPED, THROUGH, Outcome, rehearse

SA_KEY = next(advice for attack, _, _, advice in ATTACKS if attack == "mkey-from-administration")


@pytest.mark.parametrize(
    ("source", "expected"), [("mkey-from-administration", SA_KEY), ("mkey-from-port", KEYED), ("", None)]
)
def test_attacks_with_the_key_name_where_it_came_from(monkeypatch, source, expected):
    """Without a source there is no M_Key: each attack has its advice."""

    def attempt(attack: str) -> Callable[[Any], tuple[Outcome, str]]:
        def act(stage: Any) -> tuple[Outcome, str]:
            if attack == source:
                stage.key = 0x77
            return (THROUGH if attack == source or not attack.startswith("mkey-from") else STOPPED), "seen"

        return act

    monkeypatch.setattr(rehearsal, "ATTACKS", tuple((a, c, attempt(a), advice) for a, c, _, advice in ATTACKS))
    advice = {one.attack: one.advice for one in rehearse(SimpleNamespace(key=0))}
    own = {attack: text for attack, _, _, text in ATTACKS}
    needs = (
        "port-info-set",
        "forwarding-table-set",
        "self-admission",
        "enforcement-off",
        "packets-across",
        "foreign-manager",
    )
    assert {a: advice[a] for a in needs} == {a: expected or own[a] for a in needs}
    assert {a: advice[a] for a in ("key-guess", "group-leave", "trap-flood")} == {
        a: own[a] for a in ("key-guess", "group-leave", "trap-flood")
    }
    if source == "mkey-from-administration":
        assert "m_key_protection_level" not in " ".join(advice[a] for a in needs)
