"""The metrics of a run, under the names of live traffic and with the label `run` (H-135).

The proxy of a run lives as long as the run, so its `/metrics` is written into the run's folder: Prometheus reads the
files of many runs through the textfile collector, and one chart shows them beside production.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from evals.client import Address
from evals.folder import write_file
from supervisors.errors import StoreError
from supervisors.transport import HttpClient, HttpRequest, TransportError

_SAMPLE = re.compile(r"([A-Za-z_:][A-Za-z0-9_:]*)(?:\{(.*)\})? ([^ ]+)")
_TIMEOUT_S = 5.0


def with_labels(text: str, labels: Mapping[str, str]) -> str:
    """Return an exposition with further labels on every sample, before its own."""
    added = ",".join([f'{name}="{_quoted(value)}"' for name, value in labels.items()])
    lines: list[str] = []
    for line in text.split("\n"):
        found = _SAMPLE.fullmatch(line)
        lines.append(line if found is None else f"{found[1]}{{{','.join(filter(None, (added, found[2])))}}} {found[3]}")
    return "\n".join(lines)


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


async def keep_metrics(client: HttpClient, addresses: Mapping[str, Address], folder: Path) -> None:
    """Write what each proxy of a run exposes; one that does not answer leaves its last file as it is."""
    for arm, address in addresses.items():
        if arm == "direct":
            continue
        url = f"{address.url.removesuffix('/v1')}/metrics"
        try:
            reply = await client.send(HttpRequest("GET", url, tuple(address.headers.items()), timeout_s=_TIMEOUT_S))
        except TransportError:
            continue
        if reply.status == 200:
            text = with_labels(reply.body.decode("utf-8"), {"run": folder.name, "arm": arm})
            with suppress(StoreError):  # a full disk stops the run where its results are written, and says so there
                await asyncio.to_thread(write_file, folder / f"metrics-{arm}.prom", text)


async def keep_metrics_while(
    client: HttpClient, addresses: Mapping[str, Address], folder: Path, every_s: float
) -> None:
    """Write them again and again until cancelled."""
    while True:
        await asyncio.sleep(every_s)
        await keep_metrics(client, addresses, folder)
