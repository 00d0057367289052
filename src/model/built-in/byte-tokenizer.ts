/**
 * Tokenizer files of the random test models: one token per byte plus three control tokens, and a ChatML template.
 *
 * The byte alphabet is GPT-2's `bytes_to_unicode`: printable Latin-1 stands for itself, the rest is moved to U+0100 and up.
 * The template writes tools as Qwen2.5 does, so that tool calls can be tested without a real model.
 */
import type { JsonObject } from '#base/util/json.js'

const BYTE_TOKENS = 256

/** Control tokens and their ids, which follow the 256 byte tokens. */
export const BYTE_TOKENIZER_IDS = { '<|endoftext|>': 256, '<|im_start|>': 257, '<|im_end|>': 258 } as const
/** Rows of the embedding. */
export const BYTE_VOCABULARY_SIZE = BYTE_TOKENS + Object.keys(BYTE_TOKENIZER_IDS).length

/** ChatML with optional tools, tool calls and tool results. */
const CHAT_TEMPLATE = `{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages and messages[0]['role'] == 'system' %}
        {{- messages[0]['content'] + '\\n\\n' }}
    {%- endif %}
    {{- 'Call a function with <tool_call>{"name": ..., "arguments": ...}</tool_call>. Functions:\\n<tools>' }}
    {%- for tool in tools %}
        {{- '\\n' + (tool | tojson) }}
    {%- endfor %}
    {{- '\\n</tools><|im_end|>\\n' }}
{%- elif messages and messages[0]['role'] == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message['role'] == 'system' and loop.first %}
    {%- elif message['role'] == 'assistant' %}
        {{- '<|im_start|>assistant\\n' }}
        {%- if message['content'] %}
            {{- message['content'] }}
        {%- endif %}
        {%- for tool_call in message['tool_calls'] or [] %}
            {%- if not loop.first or message['content'] %}
                {{- '\\n' }}
            {%- endif %}
            {{- '<tool_call>\\n{"name": ' + (tool_call['function']['name'] | tojson) + ', "arguments": ' }}
            {%- if tool_call['function']['arguments'] is string %}
                {{- tool_call['function']['arguments'] }}
            {%- else %}
                {{- tool_call['function']['arguments'] | tojson }}
            {%- endif %}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message['role'] == 'tool' %}
        {{- '<|im_start|>user\\n<tool_response>\\n' + message['content'] + '\\n</tool_response><|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
`

/** `tokenizer.json`: byte-level BPE without a single merge, so ids 0 to 255 are the bytes themselves. */
export function byteTokenizerJson(): JsonObject {
  const alphabet = byteAlphabet()
  const byteLevel = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true }
  return {
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: Object.entries(BYTE_TOKENIZER_IDS).map(([content, id]) => addedToken(content, { id })),
    normalizer: null,
    pre_tokenizer: byteLevel,
    post_processor: null,
    decoder: byteLevel,
    model: {
      type: 'BPE',
      dropout: null,
      unk_token: null,
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
      fuse_unk: false,
      byte_fallback: false,
      ignore_merges: false,
      vocab: { ...Object.fromEntries(alphabet.map((symbol, byte) => [symbol, byte])), ...BYTE_TOKENIZER_IDS },
      merges: [],
    },
  }
}

/** `tokenizer_config.json` with the chat template. */
export function byteTokenizerConfig(contextLength: number): JsonObject {
  return {
    add_bos_token: false,
    add_prefix_space: false,
    added_tokens_decoder: Object.fromEntries(
      Object.entries(BYTE_TOKENIZER_IDS).map(([content, id]) => [String(id), addedToken(content, {})]),
    ),
    bos_token: null,
    chat_template: CHAT_TEMPLATE,
    clean_up_tokenization_spaces: false,
    eos_token: '<|im_end|>',
    model_max_length: contextLength,
    pad_token: '<|endoftext|>',
    tokenizer_class: 'PreTrainedTokenizerFast',
    unk_token: null,
  }
}

function addedToken(content: string, extra: JsonObject): JsonObject {
  return { ...extra, content, lstrip: false, normalized: false, rstrip: false, single_word: false, special: true }
}

/** The character that stands for each byte. */
function byteAlphabet(): readonly string[] {
  let moved = 0
  return Array.from({ length: BYTE_TOKENS }, (_, byte) => {
    const isPrintable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae
    return String.fromCodePoint(isPrintable ? byte : BYTE_TOKENS + moved++)
  })
}
