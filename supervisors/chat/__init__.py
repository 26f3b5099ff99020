"""The model calls of supervisors: metered, retried, bounded by deadline, budget, semaphore and breaker."""

from supervisors.chat.breaker import Breaker, BreakerState
from supervisors.chat.calls import dump_json
from supervisors.chat.context import Budget, ChatContext
from supervisors.chat.replies import error_word, parse_chat_reply
from supervisors.chat.service import ChatService, ChatSettings, ModelCall
from supervisors.chat.vendors import complete_with_vendor, load_litellm, stream_from_vendor

__all__ = [
    "Breaker",
    "BreakerState",
    "Budget",
    "ChatContext",
    "ChatService",
    "ChatSettings",
    "ModelCall",
    "complete_with_vendor",
    "dump_json",
    "error_word",
    "load_litellm",
    "parse_chat_reply",
    "stream_from_vendor",
]
