"""What "Fine-Grained End-Host Traffic Control" printed, as far as it is at hand; everything else is said to be missing. Pure.

Delays in microseconds. The 82599 is Intel's 10 Gb/s NIC that obeys PFC in hardware, SDD the thesis's software on DPDK, NFP a
network processor.
"""

from __future__ import annotations

from typing import Any

SOURCE = "Fine-Grained End-Host Traffic Control; delays of an Intel 82599 (PFC), of SDD on DPDK, and of an NFP"
ROWS: tuple[dict[str, Any], ...] = (
    {"mechanism": "PFC, 82599", "off_us": {"min": 1.0, "max": 2.2}, "on_us": {"min": 1.2, "max": 1.3}},
    {"mechanism": "SDD, DPDK", "off_us": {"mean": 10.0, "range": 4.0}, "on_us": {"mean": 12.0, "range": 4.0}},
    {"mechanism": "NFP, 16 queues, 64 B", "off_us": {"mean": 2.48, "std": 1.26}, "on_us": {"mean": 4.40, "std": 1.47}},
)
TABLES = {
    "4.1 to 4.5": "the rows by packet size and number of flows are not at hand; only the means and ranges above",
    "5.1": "the NFP's means and deviations above; its percentiles are not at hand",
    "4.6, 4.7": "throughput with and without the control: numbers not at hand",
}
RESIDUAL = {
    "2.4 to 2.7": "8 to 9 packets of the packet buffer after a remapping, then 1 to 2 in 500 to 800 of a rate-limited ring",
}
RESULT = (
    "PFC (82599) off 1.0 to 2.2 us, on 1.2 to 1.3; SDD means 10 and 12, range about 4; NFP 2.48 +- 1.26 and 4.40 +- 1.47; "
    "8 to 9 residual packets after a remapping"
)


def record() -> dict[str, Any]:
    """All of it, for a result's JSON."""
    return {"source": SOURCE, "result": RESULT, "rows": list(ROWS), "tables": TABLES, "residual": RESIDUAL}
