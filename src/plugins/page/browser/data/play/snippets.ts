/**
 * A chat request as a command line, curl, Python or TypeScript, to copy. The key is a variable, never the key itself.
 * Pure.
 */
import { command } from '#contract/wire/command-words.js'
import type { ChatBody, Message, Sampling } from './request.js'

export interface Snippet {
  readonly title: string
  readonly text: string
}

/**
 * @param base address of the API with its `/v1`
 * @param own how the model asks to be sampled: the command line begins with the same, and is not told
 */
export function snippetsOf(body: ChatBody, base: string, own: Sampling = {}): readonly Snippet[] {
  const line = toCommand(body, own)
  return [
    ...(line === null ? [] : [{ title: 'Terminal', text: line }]),
    { title: 'curl', text: toCurl(body, base) },
    { title: 'Python', text: toPython(body, base) },
    { title: 'TypeScript', text: toTypeScript(body, base) },
  ]
}

/** What the command line says in one line; null for what takes files. */
function toCommand(body: ChatBody, own: Sampling): string | null {
  const { model, messages, temperature, top_p: topP, top_k: topK, max_tokens: most, seed, logprobs, ...others } = body
  const isOwn = temperature === own['temperature'] && topP === own['top_p'] && topK === own['top_k']
  const [first, ...rest] = messages
  const system = first?.role === 'system' ? first : null
  const said: readonly Message[] = system === null ? messages : rest
  const [only] = said
  const isPlain = said.length === 1 && only?.role === 'user' && typeof only.content === 'string'
  if (!isPlain || 'tools' in others || 'response_format' in others) return null
  const flags = [
    ...(system === null ? [] : ['--system', system.content ?? '']),
    ...(isOwn ? [] : ['--temperature', String(temperature), '--top-p', String(topP)]),
    '--max-tokens',
    String(most),
    ...(seed === undefined ? [] : ['--seed', String(seed)]),
    ...(logprobs === true ? ['--logprobs'] : []),
  ]
  return command`trainyard chat ${model} ${flags} -- ${typeof only?.content === 'string' ? only.content : ''}`
}

function toCurl(body: ChatBody, base: string): string {
  return [
    command`curl ${`${base}/chat/completions`}`,
    `  -H "Authorization: Bearer $TRAINYARD_API_KEY"`,
    `  -H 'Content-Type: application/json'`,
    command`  -d ${JSON.stringify(body)}`,
  ].join(' \\\n')
}

function toPython(body: ChatBody, base: string): string {
  return [
    'import os',
    'from openai import OpenAI',
    '',
    `client = OpenAI(base_url=${JSON.stringify(base)}, api_key=os.environ["TRAINYARD_API_KEY"])`,
    'completion = client.chat.completions.create(',
    // the client of Python takes no field that OpenAI has not
    ...Object.entries(body).map(([name, value]) =>
      name === 'top_k' ? `    extra_body=${pythonOf({ top_k: value })},` : `    ${name}=${pythonOf(value)},`,
    ),
    ')',
    'print(completion.choices[0].message)',
  ].join('\n')
}

/** A value of JSON as Python writes it: strings are the same in both. */
function pythonOf(value: unknown): string {
  if (value === null) return 'None'
  if (typeof value === 'boolean') return value ? 'True' : 'False'
  if (Array.isArray(value)) return `[${value.map(pythonOf).join(', ')}]`
  if (typeof value !== 'object') return JSON.stringify(value)
  return `{${Object.entries(value)
    .map(([name, inner]) => `${JSON.stringify(name)}: ${pythonOf(inner)}`)
    .join(', ')}}`
}

function toTypeScript(body: ChatBody, base: string): string {
  return [
    "import { env } from 'node:process'",
    "import OpenAI from 'openai'",
    '',
    `const client = new OpenAI({ baseURL: ${JSON.stringify(base)}, apiKey: env.TRAINYARD_API_KEY })`,
    'const completion = await client.chat.completions.create({',
    ...Object.entries(body).map(([name, value]) => `  ${name}: ${JSON.stringify(value)},`),
    '})',
    'console.log(completion.choices[0]?.message)',
  ].join('\n')
}
