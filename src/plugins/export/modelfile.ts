/**
 * A Modelfile for Ollama: which weights, which prompt format, where an answer ends.
 *
 * Ollama does not run the model's own template (Jinja) but one of Go's kind. The model's template is rendered here and
 * compared with the formats below; when none gives the same text the Modelfile says so instead of naming a wrong one.
 * Source: https://docs.ollama.com/modelfile.
 */
import type { TextModel } from '#model/text/text-model.js'

interface PromptFormat {
  readonly template: string
  readonly stop: readonly string[]
  /** What the format makes of a conversation of plain texts. */
  render(turns: readonly { readonly role: string; readonly content: string }[], bos: string): string
}

const FORMATS: readonly PromptFormat[] = [
  {
    template:
      '{{- if .System }}<|im_start|>system\n{{ .System }}<|im_end|>\n{{ end }}{{- range .Messages }}{{- if ne .Role "system" }}<|im_start|>{{ .Role }}\n{{ .Content }}<|im_end|>\n{{ end }}{{- end }}<|im_start|>assistant\n',
    stop: ['<|im_end|>'],
    render: (turns) =>
      `${turns.map((turn) => `<|im_start|>${turn.role}\n${turn.content}<|im_end|>\n`).join('')}<|im_start|>assistant\n`,
  },
  {
    template:
      '{{- if .System }}<|start_header_id|>system<|end_header_id|>\n\n{{ .System }}<|eot_id|>{{ end }}{{- range .Messages }}{{- if ne .Role "system" }}<|start_header_id|>{{ .Role }}<|end_header_id|>\n\n{{ .Content }}<|eot_id|>{{ end }}{{- end }}<|start_header_id|>assistant<|end_header_id|>\n\n',
    stop: ['<|eot_id|>'],
    render: (turns, bos) =>
      `${bos}${turns.map((turn) => `<|start_header_id|>${turn.role}<|end_header_id|>\n\n${turn.content}<|eot_id|>`).join('')}<|start_header_id|>assistant<|end_header_id|>\n\n`,
  },
  {
    template:
      '{{- range $i, $_ := .Messages }}{{- if eq .Role "user" }}<start_of_turn>user\n{{ if and (eq $i 0) $.System }}{{ $.System }}\n\n{{ end }}{{ .Content }}<end_of_turn>\n{{ else if eq .Role "assistant" }}<start_of_turn>model\n{{ .Content }}<end_of_turn>\n{{ end }}{{- end }}<start_of_turn>model\n',
    stop: ['<end_of_turn>'],
    render: (turns, bos) =>
      `${bos}${turns.map((turn) => `<start_of_turn>${turn.role === 'assistant' ? 'model' : turn.role}\n${turn.content}<end_of_turn>\n`).join('')}<start_of_turn>model\n`,
  },
]

const PROBE = [
  { role: 'user', content: 'one' },
  { role: 'assistant', content: 'two' },
  { role: 'user', content: 'three' },
]
const SYSTEM_MARK = 'SYSTEM-PROMPT'
/**
 * Ollama makes every token of the conversation less likely by default (1.1), which no model was trained with: greedy answers
 * would differ from ours.
 */
const NO_PENALTY = 1

export interface ModelfileOptions {
  /** What `FROM` names: a file beside the Modelfile. */
  readonly from: string
  /** A LoRA file beside the Modelfile; null for none. */
  readonly adapter: string | null
  readonly text: TextModel
  readonly contextLength: number
}

/** The Modelfile's text. */
export function modelfile({ from, adapter, text, contextLength }: ModelfileOptions): string {
  const lines = [`FROM ./${from}`]
  if (adapter !== null) {
    lines.splice(
      0,
      1,
      '# The adapter fits this base model only: put its GGUF file here, see --format gguf --step 0.',
      `FROM ./${from}`,
      `ADAPTER ./${adapter}`,
    )
  }
  const found = promptFormat(text)
  if (found === null) {
    if (text.chatTemplate !== null) {
      lines.push('# The chat template is inside the GGUF file; it is none that this file could spell for Ollama.')
    }
  } else {
    lines.push(`TEMPLATE """${found.format.template}"""`)
    if (found.system !== null) lines.push(`SYSTEM """${found.system}"""`)
    for (const stop of found.format.stop) lines.push(`PARAMETER stop "${stop}"`)
  }
  lines.push(`PARAMETER num_ctx ${Math.min(contextLength, 8192)}`, `PARAMETER repeat_penalty ${NO_PENALTY}`)
  return `${lines.join('\n')}\n`
}

/** The format that the model's template follows, and the system text it puts in by itself. */
function promptFormat(text: TextModel): { readonly format: PromptFormat; readonly system: string | null } | null {
  const { chatTemplate } = text
  if (chatTemplate === null) return null
  const bos = text.bosTokenId === null ? '' : (text.tokenizer.idToToken(text.bosTokenId) ?? '')
  let rendered: string
  try {
    rendered = chatTemplate.render({ messages: PROBE, addGenerationPrompt: true }).text
  } catch {
    // a template that refuses a plain conversation has no plain format
    return null
  }
  for (const format of FORMATS) {
    if (format.render(PROBE, bos) === rendered) return { format, system: null }
    const withSystem = format.render([{ role: 'system', content: SYSTEM_MARK }, ...PROBE], bos)
    const [before = '', after = ''] = withSystem.split(SYSTEM_MARK)
    const isLong = rendered.length > before.length + after.length
    if (!isLong || !rendered.startsWith(before) || !rendered.endsWith(after)) continue
    const system = rendered.slice(before.length, rendered.length - after.length)
    if (!system.includes('"""')) return { format, system }
  }
  return null
}
