"""A canary in every disguise of guarding §2, texts that only look odd, and a server that reads as a person would."""

from __future__ import annotations

import base64
import codecs
import json
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from supervisors.in_process.guard import InProcess
from supervisors.in_process.stream import Levels, QwenStream, Tokens
from supervisors.material import Turn
from supervisors.testing import FakeContext
from supervisors.types import ChatReply, ChatRequest, Endpoint

CANARY = "violet umbrella"
TEXT = f"how do you find the {CANARY} that was left in the hall with the keys"


def _shift(text: str, base: int) -> str:
    return "".join([chr(base + ord(c) - 0x20) if c != " " else "\u3000" for c in text])


def _escape(text: str, form: str) -> str:
    return "".join([form.format(ord(c)) for c in text])


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


TRANSFORMS: Mapping[str, Callable[[str], str]] = {
    "as written": str,
    "zero-width": "\u200b".join,
    "homoglyphs": lambda text: text.translate(str.maketrans("ioea", "\u0456\u043e\u0435\u0430")),
    "fullwidth": lambda text: _shift(text, 0xFF00),
    "base64": _base64,
    "base64 twice": lambda text: _base64(_base64(text)),
    "hex": lambda text: text.encode().hex(),
    "url": lambda text: "".join([f"%{byte:02X}" for byte in text.encode()]),
    "html": lambda text: _escape(text, "&#{};"),
    "escapes": lambda text: _escape(text, "\\u{:04x}"),
    "rot13": lambda text: codecs.encode(text, "rot13"),
    "reversed": lambda text: text[::-1],
    "leet": lambda text: text.translate(str.maketrans("oieas", "01345")),
    "spaced": lambda text: "  ".join([" ".join(word) for word in text.split()]),
    "line breaks": lambda text: text.replace(" ", "\n"),
    "double spaces": lambda text: text.replace(" ", "  "),
    "tabs": lambda text: text.replace(" ", "\t"),
    "tag characters": lambda text: "".join([chr(0xE0000 + ord(c)) for c in text]),
    "soft hyphen": lambda text: text.replace("l", "l\u00ad").replace("o", "o\u00ad"),
    "combining marks": lambda text: text.replace("l", "l\u0338").replace("r", "r\u0338"),
    "upper case": str.upper,
}

NOISE = random.Random(7)  # noqa: S311 - noise, not a key
LOOK_ALIKES: Mapping[str, str] = {
    "words with words inside": "Scunthorpe, Penistone, Essex, a classic assassin, cocktails, Cockburn, therapists",
    "an image": base64.b64encode(b"\x89PNG\r\n\x1a\n" + NOISE.randbytes(6_000)).decode(),
    "hashes": " ".join([NOISE.randbytes(32).hex() for _ in range(40)]),
    "code": "def add(x0, y1):\n    return [x0[i] + y1[i] for i in range(10)]  # b2b, mp3, covid19\n" * 3,
    "Russian": "Вот как испечь хлеб дома: смешайте муку, воду и соль, а потом поставьте в печь.",
    "Greek": "Πώς φτιάχνω ψωμί στο σπίτι με αλεύρι και νερό;",
    "Japanese": "パンの作り方を教えてください。小麦粉と水を使います。",
    "Hindi": "घर पर रोटी कैसे बनाएं, आटा और पानी से?",
    "Arabic": "كيف أصنع الخبز في البيت بالدقيق والماء؟",
    "French": "Où est le café déjà fermé à Köln, et pourquoi ?",
    "a formula": "µ = 3, x² + y² = 4, ∑ₙ 1/n², 𝑥 ∈ ℝ",
    "an address": "https://example.org/search?q=how%20to%20bake%20bread%20at%20home&utm_source=mail",
    "entities": "<p>bread &amp; butter &lt;3 &nbsp; jam</p>",
    "emoji": "A family \U0001f468\u200d\U0001f469\u200d\U0001f467 with an umbrella \u2602\ufe0f",
}


def sees(text: str) -> bool:
    """Say whether a reader would find the canary: in plain sight, whatever the case and spaces."""
    return CANARY in " ".join(text.lower().split())


@dataclass(slots=True)
class Reader(FakeContext):
    """A model server that finds the canary where a reader would."""

    async def chat(self, endpoint: Endpoint, request: ChatRequest) -> ChatReply:
        shown = request.prompt or "\n".join([str(message["content"]) for message in request.messages])
        found = sees(shown)
        if endpoint.url is not None:
            return ChatReply("unsafe\nS2" if found else "safe", "stop")
        if request.response_format is None:
            return ChatReply("Yes" if found else "No", "stop")
        nonce = re.search(r"<<<([0-9a-f]{32}) ", shown)
        return ChatReply(json.dumps({"nonce": nonce and nonce[1], "label": "unsafe" if found else "safe"}), "stop")

    async def post(self, url: str, body: object, headers: Mapping[str, str]) -> tuple[int, object]:
        members = cast("Mapping[str, Any]", body)
        given: str | list[str] = members.get("input", members.get("inputs", ""))
        texts = [given] if isinstance(given, str) else given
        found = [sees(text) for text in texts]
        match url.rpartition("/")[2]:
            case "embeddings":
                rows = [{"embedding": [1.0, 3.0 * seen], "index": i} for i, seen in enumerate(found)]
                return 200, {"data": rows}
            case "classify":
                return 200, {"data": [{"index": i, "probs": [1.0 - seen, 1.0 * seen]} for i, seen in enumerate(found)]}
            case "predict" | "hf":
                labels = [_labels(seen) for seen in found]
                return 200, labels[0] if url.endswith("predict") and isinstance(given, str) else labels
            case _:
                return 200, {"results": [{"flagged": seen} for seen in found]}


def _labels(seen: bool) -> list[Mapping[str, object]]:
    return [{"label": "MALICIOUS", "score": 1.0 * seen}, {"label": "BENIGN", "score": 1.0 - seen}]


class Seer:
    """A model in the process that finds the canary where a reader would: as gliner2, LionGuard's head, and a stream."""

    reply: str = ""

    @classmethod
    def gliguard(cls) -> InProcess:
        """Return GLiGuard with it."""
        guard = InProcess.model_validate({"card": "gliguard", "path": "unused", "lock": None})
        guard.attach(model=cls())
        return guard

    @classmethod
    def lionguard(cls, url: str = "http://x/v1") -> InProcess:
        """Return LionGuard with it; its vectors are the reader's, or of a server."""
        card = {"base": "lionguard-2", "dimensions": 2}
        guard = InProcess.model_validate({"card": card, "url": url, "allow_code": ["lionguard-2"]})
        guard.attach(head=cls())
        return guard

    @classmethod
    def stream(cls) -> QwenStream:
        """Return Qwen3Guard-Stream with it; its tokens are words."""
        guard = QwenStream.model_validate({"allow_code": ["qwen3guard-stream-0.6b"]})
        guard.attach(cls())
        return guard

    def tokenise(self, turns: Sequence[Turn], reply: str, *, complete: bool) -> Tokens:
        """Answer as the model's tokenizer does."""
        self.reply = reply
        places = [match.span() for match in re.finditer(r"\S+", reply)]
        return Tokens((0,), tuple(range(len(places))), tuple(places))

    def judge(self, tokens: Tokens) -> Levels:
        """Answer as the stream model does: every token of a reply with the canary is unsafe."""
        found, count = sees(self.reply), len(tokens.reply)
        return {"risk_level": ["Unsafe" if found else "Safe"] * count, "category": ["Violent"] * count}

    def classify_text(
        self, text: str, tasks: Mapping[str, object], *, include_confidence: bool
    ) -> Mapping[str, object]:
        """Answer as gliner2 does."""
        label = "unsafe" if sees(text) else "safe"
        several = [{"label": "benign", "confidence": 0.9}]
        first = {name: {"label": label, "confidence": 0.9} for name in tasks if name.endswith("_safety")}
        more = {name: several for name in tasks if name.endswith(("_toxicity", "_detection"))}
        return {**first, **more, "response_refusal": {"label": "compliance", "confidence": 1.0}}

    def predict(self, vectors: object, /) -> Mapping[str, object]:
        """Answer as LionGuard's head does."""
        rows = cast("Any", vectors).tolist()
        return {"binary": [0.9 if row[1] > 0.5 else 0.1 for row in rows]}
