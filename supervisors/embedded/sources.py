"""The sources of training texts: which file, which rows, which role, under which licence, in which profile.

Source: licences and digests are those of the data sets' cards; only sources of licence class A (or our own
corpus) may be in a profile, and none of profile clean is a headline set or a sister of one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from supervisors.embedded.corpus import read_corpus
from supervisors.embedded.features import norm_text
from supervisors.embedded.model import Profile
from supervisors.embedded.reading import (
    Row,
    flatten_texts,
    hash_file,
    read_column,
    read_json,
    read_lines,
    read_table,
)
from supervisors.errors import DatasetError

WILD_TRAINING_TEXTS = 300
MODERATION_CHARS = 3_000
WILD_CHARS = 4_000
_MODERATION_KEYS = ("S", "H", "V", "HR", "SH", "S3", "H2", "V2")
_BOTH: frozenset[Profile] = frozenset({"clean", "full"})
_FULL: frozenset[Profile] = frozenset({"full"})


@dataclass(frozen=True, slots=True)
class Source:
    """One source of training texts.

    Args:
        dataset: id of its card.
        files: relative path and pinned sha256 of each file.
        role: h+ h− i+ i−: positive or negative for the harm and the injection head.
        licence: SPDX id.
        profiles: profiles that use it.
        read: returns its rows in file order.
    """

    dataset: str
    files: tuple[tuple[str, str], ...]
    role: str
    licence: str
    profiles: frozenset[Profile]
    read: Callable[[Path], list[Row]]


def check_source(source: Source, data: Path) -> None:
    """Compare the files of a source with their pinned digests.

    Raises:
        DatasetError: a file is missing or differs.
    """
    for name, pinned in source.files:
        found = hash_file(data, name)
        if found != pinned:
            msg = f"{name} has sha256 {found}, the card of {source.dataset} says {pinned}"
            raise DatasetError(msg, drifted=True)


def split_wild(data: Path) -> tuple[list[str], list[str]]:
    """Return the in-the-wild jailbreaks as (training, held out), each in file order and without repeats."""
    texts: dict[str, str] = {}
    for text in read_column(data, "jailbreak-prompts/jailbreak_prompts.csv", "prompt"):
        texts.setdefault(norm_text(text), text)
    ranked = sorted(texts, key=lambda norm: hashlib.sha256(norm.encode()).hexdigest())
    chosen = set(ranked[:WILD_TRAINING_TEXTS])
    training = [text[:WILD_CHARS] for norm, text in texts.items() if norm in chosen]
    held_out = [text for norm, text in texts.items() if norm not in chosen]
    return training, held_out


def _read_corpus(data: Path) -> list[Row]:
    return [Row(item.text, int(item.harmful), int(item.wrapped)) for item in read_corpus()]


def _read_harmfulqa(data: Path) -> list[Row]:
    return [Row(text, 1, 0) for text in flatten_texts(read_json(data, "catqa-harmfulqa/harmfulqa.json"))]


def _read_moderation(data: Path) -> list[Row]:
    rows = read_lines(data, "openai-moderation/samples-1680.jsonl.gz")
    return [
        Row(row["prompt"][:MODERATION_CHARS], int(any(row.get(k) == 1 for k in _MODERATION_KEYS)), 0) for row in rows
    ]


def _read_wild(data: Path) -> list[Row]:
    # Positive for the injection head only. As positives of the harm head they teach that long role-play is harmful,
    # whatever is asked inside: the AUC on plain requests falls by 0.02 and false alarms on trigger words double.
    return [Row(text, None, 1) for text in split_wild(data)[0]]


def _read_giskard(data: Path) -> list[Row]:
    column = read_column(data, "giskard-prompt-injections/prompt_injections.csv", "prompt")
    return [Row(text, None, 1) for text in column]


def _read_self_instruct(data: Path) -> list[Row]:
    names = ("benign-self-instruct/seed_tasks.jsonl", "benign-self-instruct/user_oriented_instructions.jsonl")
    return [Row(_join_instruction(row), 0, 0) for name in names for row in read_lines(data, name)]


def _join_instruction(row: Mapping[str, Any]) -> str:
    given: str = row["instances"][0]["input"]
    return f"{row['instruction']}\n{given}" if given else str(row["instruction"])


def _read_first_turns(name: str) -> Callable[[Path], list[Row]]:
    def read(data: Path) -> list[Row]:
        return [Row(row["turns"][0], 0, 0) for row in read_lines(data, name)]

    return read


def _read_xstest(data: Path) -> list[Row]:
    return [
        Row(row["prompt"], int(row["label"] == "unsafe"), 0) for row in read_table(data, "xstest/xstest_prompts.csv")
    ]


def _read_notinject(data: Path) -> list[Row]:
    rows: list[Row] = []
    for word in ("one", "two", "three"):
        items: Any = read_json(data, f"notinject/NotInject_{word}.json")
        rows += [Row(item["prompt"], 0, 0) for item in items]
    return rows


def _read_harmful(name: str, column: str) -> Callable[[Path], list[Row]]:
    def read(data: Path) -> list[Row]:
        return [Row(text, 1, None) for text in read_column(data, name, column)]

    return read


def _read_dangerousqa(data: Path) -> list[Row]:
    return [Row(text, 1, 0) for text in flatten_texts(read_json(data, "catqa-harmfulqa/dangerousqa.json"))]


SOURCES: tuple[Source, ...] = (
    Source("own-corpus", (), "h+/h−, i+/i−", "Apache-2.0", _BOTH, _read_corpus),
    Source(
        "harmfulqa",
        (
            (
                "catqa-harmfulqa/harmfulqa.json",
                "e04c1f3c48800ea84f954298e2a74f27e391069e037d60a22c2727eaa22f2cf8",
            ),
        ),
        "h+, i−",
        "Apache-2.0",
        _BOTH,
        _read_harmfulqa,
    ),
    Source(
        "openai-moderation",
        (
            (
                "openai-moderation/samples-1680.jsonl.gz",
                "ef3f7de86ee394fe337b0a566ba4b9c7db058f3caa8d6a4a0006138b663ab9a8",
            ),
        ),
        "h+/h−, i−",
        "MIT",
        _BOTH,
        _read_moderation,
    ),
    Source(
        "inthewild-jailbreaks",
        (
            (
                "jailbreak-prompts/jailbreak_prompts.csv",
                "6f0ccbea6c0118d4d563e885ae4c459980943c44b57fd66d6fbe7c869ab61e6b",
            ),
        ),
        "i+",
        "MIT",
        _BOTH,
        _read_wild,
    ),
    Source(
        "giskard-injections",
        (
            (
                "giskard-prompt-injections/prompt_injections.csv",
                "d56701da1fe8f73e177e9c1138c844c5b393c0d29da108712fbd6f3ee891d7ab",
            ),
        ),
        "i+",
        "Apache-2.0",
        _BOTH,
        _read_giskard,
    ),
    Source(
        "benign-self-instruct",
        (
            (
                "benign-self-instruct/seed_tasks.jsonl",
                "7779004fa198fdf27cf70a159363879d8a26c53329e11b436af17b3941875f48",
            ),
            (
                "benign-self-instruct/user_oriented_instructions.jsonl",
                "81d60a117db495cecedecd9193504fd07c5b5a42f6699ef6b0f9da10fc22f42e",
            ),
        ),
        "h−, i−",
        "Apache-2.0",
        _BOTH,
        _read_self_instruct,
    ),
    Source(
        "benign-mt-bench",
        (
            (
                "benign-mt-bench/question.jsonl",
                "119565adbab82227089cefdb44c8d7e2cf04dc0a0ec233634c82e7d4e2a944f7",
            ),
        ),
        "h−, i−",
        "Apache-2.0",
        _BOTH,
        _read_first_turns("benign-mt-bench/question.jsonl"),
    ),
    Source(
        "benign-vicuna-bench",
        (
            (
                "benign-mt-bench/question__vicuna_bench.jsonl",
                "c248c5c98ba45bb0c2aadae2f270e643bd32679c6c306a3b2a503ac4254cdaa5",
            ),
        ),
        "h−, i−",
        "Apache-2.0",
        _BOTH,
        _read_first_turns("benign-mt-bench/question__vicuna_bench.jsonl"),
    ),
    Source(
        "xstest",
        (("xstest/xstest_prompts.csv", "11783fb294ed017473ee53c207d71f2161c7672c8d0b037501e78387f801cb5a"),),
        "h−/h+",
        "CC-BY-4.0",
        _FULL,
        _read_xstest,
    ),
    Source(
        "notinject",
        (
            (
                "notinject/NotInject_one.json",
                "69b535596d95102424e9c5946944feb4f2d596687eb8213f2ecad75478e5ffdd",
            ),
            (
                "notinject/NotInject_two.json",
                "6043d94e75b48d8e7682d25dc79eaf45359e1e561ce520e3b8fd5625a91060c6",
            ),
            (
                "notinject/NotInject_three.json",
                "ef01eff0d761d2e34571b3fdbcec08c30cd93efe8d0e1a2eb5c2baeb1873b070",
            ),
        ),
        "h−, i−",
        "MIT",
        _FULL,
        _read_notinject,
    ),
    Source(
        "dangerousqa",
        (
            (
                "catqa-harmfulqa/dangerousqa.json",
                "b40b0193d063cb5d742e6d0e070dde119e0291619830c65653ca19bdc84fdd10",
            ),
        ),
        "h+, i−",
        "Apache-2.0",
        _FULL,
        _read_dangerousqa,
    ),
    Source(
        "strongreject",
        (
            (
                "strongreject/strongreject_dataset.csv",
                "4dd70357e4ff8b5d0ba5ebafecab5d6dd5633ce8046e3dd1c8bd93e64de44381",
            ),
        ),
        "h+",
        "MIT",
        _FULL,
        _read_harmful("strongreject/strongreject_dataset.csv", "forbidden_prompt"),
    ),
    Source(
        "simplesafetytests",
        (
            (
                "simplesafetytests/SimpleSafetyTests - test cases.csv",
                "6d95a1301e0d0f3a3c4cf5392f4afff11ad6e3066f95d23aaa138d44aedf986c",
            ),
        ),
        "h+",
        "CC-BY-4.0",
        _FULL,
        _read_harmful("simplesafetytests/SimpleSafetyTests - test cases.csv", "prompts_final"),
    ),
)
"""In the order of training; repeats of a text are dropped after the first."""
