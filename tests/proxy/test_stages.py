from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.plan import StagePlan
from proxy.policy import Rule, decide, label_stage
from proxy.stages import conclude
from supervisors.types import Assessment, Cause, Label, Verdict, safe, unknown, unsafe

NAMES = ("a", "b", "c", "d")
verdicts = st.sampled_from([safe(), safe(score=0.2), unsafe("x"), *[unknown(cause) for cause in Cause]])


@st.composite
def plans(draw: st.DrawFn) -> StagePlan:
    rules = {name: Rule(name, enforce=draw(st.booleans())) for name in NAMES}
    members = st.lists(st.sampled_from(NAMES), unique=True, min_size=1).map(tuple)
    policies = [(f"p{n}", names) for n, names in enumerate(draw(st.lists(members, max_size=3)))]
    return StagePlan("input", rules=rules, policies=tuple(policies))


@settings(max_examples=60)
@given(plans(), st.lists(st.sampled_from(NAMES), unique=True, min_size=1))
def test_safe_verdicts_are_concluded_as_the_rules_would(plan: StagePlan, asked: list[str]) -> None:  # G-19
    found = [Assessment(name, safe()) for name in asked]
    result = conclude(plan, None, found, 0.5)
    expected = [
        replace(decide(policy, "input", None, rules, found), seconds=0.5)
        for policy, names in plan.policies
        for enforce in (True, False)
        if (rules := [plan.rules[name] for name in names if name in asked and plan.rules[name].enforce is enforce])
    ]
    assert list(result.decisions) == expected
    assert (result.action, result.reason, result.label, result.cause) == ("pass", None, Label.SAFE, None)


@settings(max_examples=60)
@given(st.lists(verdicts, max_size=5))
def test_a_stage_is_labelled_by_its_worst_verdict_and_first_cause(found: list[Verdict]) -> None:  # G-27
    labels = {verdict.label for verdict in found}
    causes = [cause for cause in Cause if any(verdict.cause is cause for verdict in found)]
    open_causes = [cause for cause in causes if cause is not Cause.SKIPPED]
    label, cause = label_stage(found)
    if Label.UNSAFE in labels:
        assert (label, cause) == (Label.UNSAFE, None)
    elif open_causes:
        assert (label, cause) == (Label.UNKNOWN, open_causes[0])
    else:
        assert (label, cause) == ((Label.SAFE, None) if Label.SAFE in labels else (Label.UNKNOWN, Cause.SKIPPED))
