"""Laws of the declared structures: random octets survive unpack → pack; set touches nothing else."""

import numpy as np
import pytest

from softib.iba import smp
from softib.iba.structure import Structure

STRUCTURES = [c for c in vars(smp).values() if isinstance(c, type) and issubclass(c, Structure) and c is not Structure]


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
