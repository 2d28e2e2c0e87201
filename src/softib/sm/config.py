"""All settings of the subnet manager, with OpenSM's names for those that OpenSM has (``opensm
-c``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from softib.errors import InputError
from softib.iba.constants import DEFAULT_GID_PREFIX
from softib.mad.transactor import RETRIES, TIMEOUT_PS, WINDOW
from softib.routing.engine import DEFAULT_ENGINE, WITHOUT_LANES, RouteOptions, chain
from softib.sm.managers.congestion_mgr import CC_OPTIONS, CongestionConfig, congestion_config
from softib.sm.managers.partitions import DEFAULT_PARTITIONS, Partition
from softib.sm.managers.qos_policy import QosPolicy
from softib.sm.managers.router_mgr import PrefixRoute
from softib.sm.options.link import LINK_OPTIONS, LinkPolicy, link_policy
from softib.sm.options.qos import QOS_OPTIONS, QosConfig, qos_config
from softib.sm.options.softib_options import (
    SOFTIB_OPTIONS,
    AggregationConfig,
    ArConfig,
    ChangeConfig,
    FlapConfig,
    aggregation_config,
    ar_config,
    change_config,
    flap_config,
)

__all__ = ["SmConfig", "config_of"]

MAX_LMC = 7


@dataclass(frozen=True)
class SmConfig:
    """Defaults are OpenSM's (3.3.23), except for the engine (docs/decisions/0007).

    * ``window``: maximum number of SMPs on the wire.
    * ``chunk``: maximum number of MADs in an outbox, so that it fits in the processor's cache.
    * ``timeout_ps`` and ``retries`` apply to each SMP.
    * ``lmc``: every CA port gets 2^lmc LIDs (0-7).
    * ``hoq_life`` and ``vl_stall_count`` apply to ports between switches; those with prefix
      ``leaf_`` apply to switch ports towards CAs.
    * ``subnet_timeout``, ``hoq_life``, ``packet_life_time``: 4.096 us * 2^n.
    * ``max_op_vls``: largest OperationalVLs code.
    * ``subnet_prefix``: GidPrefix of every end port.
    * ``priority``: priority in SMInfo.
    * ``sm_key``: key in SMInfo; managers with another key are ignored.
    * ``sa_key``: the SA trusts requests with this SM_Key (OpenSM's default).
    * ``mkey_lease``: seconds after which a port clears its M_Key when it received a wrong one; 0 =
      never.
    * ``mkey_protect``: MKeyProtectBits (IBA 14.2.4.1).
    * ``mkey_lookup``: query a port first with the M_Key that it had before.
    * ``links``: widths and speeds that ports may train to; None leaves them unchanged.
    * ``flaps``: conditions under which ports are disabled for some time; None: never.
    * ``changes``: the order in which forwarding tables are changed.
    * ``partitions``: None = program no partitions, so every device keeps the default partition.
    * ``allow_both_pkeys``: a port may be both a full and a limited member of a partition.
    * ``part_enforce``: the direction in which switch ports towards CAs check P_Keys: "both", "in" (from the CA),
      "out" or "off".
    * ``no_clients_rereg``: do not request client reregistration.
    * ``use_mfttop``: set MulticastFDBTop, so that switches ignore entries of their multicast tables above the MLIDs
      in use.
    * ``reassign_lids``: ignore stored LIDs, and LIDs that ports have when this manager becomes
      master.
    * ``sweep_interval_ps``: time between light sweeps, 0 = never (OpenSM: 10 s). A standby polls its master every
      ``polling_timeout_ps`` and takes over after ``polling_retries`` failed polls (sminfo_polling_timeout,
      polling_retry_number).
    * ``qos``: SLtoVL and VL arbitration tables of all ports; None = leave them unchanged, unless
      the engine needs them.
    * ``qos_policy``: QoS levels of the paths that the SA returns.
    * ``prefix_routes``: routers to other subnets; None: those that routers report.
    * ``congestion``: settings of congestion control of all devices; None leaves them unchanged.
    * ``ar``: adaptive routing of capable switches; None: off.
    * ``aggregation``: trees of aggregation nodes; None leaves these unchanged.

    Raises :class:`UnknownName` for an engine that does not exist, :class:`InputError` for an
    impossible LMC or window.
    """

    engine: str = DEFAULT_ENGINE
    options: RouteOptions = field(default_factory=RouteOptions)
    lmc: int = 0
    window: int = WINDOW
    chunk: int = 4096
    timeout_ps: int = TIMEOUT_PS
    retries: int = RETRIES
    mkey: int = 0
    mkey_lease: int = 0
    mkey_protect: int = 0
    mkey_lookup: bool = True
    sm_key: int = 1
    sa_key: int = 1
    subnet_prefix: int = DEFAULT_GID_PREFIX
    priority: int = 0
    partitions: Sequence[Partition] | None = None
    allow_both_pkeys: bool = False
    part_enforce: str = "both"
    no_clients_rereg: bool = False
    use_mfttop: bool = True
    reassign_lids: bool = False
    sweep_interval_ps: int = 0
    polling_timeout_ps: int = 10 * 10**12
    polling_retries: int = 4
    subnet_timeout: int = 18
    packet_life_time: int = 0x12
    hoq_life: int = 0x12
    leaf_hoq_life: int = 0x10
    vl_stall_count: int = 7
    leaf_vl_stall_count: int = 7
    max_op_vls: int = 5
    local_phy_errors: int = 8
    overrun_errors: int = 8
    links: LinkPolicy | None = None
    flaps: FlapConfig | None = None
    changes: ChangeConfig = field(default_factory=ChangeConfig)
    qos: QosConfig | None = None
    qos_policy: QosPolicy | None = None
    prefix_routes: tuple[PrefixRoute, ...] | None = None
    congestion: CongestionConfig | None = None
    ar: ArConfig | None = None
    aggregation: AggregationConfig | None = None

    @property
    def known_partitions(self) -> Sequence[Partition]:
        """The partitions of the file, or the default one."""
        return tuple(DEFAULT_PARTITIONS) if self.partitions is None else self.partitions

    @property
    def engines(self) -> str:
        """Return :attr:`engine`. If it is the default, engines that would need the SLs of
        partitions or QoS, and engines that are incompatible with adaptive routing, are omitted."""
        site_sls = any(p.sl or any(g.sl for g in p.groups) for p in self.known_partitions)
        taken = site_sls or self.qos is not None or self.qos_policy is not None or self.ar is not None
        return WITHOUT_LANES if taken and self.engine == DEFAULT_ENGINE else self.engine

    def __post_init__(self) -> None:
        chain(self.engine)
        if not 0 <= self.lmc <= MAX_LMC:
            raise InputError(f"lmc {self.lmc} is out of range; use an LMC of 0 to {MAX_LMC} (IBA 4.1.3)")
        if self.window < 1 or self.chunk < 1:
            raise InputError("window and chunk must be at least 1")


def config_of(fields: Mapping[str, Any]) -> SmConfig:
    """Return a configuration from fields of :class:`SmConfig`, and from groups of options that form
    one field each (``qos`` and ``qos_…``, ``congestion_control`` and ``cc_…``, ``adaptive_routing``
    and ``ar_…``, ``aggregation`` and ``aggregation_…``).

    Raises the errors of :class:`SmConfig`, and :class:`InputError` for an option that would have no effect.
    """
    parts = (
        "link_policy",
        *LINK_OPTIONS,
        *SOFTIB_OPTIONS,
        *QOS_OPTIONS,
        *CC_OPTIONS,
        "qos",
        "congestion_control",
        "aggregation",
    )
    plain = {name: value for name, value in fields.items() if name not in parts}
    return SmConfig(
        **plain,
        links=link_policy(fields),
        flaps=flap_config(fields),
        changes=change_config(fields),
        qos=qos_config(fields),
        congestion=congestion_config(fields),
        ar=ar_config(fields),
        aggregation=aggregation_config(fields),
    )
