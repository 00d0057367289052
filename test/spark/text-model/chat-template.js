/**
 * ChatML with tools in the Hermes format, as a Jinja template and as a function that writes the same text much faster.
 *
 * There is no default system prompt: nothing is written that the caller did not ask for. A unit test holds both forms
 * together token by token.
 */
import { toPythonJson } from '#formats/answers/tool-calls.js'

/** @typedef {import('../abilities/define.js').Message} Message @typedef {import('../abilities/define.js').Tool} Tool */

const TOOLS_BEFORE = 'To call a tool, write <tool_call>{"name": ..., "arguments": ...}</tool_call>. Tools:\n<tools>'
const TOOLS_AFTER = '\n</tools>'

export const CHAT_TEMPLATE = `{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages and messages[0]['role'] == 'system' %}
        {{- messages[0]['content'] + '\\n\\n' }}
    {%- endif %}
    {{- ${quote(TOOLS_BEFORE)} }}
    {%- for tool in tools %}
        {{- '\\n' + (tool['function'] | tojson) }}
    {%- endfor %}
    {{- ${quote(`${TOOLS_AFTER}<|im_end|>\n`)} }}
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

/** A Jinja string. @param {string} text */
function quote(text) {
  return `'${text.replaceAll('\n', '\\n')}'`
}

/**
 * A conversation as the template writes it, cut where training begins and ends.
 *
 * @param {{ messages: readonly Message[], tools?: readonly Tool[] | undefined }} conversation without control tokens in its texts
 * @returns {{ text: string, isTrained: boolean }[]} assistant turns with their `<|im_end|>` are trained, the rest is not
 */
export function chatSegments({ messages, tools = [] }) {
  /** @type {{ text: string, isTrained: boolean }[]} */
  const segments = []
  const system = messages[0]?.role === 'system' ? messages[0].content : null
  let open = ''
  if (tools.length > 0) {
    const list = tools.map((tool) => `\n${toPythonJson(/** @type {any} */ (tool.function))}`).join('')
    open = `<|im_start|>system\n${system === null ? '' : `${system}\n\n`}${TOOLS_BEFORE}${list}${TOOLS_AFTER}<|im_end|>\n`
  } else if (system !== null) {
    open = `<|im_start|>system\n${system}<|im_end|>\n`
  }
  for (const message of system === null ? messages : messages.slice(1)) {
    if (message.role !== 'assistant') {
      open += messageText(message)
      continue
    }
    segments.push(
      { text: `${open}<|im_start|>assistant\n`, isTrained: false },
      { text: `${turnText(message)}<|im_end|>`, isTrained: true },
    )
    open = '\n'
  }
  if (open !== '') segments.push({ text: open, isTrained: false })
  return segments
}

/** @param {Message} message */
const messageText = ({ role, content }) =>
  role === 'tool'
    ? `<|im_start|>user\n<tool_response>\n${content}\n</tool_response><|im_end|>\n`
    : `<|im_start|>${role}\n${content}<|im_end|>\n`

/** @param {Message} message */
function turnText({ content, tool_calls: calls = [] }) {
  const blocks = calls.map(
    ({ function: { name, arguments: given } }) =>
      `<tool_call>\n{"name": ${JSON.stringify(name)}, "arguments": ${given}}\n</tool_call>`,
  )
  return [...(content ? [content] : []), ...blocks].join('\n')
}
