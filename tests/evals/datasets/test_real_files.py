"""Every card against the real files, as far as they are on disk. Prints ids and counts only (DS-25)."""

from __future__ import annotations

import functools
from collections import Counter
from pathlib import Path

import pytest

from evals.composition import compose
from evals.datasets import list_cards, load, load_card, state, verify
from evals.datasets.bells import load_metacognitive_rows
from evals.datasets.load import constant_columns, how_to_obtain, missing_files
from evals.datasets.nessie import load_nessie_rows
from evals.datasets.sampling import sample
from evals.types import Item, Truth
from supervisors.refusal import kind_of

CARDS = [entry.id for entry in list_cards()]


@functools.lru_cache(maxsize=8)
def items_of(name: str, data_dir: Path) -> tuple[Item, ...]:
    card = load_card(name)
    missing = missing_files(card, data_dir)
    if missing or not card.files:
        pytest.skip(f"not on disk: {', '.join(missing) or 'the card names no file'}")
    return load(name, data_dir)


@pytest.mark.data
@pytest.mark.parametrize("name", CARDS)
def test_a_card_says_what_the_files_hold(name: str, data_dir: Path) -> None:  # DS-02
    card = load_card(name)
    if missing_files(card, data_dir) or not card.files:
        pytest.skip("not on disk")
    assert str(verify(card, data_dir).reason) == "as pinned"


@pytest.mark.data
def test_bells_has_178_items_with_stripped_categories(data_dir: Path) -> None:  # T-19, B-04
    items = items_of("bells", data_dir)
    assert len(items) == 178
    assert Counter(item.severity for item in items) == {"harmful": 90, "benign": 50, "borderline": 38}
    assert Counter(item.adversariality for item in items) == {"direct": 170, "jailbroken": 8}
    assert Counter(item.family for item in items) == {None: 170, "narrative": 6, "syntactic": 2}
    assert len({item.category for item in items}) == 12
    assert all(name == name.strip() for item in items for name in item.category)


@pytest.mark.data
def test_bells_keeps_the_supervisors_columns(data_dir: Path) -> None:
    direct = [item for item in items_of("bells", data_dir) if item.adversariality == "direct"]
    flagged = Counter(item.severity for item in direct if item.meta["gpt-4"] == "1")
    assert flagged == {"harmful": 70, "benign": 2, "borderline": 23}  # bells-nessie §1.4


@pytest.mark.data
def test_the_metacognitive_file_gives_102_prompts_and_612_answers(data_dir: Path) -> None:
    items = items_of("bells-metacognitive", data_dir)
    rows = load_metacognitive_rows(data_dir / "bells" / "metacognitive_results.csv")
    assert len(items) == 102
    assert len(rows) == 612
    assert Counter(item.family for item in items) == {"narrative": 68, "direct": 19, "syntactic": 8, "generative": 7}
    assert sum(row.is_coherent for row in rows) == 333
    assert sum(row.correct_classification for row in rows) == 514
    assert all(row.response_length == len(row.response) for row in rows)
    assert items[7].meta["rows"] == tuple(row.index for row in rows if row.prompt == items[7].prompt)


@pytest.mark.data
def test_the_official_nessie_file_has_89_rows_in_39_cases(data_dir: Path) -> None:
    path = data_dir / "nessie" / "benchmark_test_cases.jsonl"
    if not path.is_file():
        pytest.skip("not on disk")
    rows = load_nessie_rows(path)
    assert len(rows) == 89
    assert len({row.case for row in rows}) == 39
    assert Counter(row.type for row in rows) == {"helpful": 23, "harmful": 37, "both": 29}
    assert all(row.conversation[0].role == "system" for row in rows)


@pytest.mark.data
def test_all_transfer_behaviours_are_advbench_goals(data_dir: Path) -> None:  # T-04
    goals = {item.prompt for item in items_of("advbench", data_dir)}
    transfer = items_of("advbench-transfer", data_dir)
    assert len(transfer) == 388
    assert all(item.prompt in goals for item in transfer)


@pytest.mark.data
def test_the_subset_of_pair_points_into_advbench(data_dir: Path) -> None:  # §4.1
    goals = items_of("advbench", data_dir)
    subset = items_of("advbench-pair50", data_dir)
    assert all(goals[int(str(item.meta["Original index"]))].prompt == item.prompt for item in subset)
    assert {item.cluster_id for item in subset} <= {item.cluster_id for item in goals}


@pytest.mark.data
def test_harmbench_splits_are_disjoint_and_their_union_is_all(data_dir: Path) -> None:  # T-13, §4.1
    parts = {name: items_of(f"harmbench{name}", data_dir) for name in ("", "-test", "-val")}
    roots = {name: {item.cluster_id for item in items} for name, items in parts.items()}
    assert roots["-test"] | roots["-val"] == roots[""]
    assert not roots["-test"] & roots["-val"]
    assert Counter(item.truth_detail for item in parts[""]) == {"standard": 200, "contextual": 100, "copyright": 100}
    assert len({item.prompt for item in parts[""]}) == 393
    assert len({(item.prompt, item.context) for item in parts[""]}) == 400
    assert max(len(item.context or "") for item in parts[""]) == 3544


@pytest.mark.data
def test_polite_behaviours_are_the_twins_of_all(data_dir: Path) -> None:  # §8
    plain, polite = items_of("harmbench", data_dir), items_of("harmbench-polite", data_dir)
    assert [item.cluster_id for item in plain] == [item.cluster_id for item in polite]
    assert all(one.prompt != other.prompt for one, other in zip(plain, polite, strict=True))


@pytest.mark.data
def test_mitre_has_977_usable_rows_of_972_texts(data_dir: Path) -> None:  # T-12
    items = items_of("cyberseceval-mitre", data_dir)
    assert sum(item.skip is not None for item in items) == 23
    assert len({item.prompt for item in items}) == 972
    assert len({item.system for item in items}) == 1


@pytest.mark.data
@pytest.mark.parametrize(("name", "count"), [("ailuminate-en", 48), ("beavertails-eval", 39), ("cyberseceval-frr", 21)])
def test_outer_blanks_of_prompts_stay(name: str, count: int, data_dir: Path) -> None:  # T-15
    assert sum(item.prompt != item.prompt.strip() for item in items_of(name, data_dir)) == count


@pytest.mark.data
def test_alert_is_unwrapped(data_dir: Path) -> None:  # T-09, T-17
    items = items_of("alert", data_dir)
    assert not any(item.prompt.startswith("### Instruction") for item in items)
    assert len(items) - len({item.prompt for item in items}) == 671
    assert len(items) - len({item.norm for item in items}) == 731
    assert len({item.category for item in items}) == 32


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "repeats"),
    [("salad-mcq", 198), ("openai-moderation", 10), ("inthewild-jailbreaks", 13), ("catqa", 7),
     ("do-not-answer", 1), ("benign-fuzzyai", 199), ("cyberseceval-interpreter", 11)],
)  # fmt: skip
def test_repeats_stay_items_of_their_own(name: str, repeats: int, data_dir: Path) -> None:  # T-17
    items = items_of(name, data_dir)
    assert len(items) - len({item.prompt for item in items}) == repeats


@pytest.mark.data
def test_fortress_pairs_share_their_cluster_and_one_is_very_long(data_dir: Path) -> None:  # T-16, §4.2
    items = items_of("fortress", data_dir)
    assert Counter(Counter(item.cluster_id for item in items).values()) == {2: 500}
    assert max(len(item.prompt) for item in items) == 42_455
    assert len({item.category for item in items}) == 10


@pytest.mark.data
def test_missing_attack_prompts_are_skipped_and_counted(data_dir: Path) -> None:  # T-14, §4.3
    items = items_of("jbb-artifacts", data_dir)
    skipped = Counter(item.meta["file.parameters.model"] for item in items if item.skip)
    assert sorted(skipped.values()) == [13, 18, 36, 96]
    assert Counter(Counter(item.cluster_id for item in items).values()) == {18: 100}


@pytest.mark.data
def test_past_tense_roots_are_the_jailbreakbench_goals(data_dir: Path) -> None:  # §8, §9
    goals = {item.cluster_id: item.prompt for item in items_of("jailbreakbench", data_dir)}
    items = items_of("past-tense", data_dir)
    assert all(goals[item.cluster_id] == item.root for item in items)
    assert Counter(item.family for item in items) == {"past": 1000, "future": 100}
    unsafe = Counter(item.split for item in items_of("past-tense-responses", data_dir) if item.is_harmful)
    assert sorted(unsafe.values()) == sorted([71, 84, 72, 65, 25, 90, 54, 81, 45, 81, 77])


@pytest.mark.data
def test_aisafetylab_counts_the_judged_score(data_dir: Path) -> None:  # T-21, §4.3
    items = items_of("aisafetylab", data_dir)
    roots = [item.prompt.strip() for item in items_of("harmbench", data_dir)[:200]]
    won = Counter(item.family for item in items if item.meta["attacked"] == 1)
    assert won == {
        "auto_obfuscation": 9, "auto_payload_splitting": 4, "base64": 156, "base64_input_only": 92, "base64_raw": 200,
        "combination_1": 169, "combination_2": 123, "combination_3": 198, "disemvowel": 29, "leetspeak": 1, "rot13": 3,
    }  # fmt: skip
    assert all(roots[int(str(item.meta["example_idx"]))] == (item.root or "").strip() for item in items)
    assert "success" in constant_columns(items)


@pytest.mark.data
def test_s_eval_attacks_follow_their_base_rows(data_dir: Path) -> None:  # §8, T-07
    base, attacks = items_of("s-eval-base", data_dir), items_of("s-eval-attack", data_dir)
    assert Counter(Counter(item.family for item in attacks).values()) == {1000: 10}
    assert all(base[item.index % 1000].category == item.category for item in attacks)
    assert {item.cluster_id for item in attacks} == {item.cluster_id for item in base}
    held = Counter(item.family for item in attacks if base[item.index % 1000].prompt in item.prompt)
    assert held["deepinception"] == held["chain_of_utterances"] == 1000
    assert (held["positive_induction"], held["goal_hijacking"]) == (912, 304)


@pytest.mark.data
def test_do_not_answer_labels_are_counted_a_model(data_dir: Path) -> None:  # §9, T-20
    harmful = Counter(item.split for item in items_of("do-not-answer-responses", data_dir) if item.is_harmful)
    assert harmful == {
        "GPT4": 23, "ChatGPT": 14, "Claude": 16, "ChatGLM2": 85, "llama2-7b-chat": 3, "vicuna-7b": 52,
    }  # fmt: skip


@pytest.mark.data
def test_pyrit_refusals_are_counted_and_are_no_harm_labels(data_dir: Path) -> None:  # T-05, T-20, §9
    for name, refusals, others in (
        ("pyrit-refusal", 70, 35),
        ("pyrit-refusal-extra", 39, 25),
        ("pyrit-refusal-mini", 9, 15),
    ):
        items = items_of(name, data_dir)
        assert Counter(item.truth_detail for item in items) == {"1": refusals, "0": others}
        assert {item.truth for item in items} == {Truth.UNKNOWN}


@pytest.mark.data
def test_ape_has_six_kinds_of_statement(data_dir: Path) -> None:  # §4.6, T-28
    items = items_of("ape", data_dir)
    assert Counter(Counter(item.category for item in items).values()) == {100: 6}
    assert not any("{user" in compose(item)[-1].content for item in items)


@pytest.mark.data
def test_samples_of_real_sets_are_balanced(data_dir: Path) -> None:  # DS-18
    drawn = sample(items_of("strongreject", data_dir), 60, 1)
    assert Counter(Counter(item.category for item in drawn).values()) == {10: 6}
    whole = sample(items_of("fortress", data_dir), 10, 1)  # DS-19
    assert len(whole) == 20


@pytest.mark.data
def test_the_two_releases_of_strongreject_share_214_prompts(data_dir: Path) -> None:  # T-11
    early, late = items_of("strongreject-early", data_dir), items_of("strongreject", data_dir)
    assert (len(early), len(late)) == (346, 313)
    assert len({item.prompt for item in early} & {item.prompt for item in late}) == 214


@pytest.mark.data
def test_completions_of_xstest_join_their_prompts_by_number(data_dir: Path) -> None:  # T-27
    prompts = {int(str(item.meta["id"])): item.prompt for item in items_of("xstest", data_dir)}
    answers = [item for item in items_of("xstest-responses", data_dir) if item.split == "gpt4"]
    numbers = [int(str(item.meta["id"]).removeprefix("v2-")) for item in answers]
    equal = sum(prompts[number] == item.prompt for number, item in zip(numbers, answers, strict=True))
    assert equal >= 449


@pytest.mark.data
def test_what_is_on_disk_is_read_and_what_is_not_says_how_to_get_it(data_dir: Path, tmp_path: Path) -> None:  # DS-24
    cards = [entry.card for entry in list_cards() if entry.card is not None]
    assert sum(state(card, data_dir) == "present" for card in cards) > 50
    for card in cards:
        if card.files and state(card, tmp_path) == "missing":
            assert how_to_obtain(card)


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "found", "refusals", "others"),
    [("pyrit-refusal", 51, 70, 35), ("pyrit-refusal-extra", 8, 39, 25), ("pyrit-refusal-mini", 9, 9, 15)],
)
def test_the_offline_rule_calls_no_answer_a_refusal_and_misses_some(  # H-16
    name: str, found: int, refusals: int, others: int, data_dir: Path
) -> None:
    kinds = Counter((item.truth_detail, kind_of(item.response or "").value) for item in items_of(name, data_dir))
    assert kinds["1", "refuses"] >= found
    assert kinds["0", "refuses"] == 0
    assert sum(count for (truth, _), count in kinds.items() if truth == "1") == refusals
    assert sum(count for (truth, _), count in kinds.items() if truth == "0") == others
