"""What an application that takes over knows of hosts before it has seen a frame."""

from __future__ import annotations

from controller.openflow.intake.hosts import PortRef
from controller.openflow.learned import Inherited, inherited_hosts
from controller.openflow.view import Port, Switch, View

VIEW = View({1: Switch(1, "s1", {2: Port(2, "s1-eth2", up=True)})}, (), frozenset({PortRef(1, 2)}), {})


def document(*hosts: dict[str, object]) -> dict[str, object]:
    return {"hosts": list(hosts)}


class TestInheritedHosts:
    """By the ports' names."""

    def test_a_host_is_found_with_each_of_its_addresses(self) -> None:
        host = {"switch": "s1", "port": "s1-eth2", "macs": ["m"], "addresses": ["a", "b"]}
        assert list(inherited_hosts(document(host), VIEW)) == [Inherited(PortRef(1, 2), "m", a) for a in ("a", "b")]

    def test_of_several_machines_at_a_port_no_addresses_are_guessed(self) -> None:
        host = {"switch": "s1", "port": "s1-eth2", "macs": ["m", "n"], "addresses": ["a"]}
        assert [(each.mac, each.address) for each in inherited_hosts(document(host), VIEW)] == [("m", None), ("n", None)]

    def test_a_port_that_is_not_there_and_a_missing_document_give_nothing(self) -> None:
        host = {"switch": "s9", "port": "s1-eth2", "macs": ["m"], "addresses": ["a"]}
        assert list(inherited_hosts(document(host), VIEW)) == [] == list(inherited_hosts(None, VIEW))
