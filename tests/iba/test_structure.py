"""Laws of the declared structures: random octets survive unpack → pack; set touches nothing else."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softib.iba import headers, notice, perf, perf_optional, smp
from softib.iba.structure import Structure
from tests.extent import examples

STRUCTURES = [
    c
    for module in (
        smp,
        notice,
        perf,
        perf_optional,
        headers,
    )
    for c in vars(module).values()
    if isinstance(c, type) and issubclass(c, Structure) and c.__module__ == module.__name__
]


@pytest.mark.parametrize("struct", STRUCTURES, ids=lambda c: c.__name__)
def test_random_octets_survive_unpack_and_pack(struct):
    octets = np.random.default_rng(7).integers(0, 256, (64, struct.size), dtype=np.uint8)
    assert (struct.pack(**struct.unpack(octets)) == octets).all()
    assert bytes(struct.pack(**struct.unpack(octets[0].tobytes()))) == octets[0].tobytes()


@pytest.mark.parametrize("struct", STRUCTURES, ids=lambda c: c.__name__)
def test_set_changes_only_its_own_bits(struct):
    rng = np.random.default_rng(3)
    before = rng.integers(0, 256, (32, struct.size), dtype=np.uint8)
    for f in struct.named():
        after = before.copy()
        f.set(after, f.get(rng.integers(0, 256, before.shape, dtype=np.uint8)))
        changed = np.unpackbits(before ^ after, axis=1).any(axis=0)
        changed[f.offset : f.offset + f.width] = False
        assert not changed.any(), f


def test_a_value_too_large_is_refused():
    with pytest.raises(ValueError, match="lmc"):
        smp.PortInfo.lmc.set(smp.PortInfo.zeros(), 8)


@settings(max_examples=examples(200), deadline=None)
@given(st.data())
def test_any_values_survive_pack_and_unpack(data):
    struct = data.draw(st.sampled_from(STRUCTURES))
    values = {}
    for f in struct.named():
        if f.is_text:
            continue
        one = st.integers(0, f.mask)
        value = data.draw(one if f.count == 1 else st.lists(one, min_size=f.count, max_size=f.count))
        values[f.name] = np.array(value, np.uint64) if f.count > 1 else value
    back = struct.unpack(struct.pack(**values).tobytes())
    for name, value in values.items():
        assert back[name] == (value.tolist() if isinstance(value, np.ndarray) else value)


@pytest.mark.parametrize("struct", STRUCTURES, ids=lambda c: c.__name__)
def test_every_structure_says_where_it_is_specified(struct):
    assert struct.section and struct.__doc__ and all(f.doc for f in struct.named())
    assert sum(f.width for f in struct.fields.values()) == struct.size * 8
