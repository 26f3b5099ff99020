from __future__ import annotations

from proxy.importing.notes import Entry, Report


def test_a_member_nobody_read_is_unmapped() -> None:
    report = Report()
    entry = Entry("a", {"read": 1, "dropped": 2, "forgotten": 3, "off": False, "none": None}, report)
    assert entry.take_as("read", "ours") == 1
    entry.drop({"dropped": "needless", "absent": "not in the file"})
    entry.finish()
    assert [str(note) for note in report.notes] == [
        "mapped: a.read: ours",
        "dropped: a.dropped: needless",
        "unmapped: a.forgotten: no counterpart",
    ]
    assert not report.complete


def test_a_report_begins_with_what_needs_a_reader_and_ends_with_counts() -> None:
    report = Report()
    report.add("mapped", "a", "x")
    report.add("changed", "b", "y")
    assert report.complete
    assert list(report.lines()) == ["changed: b: y", "mapped: a: x", "1 changed, 1 mapped"]
    assert list(Report().lines()) == ["nothing to import"]
