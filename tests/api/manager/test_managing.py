"""``softib.UmadManager`` without a device: what it refuses. On a running fabric: tests/live/umad_sm."""

from __future__ import annotations

import pytest

import softib


def test_settings_are_refused_before_a_device_is_looked_for(tmp_path):
    with pytest.raises(softib.UnreadableFile, match="absent"):
        softib.UmadManager("mlx9_9", sm_config=str(tmp_path / "absent"))
    with pytest.raises(softib.InputError, match="upsidedown"):
        softib.UmadManager("mlx9_9", manager={"engine": "upsidedown"})


def test_an_unknown_device_is_one_line(capfd):
    with pytest.raises(softib.InputError, match="no umad device") as refused:
        softib.UmadManager("mlx9_9")
    assert "\n" not in str(refused.value)
    assert capfd.readouterr() == ("", ""), "the library prints nothing"


def test_a_subnet_takes_no_ibnl(tmp_path):
    with pytest.raises(softib.InputError, match="--ibnl applies only to files"):
        softib.load("umad:mlx9_9", ibnl=[tmp_path])
