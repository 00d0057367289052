/** The conversation at the terminal, typed line by line against a scripted service. */
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { Chalk } from 'chalk'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { renderAnswerTokens, renderTokens } from '#cli/chat/tokens.js'
import type { Sink } from '#cli/terminal/io.js'
import { runProgram } from '../../../../commands/program.js'
import {
  checkpoint,
  MODEL,
  page,
  type RecordedRequest,
  scriptedService,
} from '../../../support/service/scripted-service.js'

let folder = ''
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'trainyard-repl-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true, maxRetries: 20 }))

/** Answers `echo <question>` with one token; types the lines and leaves with Ctrl-D. */
async function converse(lines: readonly string[], argv: readonly string[] = []) {
  const service = scriptedService({
    'GET /v1/preview/models': { body: page([MODEL]) },
    [`GET /v1/preview/models/${MODEL.id}/checkpoints`]: { body: page([2, 3, 12].map((step) => checkpoint(step))) },
    'POST /v1/chat/completions': ({ body }) => {
      const { messages, model } = body as { messages: { content: string }[]; model: string }
      const content = `echo ${messages.at(-1)?.content}${model.endsWith(':step3') ? ' at 3' : ''}`
      const logprobs = {
        content: [{ token: content, logprob: -2, bytes: [...Buffer.from(content)], top_logprobs: [] }],
      }
      const choice = { index: 0, delta: { content }, finish_reason: 'stop', logprobs, token_ids: [1] }
      return new Response(`data: ${JSON.stringify({ id: 'c', choices: [choice] })}\n\ndata: [DONE]\n\n`, {
        headers: { 'content-type': 'text/event-stream' },
      })
    },
  })
  const written = { stdout: '', stderr: '' }
  const sink = (name: 'stdout' | 'stderr') => ({
    isTTY: true,
    columns: 80,
    write: (text: string) => {
      written[name] += text
      return true
    },
  })
  const stdin = Object.assign(new PassThrough(), { isTTY: true })
  stdin.end(`${lines.join('\n')}\n`)
  const exitCode = await runProgram({
    argv: ['chat', 'email-agent', ...argv],
    environment: { HOME: folder, XDG_STATE_HOME: folder },
    streams: { stdin, stdout: sink('stdout'), stderr: sink('stderr') },
    signal: new AbortController().signal,
    version: '0',
    fetch: service.fetch,
  })
  const chats = service.requests.filter(({ path }: RecordedRequest) => path.endsWith('/completions'))
  return { ...written, exitCode, bodies: chats.map(({ body }) => body as Record<string, unknown>) }
}

test('turns remember each other; several lines are one message; a doubled slash is one', async () => {
  const { stdout, exitCode, bodies } = await converse(['one', '"""two', 'lines"""', '//slash'], ['--system', 'be kind'])
  expect(exitCode).toBe(0)
  expect(stdout).toContain('echo one\n')
  expect(bodies.at(-1)).toMatchObject({
    model: 'wandb-artifact:///local/default/email-agent',
    messages: [
      { role: 'system', content: 'be kind' },
      { role: 'user', content: 'one' },
      { role: 'assistant', content: 'echo one' },
      { role: 'user', content: 'two\nlines' },
      { role: 'assistant', content: 'echo two\nlines' },
      { role: 'user', content: '/slash' },
    ],
  })
})
test('/system, /set, /step, /undo, /retry and /clear change what is asked', async () => {
  const lines = ['/system short', '/set temperature 0.2', '/step 3', 'a', 'b', '/undo', '/retry', '/clear', 'c']
  const { bodies, stderr } = await converse(lines)
  expect(bodies.map(({ messages }) => (messages as { content: string }[]).map(({ content }) => content))).toEqual([
    ['short', 'a'],
    ['short', 'a', 'echo a at 3', 'b'],
    ['short', 'a'],
    ['short', 'c'],
  ])
  expect(bodies[0]).toMatchObject({ temperature: 0.2, model: 'wandb-artifact:///local/default/email-agent:step3' })
  expect(stderr).toContain('asking email-agent:step3')
})
test('/step and /compare to a step that is not there change nothing', async () => {
  const { stderr, bodies } = await converse(['/step 99', '/compare 4', '/step x', 'a'])
  expect(stderr).toContain('error: checkpoint step 99 was not found\nhint: there are steps 2-3, 12\n')
  expect(stderr).toContain('error: checkpoint step 4 was not found\n')
  expect(bodies).toMatchObject([{ model: 'wandb-artifact:///local/default/email-agent' }])
})
test('/show says which step answers and what is set', async () => {
  const { stderr } = await converse(['/set temperature 0.2', '/system short', '/step 3', '/compare 2', '/show'])
  expect(stderr).toMatch(/email-agent:step12 \(latest\) · .*\/help/)
  expect(stderr).toMatch(
    /model +email-agent:step3 · .*\nsettings +temperature 0\.2, top_p 0\.95\ncompared +with step 2\nsystem: short\n/,
  )
})
test('/set alone shows what is set, as /system does', async () => {
  const { stderr, bodies } = await converse(['/set', '/set temperature 0.2', '/set max_tokens 9', '/set', 'a'])
  expect(stderr).toContain('settings: temperature 0.8, top_p 0.95\n')
  expect(stderr).toContain('settings: temperature 0.2, top_p 0.95, max_tokens 9\n')
  expect(stderr).not.toContain('error')
  expect(bodies).toMatchObject([{ temperature: 0.2, max_completion_tokens: 9 }])
})
test('/compare lets another step answer, too; /logprobs shows probabilities', async () => {
  const { stdout, stderr, bodies } = await converse(['/compare 3', '/logprobs', 'a', '/compare off', 'b'])
  expect(stdout).toContain('echo a\n')
  expect(stdout).toContain('echo a at 3\n')
  expect(stderr).toContain('echo a‹0.14›')
  expect(bodies).toHaveLength(3)
})
test('/save writes trajectories that train, /load goes on from them', async () => {
  const file = join(folder, 'saved.jsonl')
  await converse(['a', `/save ${file}`])
  expect(JSON.parse(readFileSync(file, 'utf8'))).toMatchObject({
    trajectories: [{ messages_and_choices: [{ content: 'a' }, { token_ids: [1] }], reward: 0 }],
  })
  const { bodies } = await converse([`/load ${file}`, 'b'])
  expect(bodies[0]?.['messages']).toHaveLength(3)
})
test('tools and a schema come from files', async () => {
  const [tools, schema] = [join(folder, 'tools.json'), join(folder, 'schema.json')]
  writeFileSync(tools, '[{"name":"add","parameters":{}}]')
  writeFileSync(schema, '{"type":"object"}')
  const { bodies } = await converse([`/tools ${tools}`, `/schema ${schema}`, 'a'])
  expect(bodies[0]).toMatchObject({
    tools: [{ type: 'function', function: { name: 'add' } }],
    response_format: { type: 'json_schema', json_schema: { schema: { type: 'object' } } },
  })
})
test('mistakes are errors that end nothing, and are never sent', async () => {
  const { stderr, bodies } = await converse([
    '/sytem x',
    '/set warmth 1',
    '/set temperature 9',
    '/load /nowhere',
    '/logprobs on',
    'a',
  ])
  expect(stderr).toContain('there is no command /sytem\nhint: did you mean /system?')
  expect(stderr).toContain('there is no parameter "warmth"')
  expect(stderr).toContain('temperature must be')
  expect(stderr).toContain('/nowhere')
  expect(stderr).toContain('/logprobs takes nothing after it, got "on"')
  expect(bodies).toHaveLength(1)
})
test('/exit leaves at once; what was typed is kept for its owner only', async () => {
  const { bodies, exitCode } = await converse(['a', '/exit', 'b'])
  expect(bodies).toHaveLength(1)
  expect(exitCode).toBe(0)
  expect(statSync(join(folder, 'trainyard/chat_history')).mode & 0o777).toBe(0o600)
})
test('probabilities are broken between words at the edge of the terminal', () => {
  const sink = { width: 30, isUnicode: true, chalk: new Chalk({ level: 0 }) } as Sink
  const words = 'The quick brown fox jumps over the lazy dog'.split(/(?= )/)
  const tokens = words.map((token, i) => ({ token, bytes: null, logprob: i % 2 === 0 ? -1 : 0, top_logprobs: [] }))
  const shown = renderTokens(tokens, sink)
  expect(shown.replaceAll('\n', ' ')).toBe('The‹0.37› quick brown‹0.37› fox jumps‹0.37› over the‹0.37› lazy dog‹0.37›')
  for (const line of shown.split('\n')) expect(line.length).toBeLessThanOrEqual(30)
})
test('probabilities are those of the distribution that was sampled, and that is said', () => {
  const sink = { width: 80, isUnicode: true, chalk: new Chalk({ level: 0 }) } as Sink
  const content = [{ token: 'four', bytes: null, logprob: -1, top_logprobs: [] }]
  const rules = { temperature: 0.5, top_p: 1, top_k: 0, min_p: 0, unmodelled: [] }
  const sampling = { ...rules, logprobs: [-0.5], kept: { counts: [0], ids: [] } }
  expect(renderAnswerTokens({ logprobs: { content } }, sink)).toBe('four‹0.37›')
  expect(renderAnswerTokens({ logprobs: { content }, sampling }, sink)).toBe(
    'four‹0.61›\nprobabilities of the distribution that was sampled: temperature 0.5',
  )
})
