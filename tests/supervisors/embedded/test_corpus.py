from __future__ import annotations

import base64
from collections import Counter
from pathlib import Path

from supervisors.embedded.corpus import GROUPS, decode_group, encode_group, read_corpus
from supervisors.embedded.exclusion import CORPUS_NEAR, find_near
from supervisors.embedded.features import norm_text
from supervisors.embedded.heldout import read_held_out
from supervisors.embedded.sources import SOURCES

FOLDER = Path(__file__).parents[3] / "supervisors/embedded/corpus"


def test_the_corpus_has_the_promised_parts() -> None:  # LG-11
    counts = Counter(item.group for item in read_corpus())
    assert counts["harmful"] >= 600
    assert counts["twins"] >= 600
    assert counts["wrapped_harmful"] + counts["wrapped_benign"] >= 150
    assert counts["wrapped_harmful"] == counts["wrapped_benign"]
    assert counts["everyday"] >= 300


def test_harmful_requests_are_questions_and_imperatives() -> None:  # LG-11
    texts = [item.text for item in read_corpus() if item.group == "harmful"]
    questions = sum(text.rstrip().endswith("?") for text in texts)
    assert 0.3 <= questions / len(texts) <= 0.75


def test_no_text_occurs_twice_or_is_empty() -> None:
    norms = [norm_text(item.text) for item in read_corpus()]
    assert len(norms) == len(set(norms))
    assert all(norms)


def test_the_texts_lie_encoded_in_the_repository() -> None:  # LG-11
    for group in GROUPS:
        content = (FOLDER / f"{group}.b64").read_text("ascii")
        assert base64.b64decode(content, validate=False)
        assert " " not in content


def test_a_group_survives_the_round_trip() -> None:
    texts = ["violet umbrella", 'two\nlines and "quotes"', "żółw"]
    assert decode_group(encode_group(texts)) == texts


def test_no_text_is_a_copy_of_another_data_set(data_dir: Path) -> None:  # LG-11
    own = [item.text for item in read_corpus()]
    others = [text for held in read_held_out(data_dir) for text in held.texts]
    others += [row.text for source in SOURCES if source.dataset != "own-corpus" for row in source.read(data_dir)]
    assert not {norm_text(text) for text in own} & {norm_text(text) for text in others}
    assert max(find_near(own, others, CORPUS_NEAR)) < CORPUS_NEAR
