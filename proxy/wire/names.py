"""Names of members that documents of the APIs define; any other name is text that somebody chose (G-01). Pure.

A name of these lists is never judged, because it says nothing but what its document says. Whatever else stands before a
colon in a body reaches the model or the caller like a string, and is judged like one.
"""

from __future__ import annotations

from typing import Final

SCHEMA: Final = frozenset(
    """
    type function custom name description parameters strict json_schema schema grammar syntax definition format
    input_schema input_examples cache_control ttl
    properties required items enum const default title examples additionalProperties patternProperties prefixItems
    anyOf oneOf allOf not if then else $ref $defs $schema $id definitions nullable deprecated
    minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength pattern minItems maxItems
    uniqueItems minProperties maxProperties contentEncoding contentMediaType
    """.split()  # noqa: SIM905 - a word list reads better in lines
)
"""Keys of tool definitions and JSON Schema."""

_BODIES: Final = frozenset(
    """
    id object created created_at completed_at model choices usage system_fingerprint service_tier obfuscation index
    message delta role content refusal reasoning reasoning_content reasoning_details thinking signature data text
    tool_calls tool_call_id function_call arguments input output audio transcript expires_at annotations citations
    citation url url_citation file_citation file_path container_file_citation container_id file_id filename file_data
    file_url image_url input_audio detail start_index end_index start_char_index end_char_index start_page_number
    end_page_number start_block_index end_block_index cited_text document_index document_title encrypted_index
    encrypted_content search_result_index source sources finish_reason stop_reason stop_sequence stop_details status
    logprobs top_logprobs token tokens token_logprobs text_offset bytes logprob error code param call_id item_id
    response_id output_index content_index summary_index annotation_index sequence_number summary part item response
    annotation action actions query queries results score attributes outputs logs command commands env timeout_ms
    timeout working_directory user max_output_length stdout stderr exit_code outcome operation diff path server_label
    server_name tool_name tools tool_choice namespace status incomplete_details reason instructions metadata
    max_output_tokens max_tool_calls parallel_tool_calls previous_response_id prompt prompt_cache_key
    prompt_cache_retention safety_identifier store temperature top_p truncation verbosity effort generate_summary
    background conversation variables version billing caller execution phase approval_request_id approve
    content_block container context_management explanation category tool_use_id is_error thinking_budget budget_tokens
    media_type page_age retrieved_at return_code file_type start_line num_lines total_lines error_code lines old_start
    new_start old_lines new_lines is_file_update context partial_json
    """.split()  # noqa: SIM905
)

_VENDORS: Final = frozenset(
    """
    provider native_finish_reason matched_stop stop_token_ids token_ids prompt_token_ids prompt_logprobs
    kv_transfer_params timings x_groq queue_time prompt_time completion_time total_time time_info predicted_ms
    prompt_ms prompt_n predicted_n cache_n prompt_per_second predicted_per_second prompt_per_token_ms
    predicted_per_token_ms generation_settings search_results images date last_updated snippet related_questions
    safety_ratings safetyRatings probability blocked grounding_metadata groundingMetadata groundingChunks
    groundingSupports searchEntryPoint renderedContent webSearchQueries web uri extra_content google
    thought_signature executed_tools num_search_queries search_context_size cost prefix partial
    content_filter_results content_filter_result prompt_filter_results content_filter_offsets prompt_index
    check_offset start_offset end_offset custom_blocklists filtered severity detected license details
    protected_material_code protected_material_text indirect_attack ungrounded_material custom_topics
    """.split()  # noqa: SIM905
)
"""Names that other vendors and model servers document for their replies."""

_FILTERS: Final = frozenset(("hate", "self_harm", "sexual", "violence", "profanity", "jailbreak"))
"""Categories of content filters, as replies report them."""

_ASKING: Final = frozenset(
    """
    messages functions n stream stream_options include_usage include_obfuscation stop stop_sequences max_tokens
    max_completion_tokens presence_penalty frequency_penalty repetition_penalty top_k min_p top_a typical_p seed
    logit_bias best_of echo suffix response_format modalities voice prediction web_search_options user_location
    approximate country city region timezone reasoning_effort enable_thinking chat_template_kwargs chat_template
    documents add_generation_prompt continue_final_message guided_json guided_regex guided_choice guided_grammar
    structured_outputs ignore_eos min_tokens skip_special_tokens spaces_between_special_tokens
    include_stop_str_in_output use_beam_search length_penalty bad_words allowed_token_ids truncate_prompt_tokens
    prompt_embeds image_data cache_prompt mirostat mirostat_tau mirostat_eta dynatemp_range json regex choice
    models route transforms plugins engine max_results exclude include include_reasoning search_mode
    search_domain_filter search_recency_filter return_images return_related_questions safe_prompt random_seed
    moderation policy mode dimensions encoding_format input_type max_chars system mcp_servers output_config
    output_format display disable_parallel_tool_use context edits keep trigger value clear_at_least clear_tool_inputs
    exclude_tools allowed_tools filters ranking_options ranker score_threshold vector_store_ids max_num_results
    display_width display_height environment connector_id allowed_callers defer_loading require_approval
    allowed_domains blocked_domains max_uses betas inference_geo
    """.split()  # noqa: SIM905
)
"""Names of requests, the model servers' own among them."""

OF_REQUESTS: Final = SCHEMA | _BODIES | _ASKING
OF_REPLIES: Final = SCHEMA | _BODIES | _VENDORS | _FILTERS
_USAGE: Final = frozenset(
    """
    prompt_tokens completion_tokens total_tokens input_tokens output_tokens prompt_tokens_details
    completion_tokens_details input_tokens_details output_tokens_details cached_tokens audio_tokens reasoning_tokens
    accepted_prediction_tokens rejected_prediction_tokens text_tokens image_tokens cache_creation_input_tokens
    cache_read_input_tokens cache_creation ephemeral_5m_input_tokens ephemeral_1h_input_tokens server_tool_use
    web_search_requests web_fetch_requests service_tier inference_geo prompt_cache_hit_tokens prompt_cache_miss_tokens
    cost cost_details is_byok upstream_inference_cost citation_tokens num_search_queries queue_time prompt_time
    completion_time total_time num_sources_used cache_write_tokens cached_content_tokens iterations output_tokens_count
    """.split()  # noqa: SIM905
)
OF_USAGE: Final = _USAGE | OF_REPLIES


def is_named(key: str, *, in_reply: bool) -> bool:
    """Say whether a document defines this name; numbers name entries and say nothing."""
    return key in (OF_REPLIES if in_reply else OF_REQUESTS) or (key.isascii() and key.isdecimal())
