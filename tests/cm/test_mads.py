"""Wireshark's dissector as oracle of the messages of communication management."""

from __future__ import annotations

import random
import shutil
import subprocess

import numpy as np
import pytest

from softib.cm.endpoint import cma_header
from softib.iba import cm
from softib.iba.mad_codec import cm_mad, codec, parse_cm
from softib.live.rdma_cm.wire import HEADER, layout
from tests.iba.lab import dissect, mad_packet, number

NAMES = {
    cm.REQ: ("cm.req", {
        "service_id": "serviceid", "local_ca_guid": "localcaguid",
        "local_qkey": "localqkey", "local_qpn": "localqpn", "responder_resources": "responderres",
        "local_eecn": "localeecn", "initiator_depth": "initdepth", "remote_eecn": "remoteeecn",
        "remote_cm_response_timeout": "remoteresptout", "transport_service_type": "transpsvctype",
        "end_to_end_flow_control": "e2eflowctrl", "starting_psn": "startpsn",
        "local_cm_response_timeout": "localresptout", "retry_count": "retrcount", "pkey": "pkey",
        "path_mtu": "pppmtu", "rdc_exists": "rdcexist", "rnr_retry_count": "rnrretrcount",
        "max_cm_retries": "maxcmretr", "srq": "srq",
        "extended_transport_type": "ext_transport", "primary_local_lid": "prim_locallid",
        "primary_remote_lid": "prim_remotelid", "primary_traffic_class": "prim_tfcclass",
        "primary_hop_limit": "prim_hoplim", "primary_sl": "prim_sl", "primary_subnet_local": "prim_subnetlocal",
        "primary_local_ack_timeout": "prim_localacktout"}),
    cm.REP: ("cm.rep", {
        "remote_comm_id": "remotecommid", "local_qkey": "localqkey",
        "local_qpn": "localqpn", "local_eecn": "localeecn", "starting_psn": "startpsn",
        "responder_resources": "respres", "initiator_depth": "initdepth", "target_ack_delay": "tgtackdelay",
        "failover_accepted": "failoveracc", "end_to_end_flow_control": "e2eflowctrl",
        "rnr_retry_count": "rnrretrcount", "srq": "srq", "local_ca_guid": "localcaguid"}),
    cm.REJ: ("cm.rej", {
        "local_comm_id": "localcommid", "remote_comm_id": "remotecommid", "message": "msgrej",
        "info_length": "rejinfolen", "reason": "reason"}),
    cm.RTU: ("cm.rtu", {"local_comm_id": "localcommid", "remote_comm_id": "remotecommid"}),
    cm.DREQ: ("cm.dreq", {"local_comm_id": "localcommid", "remote_comm_id": "remotecommid"}),
    cm.DREP: ("cm.drsp", {"local_comm_id": "localcommid", "remote_comm_id": "remotecommid"}),
}  # fmt: skip # a table, its columns aligned
"""Their name of a field; missing is what Wireshark 4.0 does not show, and the flow
label (20 bits, of which it takes 12) with the rate behind it (6 bits after 6 reserved ones: Linux ibta_vol1_c12.h)."""


@pytest.mark.stock
@pytest.mark.parametrize("message", NAMES, ids=lambda m: m.__name__)
def test_wireshark_reads_what_we_write(stock, tmp_path, message):
    rng = random.Random(message.attr)
    prefix, names = NAMES[message]
    said = [{f.name: rng.randrange(f.mask + 1) for f in message.named() if f.count == 1} for _ in range(10)]
    packets = [mad_packet(cm_mad(message.attr, 7, **row), 5, 6, 1) for row in said]
    for row, shown in zip(said, dissect(stock, tmp_path, packets), strict=True):
        assert number(shown["infiniband.mad.attributeid"][0]) == message.attr
        for ours, theirs in names.items():
            assert number(shown[f"infiniband.{prefix}.{theirs}"][0]) == row[ours], ours


@pytest.mark.stock
def test_wireshark_reads_the_addresses_in_the_private_data(stock, tmp_path):
    head = cma_header(bytes([127, 64, 0, 9]), bytes([127, 64, 1, 7]), 40000)
    mad = cm_mad(cm.CmAttr.REQ, 7, service_id=0x0106 << 16 | 7471, private_data=head + b"rest")
    (shown,) = dissect(stock, tmp_path, [mad_packet(mad, 5, 6, 1)])
    found = {k: shown[f"infiniband.cm.req.ip_cm.{k}"][0] for k in ("ipv", "sport", "sip4", "dip4")}
    assert found == {"ipv": "0x04", "sport": "0x9c40", "sip4": "127.64.0.9", "dip4": "127.64.1.7"}
    assert number(shown["infiniband.cm.req.serviceid.dport"][0]) == 7471


@pytest.mark.parametrize("message", [*cm.MESSAGES.values(), cm.CmaHeader], ids=lambda m: m.__name__)
def test_the_quick_codec_is_the_declaration(message):
    rng = random.Random(3)
    for _ in range(20):
        octets = rng.randbytes(message.size)
        quick = codec(message).unpack(octets)
        slow = {n: v for n, v in message.unpack(octets).items() if not n.startswith("_")}
        assert {n: list(v) if isinstance(v, bytes) else v for n, v in quick.items()} == slow
        packed = codec(message).pack(**quick)
        assert packed == bytes(message.pack(**{n: np.array(v) if isinstance(v, list) else v for n, v in slow.items()}))


def test_no_message_of_ours():
    assert parse_cm(bytes(256)) is None
    assert parse_cm(b"\1\7\1\3" + bytes(252)) is None, "class version 1"


def test_the_header_is_what_the_compiler_makes_of_it(tmp_path):
    if shutil.which("gcc") is None:
        pytest.skip("no C compiler")
    source, program = tmp_path / "size.c", tmp_path / "size"
    lines = [f'#include "{HEADER.path}"', "#include <stddef.h>", "#include <stdio.h>", "int main(void) {"]
    sizes = {}
    for name in ("hello", "ask", "reply"):
        lines.append(f'printf("{name} %zu\\n", sizeof(struct softib_cm_{name}));')
        sizes[name] = layout(name).size
    source.write_text("\n".join([*lines, "return 0; }"]))
    subprocess.run(["gcc", "-o", str(program), str(source)], check=True)
    out = subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout.split()
    assert dict(zip(out[::2], map(int, out[1::2]), strict=True)) == sizes
