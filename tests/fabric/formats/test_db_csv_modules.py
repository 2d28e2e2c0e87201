"""CABLE_INFO in the words of ibdiagnet's own reader: units by hand, alarms, passive cables, and
hostile fields. (Made-up sections: no real file with them could be had.)"""

from pathlib import Path

import numpy as np
import pytest

from softib.fabric.formats import registry
from softib.monitor.module_levels import module_levels

FILE = "sequoia-ndr-ibdiagnet/data__ibdiagnet2__ibdiagnet2.db_csv"
HEAD = "NodeGuid,PortGuid,PortNum,Vendor,Temperature,SupplyVoltageReporting,RX1Power,RX2Power,TX1Bias,TX1Power,TX2Power,AlarmTemperatureHighThresh,RXPowerLowThresh,TXPowerLowThresh,TXBiasHighThresh"
GUID, PORT = "0xb0cf0e0300d33fc0", 2


@pytest.fixture
def read(shared_data: Path, tmp_path: Path):
    def of(row: str):
        made = f"START_CABLE_INFO\n{HEAD}\n{GUID},0x0,{PORT},M,{row}\nEND_CABLE_INFO\n"
        text = (shared_data / FILE).read_text()
        (tmp_path / "f").write_text(text.replace("START_INDEX_TABLE", made + "START_INDEX_TABLE"))
        result = registry.read(tmp_path / "f")
        f = result.fabric
        port = int(f.port(int(np.flatnonzero(f.node_guid == np.uint64(int(GUID, 16)))[0]), PORT))
        return {k: float(v[0]) for k, v in module_levels(f.module_info[[port]]).items()}, result

    return of


@pytest.mark.parametrize(
    "row",
    [
        '45C,3300.0 mV,"0.500 mW, -3.010 dBm","0.400 mW, -3.979 dBm",6.500 mA,"1.000 mW, 0.000 dBm","0.900 mW, '
        '-0.458 dBm",75C,"0.100 mW, -10.000 dBm",-7 dBm,12.000 mA',
        "45,3.3,5000,4000,6.5,10000,9000,75,1000,1995,12.0",
        "45 C,3.3 V,500 uW,400 uW,6500 uA,1.0 mW,0.9 mW,75 C,-10.0 dBm,-7.0 dBm,12 mA",
    ],
)
def test_one_module_in_three_ways_of_writing(read, row):
    told, result = read(row)
    assert told["module_temperature_c"] == 45 and told["module_voltage_v"] == pytest.approx(3.3)
    assert (
        told["module_rx_power_dbm"] == pytest.approx(-3.98, abs=0.01) and told["module_rx_lane"] == 1
    )  # the weaker of two lanes
    assert told["module_tx_power_dbm"] == pytest.approx(-0.458, abs=0.01) and told[
        "module_tx_bias_ma"
    ] == pytest.approx(6.5)
    assert told["module_temperature_high_c"] == 75 and told["module_rx_power_low_dbm"] == pytest.approx(-10)
    assert told["module_tx_power_low_dbm"] == pytest.approx(-7, abs=0.03) and told["module_tx_bias_high_ma"] == 12
    assert not [p for p in result.problems if "CABLE_INFO" in p.reason] and "modules" in result.fabric.source.records


def test_a_copper_cable_measures_nothing(read):
    told, result = read(
        'N/A,N/A,"0.000 mW, -999.999 dBm","0.000 mW, -999.999 dBm",0.000 mA,"0.000 mW, -999.999 '
        'dBm",N/A,N/A,N/A,N/A,N/A'
    )
    assert all(np.isnan(v) for v in told.values()) and not [p for p in result.problems if "CABLE_INFO" in p.reason]


def test_what_is_no_reading_is_a_problem_and_the_rest_is_kept(read):
    told, result = read("45,99 furlongs,much,4000,-3,1e9 mW,9000,nan,0x3e8,1995,12.0")
    assert told["module_rx_power_dbm"] == pytest.approx(-3.98, abs=0.01) and told[
        "module_rx_power_low_dbm"
    ] == pytest.approx(-10)
    said = [p.reason for p in result.problems if "is not a module reading" in p.reason]
    assert {s.split(": ")[1].split()[0] for s in said} >= {"RX1Power", "AlarmTemperatureHighThresh"}
    assert all("\n" not in s for s in said)
