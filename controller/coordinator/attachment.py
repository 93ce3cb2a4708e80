"""Warns of a coordinator whose attachment the fabric does not have: no host hears it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from controller.members.part import Part


class Attachment(Part):
    """Tells what the OpenFlow application says of the coordinator's attachment.

    Args:
        write: takes a line for the store bridge.
    """

    def __init__(self, write: Callable[[dict[str, Any]], object]) -> None:
        self.documents = {"fabric": self._on_fabric}
        self._write = write
        self._fault = ""

    def warnings(self) -> list[str]:
        return [self._fault] if self._fault else []

    def _on_fabric(self, document: Mapping[str, Any], _: int) -> None:
        before, self._fault = self._fault, str(document.get("attachment", ""))
        if self._fault and self._fault != before:
            self._write({"event": ["attachment", "error", self._fault]})
