"""RMPP ends against each other over wires that lose, repeat and reorder, against hostile peers, and against Wireshark."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softib.iba.sa import RMPP_HEADER, SA_DATA, RmppFlag, RmppHeader, RmppType, SaHeader
from tests.extent import examples
from tests.mad.rmpp_ends import RESP_TIMEOUT_PS, Receiver, RmppState, RmppStatus, Sender, is_rmpp

H = RmppHeader


def message(octets: int, seed: int = 1) -> bytes:
    head = SaHeader.pack(
        base_version=1, mgmt_class=3, class_version=2, method=0x92, tid=0x1234, attr_id=0x11, attr_offset=14
    )
    return head.tobytes() + np.random.default_rng(seed).bytes(octets)


def header(mad: np.ndarray) -> np.ndarray:
    return mad[RMPP_HEADER : RMPP_HEADER + H.size]


def carry(sender: Sender, receiver: Receiver, lose=lambda: False, shuffle=None, most: int = 10_000) -> int:
    """Until both are over; returns how many MADs travelled."""
    now, to_receiver, to_sender, count = 0, [], [], 0
    for _ in range(most):
        out, due_s = sender.step(now, to_sender)
        to_receiver = [m for m in out if not lose()]
        if shuffle is not None:
            shuffle(to_receiver)
        back, due_r = receiver.step(now, to_receiver)
        to_sender = [m for m in back if not lose()]
        count += len(out) + len(back)
        if sender.over and (receiver.over or sender.state == RmppState.ABORTED):
            return count
        if not to_sender:
            now = min(max(now, due_s), max(now, due_r))
    raise AssertionError("never over")


@pytest.mark.parametrize("octets", [0, 1, 199, 200, 201, 400, 401, 12_800, 12_801, 300_000])
def test_every_length_arrives_whole_and_segments_are_as_the_specification_counts_them(octets):
    sender, receiver = Sender(message(octets)), Receiver()
    segments = max(1, -(-octets // 200))
    travelled = carry(sender, receiver)
    assert sender.state == receiver.state == RmppState.DONE
    assert receiver.message[SA_DATA:] == message(octets)[SA_DATA:]
    assert travelled <= segments + -(-segments // 64) + 2, "one acknowledgement a window"
    first, last = header(sender.segment(1)), header(sender.segment(segments))
    assert int(H.length.get(first)) == octets + 20 * segments, "PayloadLength of the first: all, class headers too"
    if segments > 1:
        assert int(H.length.get(last)) == octets - 200 * (segments - 1) + 20
        assert int(H.flags.get(first)) == RmppFlag.ACTIVE | RmppFlag.FIRST
    assert int(H.flags.get(last)) & RmppFlag.LAST


@settings(max_examples=examples(60), deadline=None)
@given(octets=st.integers(0, 40_000), seed=st.integers(0, 2**32), loss=st.floats(0, 0.15), mix=st.booleans())
def test_lossy_reordering_wires(octets, seed, loss, mix):
    """Whatever is lost or reordered: the message arrives octet by octet, or both sides know that it did not."""
    rng = np.random.default_rng(seed)
    sender, receiver = Sender(message(octets, seed), tries=50), Receiver(timeout_ps=200 * RESP_TIMEOUT_PS)
    carry(sender, receiver, lambda: rng.random() < loss, rng.shuffle if mix else None)
    assert sender.state == RmppState.DONE and receiver.message[SA_DATA:] == message(octets, seed)[SA_DATA:]


def test_nobody_answers():
    sender = Sender(message(1000))
    out, now = [], 0
    for _ in range(10):
        mads, due = sender.step(now)
        out += mads
        if sender.over:
            break
        now = due
    assert sender.status == RmppStatus.TOO_MANY_RETRIES and int(H.type.get(header(out[-1]))) == RmppType.ABORT
    assert len(out) == 3 + 1 and now == 3 * RESP_TIMEOUT_PS


def control(kind: int, segment: int = 0, window: int = 0, status: int = 0) -> np.ndarray:
    mad = np.zeros(256, np.uint8)
    mad[:SA_DATA] = SaHeader.pack(
        base_version=1,
        mgmt_class=3,
        class_version=2,
        rmpp_version=1,
        rmpp_type=kind,
        rmpp_flags=1,
        rmpp_status=status,
        segment=segment,
        length=window,
    )
    return mad


@pytest.mark.parametrize(
    ("mad", "status"),
    [
        (control(RmppType.ACK, 7, 64), RmppStatus.SEGMENT_TOO_BIG),
        (control(RmppType.ACK, 1, 0), RmppStatus.NEW_WINDOW_TOO_SMALL),
        (control(RmppType.STOP, status=1), RmppStatus.RESOURCES_EXHAUSTED),
        (control(RmppType.ABORT, status=99), RmppStatus.UNSPECIFIED),
    ],
)
def test_a_sender_believes_no_nonsense(mad, status):
    sender = Sender(message(1000))
    sender.step(0)
    out, _ = sender.step(1, [mad])
    assert sender.state == RmppState.ABORTED and sender.status == status
    assert all(is_rmpp(m) for m in out)


def test_a_receiver_believes_no_lengths():
    sender = Sender(message(1000))
    first = sender.segment(1)
    H.length.set(header(first), 0xFFFFFFFF)
    receiver = Receiver()
    out, _ = receiver.step(0, [first])
    assert receiver.status == RmppStatus.RESOURCES_EXHAUSTED and int(H.type.get(header(out[0]))) == RmppType.STOP
    wrong = [sender.segment(n) for n in range(1, sender.segments + 1)]
    H.length.set(header(wrong[-1]), 1)
    receiver = Receiver()
    receiver.step(0, wrong)
    assert receiver.status == RmppStatus.INCONSISTENT_LAST_AND_LENGTH and receiver.message == b""


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.binary(min_size=12, max_size=12), max_size=12), st.integers(0, 5000))
def test_hostile_headers_raise_nothing(headers, octets):
    sender, receiver = Sender(message(octets)), Receiver()
    for raw in headers:
        mad = sender.segment(1)
        mad[RMPP_HEADER : RMPP_HEADER + 12] = np.frombuffer(raw, np.uint8)
        for end in (sender, receiver):
            out, _ = end.step(1, [mad])
            assert len(out) <= 64 + 2 and all(m.shape == (256,) for m in out)
