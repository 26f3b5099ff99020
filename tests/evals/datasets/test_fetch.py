"""Fetching: verified first, whole or not at all, never against a licence. The network is a fake."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
import respx

from evals.datasets.card import Card
from evals.datasets.fetch import FetchOptions, fetch, file_url
from evals.datasets.load import how_to_obtain
from supervisors.errors import DatasetError

BODY = b"prompt\nviolet umbrella\n"
REVISION = "0123456789abcdef0123456789abcdef01234567"


def toy(**more: object) -> Card:
    pin = {
        "name": "toy/a b.csv",
        "path": "data/a b.csv",
        "sha256": [hashlib.sha256(BODY).hexdigest()],
        "container": "csv",
    }
    facts: dict[str, object] = {
        "id": "toy",
        "title": "Toy",
        "licence": "MIT",
        "licence_class": "A",
        "source": {"kind": "hub", "repo": "some/set", "revision": REVISION},
        "columns": {"prompt": ["prompt"]},
        "label": {"rule": "none", "meaning": "m"},
        "files": [pin],
    }
    return Card.model_validate(facts | more)


def files_below(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*"))


@pytest_asyncio.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient() as opened:
        yield opened


@respx.mock
async def test_a_file_arrives_whole_with_its_licence_beside_it(tmp_path: Path, client: httpx.AsyncClient) -> None:
    route = respx.get(file_url(toy(), "data/a b.csv")).respond(content=BODY)  # DS-13
    first = await fetch(toy(), tmp_path, client, FetchOptions())
    again = await fetch(toy(), tmp_path, client, FetchOptions())
    assert [one.how for one in (*first, *again)] == ["downloaded", "kept"]
    assert route.call_count == 1
    assert (tmp_path / "toy" / "a b.csv").read_bytes() == BODY
    assert "Licence: MIT (class A)" in (tmp_path / "toy" / "a b.csv.licence.txt").read_text()
    assert files_below(tmp_path / "toy") == ["a b.csv", "a b.csv.licence.txt"]


@respx.mock
async def test_other_bytes_are_never_written(tmp_path: Path, client: httpx.AsyncClient) -> None:  # DS-13
    respx.get(file_url(toy(), "data/a b.csv")).respond(content=b"something else")
    with pytest.raises(DatasetError, match="nothing was written") as caught:
        await fetch(toy(), tmp_path, client, FetchOptions())
    assert caught.value.drifted
    assert files_below(tmp_path) == []


@respx.mock
async def test_the_cache_is_keyed_by_revision_and_serves_offline(tmp_path: Path, client: httpx.AsyncClient) -> None:
    route = respx.get(file_url(toy(), "data/a b.csv")).respond(content=BODY)  # H-42
    cache = tmp_path / "cache"
    await fetch(toy(), tmp_path / "one", client, FetchOptions(cache=cache))
    found = await fetch(toy(), tmp_path / "two", client, FetchOptions(cache=cache, offline=True))
    assert found[0].how == "cached"
    assert (cache / REVISION / "toy" / "a b.csv").read_bytes() == BODY
    assert route.call_count == 1


async def test_offline_opens_no_connection(tmp_path: Path, client: httpx.AsyncClient) -> None:  # DS-13
    with respx.mock(assert_all_called=False) as network, pytest.raises(DatasetError, match="--offline forbids"):
        await fetch(toy(), tmp_path, client, FetchOptions(offline=True))
    assert network.calls.call_count == 0


@respx.mock
@pytest.mark.parametrize(
    ("status", "headers", "message"),
    [
        (401, {}, "accept the terms at https://huggingface.co/datasets/some/set"),
        (403, {}, "accept the terms at"),
        (429, {"retry-after": "30"}, "try again in 30 s"),
        (404, {}, "answered with status 404"),
    ],
)
async def test_a_refusal_says_what_to_do(
    status: int, headers: dict[str, str], message: str, tmp_path: Path, client: httpx.AsyncClient
) -> None:
    respx.get(file_url(toy(), "data/a b.csv")).respond(status, headers=headers)
    with pytest.raises(DatasetError, match=message):
        await fetch(toy(), tmp_path, client, FetchOptions())


@respx.mock
async def test_a_broken_connection_is_our_error(tmp_path: Path, client: httpx.AsyncClient) -> None:
    respx.get(file_url(toy(), "data/a b.csv")).mock(side_effect=httpx.ConnectError("down"))
    with pytest.raises(DatasetError, match="cannot be fetched: ConnectError") as caught:
        await fetch(toy(), tmp_path, client, FetchOptions())
    url = file_url(toy(), "data/a b.csv")
    assert f"put {url} at {tmp_path / toy().files[0].name} by hand" in str(caught.value)


async def test_a_licence_must_be_accepted_by_name(tmp_path: Path, client: httpx.AsyncClient) -> None:  # DS-04
    card = toy(licence="CC-BY-NC-4.0", licence_class="C")
    with pytest.raises(DatasetError, match="--accept-licence toy"):
        await fetch(card, tmp_path, client, FetchOptions(offline=True))
    with pytest.raises(DatasetError, match="--offline forbids"):
        await fetch(card, tmp_path, client, FetchOptions(offline=True, accepted_licences=("toy",)))


async def test_a_set_without_an_address_says_where_to_put_it(tmp_path: Path, client: httpx.AsyncClient) -> None:
    with pytest.raises(DatasetError, match=r"no address is pinned; place data/a b.csv as .*a b.csv"):
        await fetch(toy(source={"kind": "local"}), tmp_path, client, FetchOptions())


async def test_a_file_of_the_users_is_not_overwritten(tmp_path: Path, client: httpx.AsyncClient) -> None:
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "a b.csv").write_bytes(b"mine")
    with pytest.raises(DatasetError, match="move it away first"):
        await fetch(toy(), tmp_path, client, FetchOptions())
    assert (tmp_path / "toy" / "a b.csv").read_bytes() == b"mine"


def packaged(**source: str) -> Card:
    return toy(source={"kind": "package", "repo": "toy-data", "revision": "1.2.3", **source})


@pytest.fixture
def installed(tmp_path: Path) -> Iterator[Path]:
    """Return the folder of an installed package that carries the file."""
    site = tmp_path / "site"
    (site / "toy_data-1.2.3.dist-info").mkdir(parents=True)
    (site / "toy_data-1.2.3.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: toy-data\nVersion: 1.2.3\n"
    )
    (site / "data").mkdir()
    (site / "data" / "a b.csv").write_bytes(BODY)
    sys.path.insert(0, str(site))
    yield site
    sys.path.remove(str(site))


async def test_a_file_of_an_installed_package_is_copied_without_a_connection(
    tmp_path: Path, installed: Path, client: httpx.AsyncClient
) -> None:  # DS-13, DS-24
    (first,) = await fetch(packaged(), tmp_path / "out", client, FetchOptions(offline=True))
    assert first.how == "copied"
    assert first.path.read_bytes() == BODY
    (installed / "data" / "a b.csv").write_bytes(b"another")
    with pytest.raises(DatasetError, match="nothing was written"):
        await fetch(packaged(), tmp_path / "new", client, FetchOptions())


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ({"repo": "no-such-toy-data"}, "not installed: pip install --no-deps no-such-toy-data==1.2.3"),
        ({"revision": "2.0.0"}, "version 1.2.3 is installed: pip install --no-deps toy-data==2.0.0"),
    ],
)
async def test_a_missing_package_is_named_with_its_version(
    tmp_path: Path, installed: Path, client: httpx.AsyncClient, source: dict[str, str], said: str
) -> None:
    assert installed
    with pytest.raises(DatasetError, match=said):
        await fetch(packaged(**source), tmp_path / "out", client, FetchOptions())
    assert "then evals data fetch toy" in how_to_obtain(packaged(**source))
