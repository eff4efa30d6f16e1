"""Typed facts that are saved as JSON objects, and can be read by older and newer versions of the package."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

R = TypeVar("R", bound="Record")


@dataclass(frozen=True)
class Record:
    """Base of such facts.

    In JSON a field has its own name or that of its metadata, `field(metadata={"key": "hit@1"})`; metadata may also
    name the record that it holds, `{"record": Holdout}`. A field that is None by default is left out while it is None.
    Keys without a field, such as those of a newer version, are kept in `extra`.
    """

    extra: dict[str, Any] = field(default_factory=dict, kw_only=True)

    @classmethod
    def from_json(cls: type[R], saved: Mapping[str, Any]) -> R:
        """The record that `to_json` gave; a field without a default must be there."""
        values, rest = {}, dict(saved)
        for item in fields(cls):
            key = item.metadata.get("key", item.name)
            if item.name == "extra" or key not in rest:
                continue
            value, kind = rest.pop(key), item.metadata.get("record")
            values[item.name] = kind.from_json(value) if kind is not None and value is not None else value
        return cls(**values, extra=rest)

    def to_json(self) -> dict[str, Any]:
        told = dict(self.extra)
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name == "extra" or (value is None and item.default is None):
                continue
            told[item.metadata.get("key", item.name)] = value.to_json() if isinstance(value, Record) else value
        return told
