/**
 * A scripted engine host for tests of the server: speaks `inference/host/protocol.ts`, computes nothing.
 *
 * The answer repeats the last message's text, one token (= one character) per delta. Words in that text steer it:
 * `CRASH` kills the process after the first token, `LOST` ends it there as a device that was lost does, `FREEZE` blocks it there for ever, `BUSY` lets it compute for three
 * seconds without a word, `SLOW` waits between tokens, `FOREVER` never stops by itself
 * unless `max_tokens` is given, `COUNT` answers with how many other
 * requests run, `PRIORITY` with its own, `WAIT` is not started before it is aborted, `WORN` has the host say at its end that it may be replaced.
 */
import { setTimeout as sleep } from 'node:timers/promises'

const CONTEXT_LENGTH = 2048
const aborted = new Set()
let running = 0

const NOTHING = { text: '', tokenIds: [], logprobs: [], stopReason: null }

const send = (event) => process.send?.([event])
const idOf = (character) => character.codePointAt(0) ?? 0

function logprobOf(character) {
  return { id: idOf(character), logprob: -0.5, text: character, bytes: [...Buffer.from(character)] }
}

/** A message's text; parts are joined by line breaks. */
function textOf({ content }) {
  return Array.isArray(content) ? content.map((part) => part.text).join('\n') : String(content ?? '')
}

/** The prompt's text: one character is one token. */
function promptOf({ prompt, messages }) {
  if (prompt === undefined) return messages.map((message) => `${message.role}:${textOf(message)}`).join('\n')
  return prompt.text ?? String.fromCodePoint(...prompt.tokenIds)
}

function workOnText({ id, task }) {
  const text = task.kind === 'detokenize' ? String.fromCodePoint(...task.tokenIds) : promptOf(task.input)
  const characters = task.kind === 'tokenize' ? [...text] : []
  send({ type: 'text', id, result: { text, tokenIds: characters.map(idOf), tokenStrings: characters } })
}

async function generate(command) {
  const { id, sampling, adapter } = command
  const prompt = [...promptOf(command)]
  const text = command.prompt === undefined ? textOf(command.messages.at(-1)) : prompt.join('')
  const promptTokenIds = prompt.map(idOf)
  if (promptTokenIds.length + (sampling.maxTokens ?? 0) > CONTEXT_LENGTH) {
    const message = `This model's maximum context length is ${CONTEXT_LENGTH} tokens. However, you requested ${sampling.maxTokens ?? 0} output tokens and your prompt contains at least ${promptTokenIds.length} input tokens.`
    send({
      type: 'failed',
      id,
      error: {
        category: 'invalid_request',
        code: 'context_length_exceeded',
        message,
        param: 'input_tokens',
        hint: null,
      },
    })
    return
  }
  if (text.includes('WAIT')) {
    while (!aborted.has(id)) await sleep(5)
    send({ type: 'delta', id, choice: 0, ...NOTHING, finishReason: 'abort' })
    send({ type: 'finished', id })
    return
  }
  running += 1
  const echo = command.echoesPrompt === true ? { promptText: prompt.join('') } : {}
  send({ type: 'started', id, promptTokenIds, cachedTokens: 0, isReasoningOpen: false, ...echo })
  if (typeof sampling.promptLogprobs === 'number') {
    const top = (i) => (i === 0 ? [] : ['~', '^'].slice(0, sampling.promptLogprobs).map(logprobOf))
    const positions = prompt.map((character, i) => ({ ...logprobOf(character), top: top(i), isHidden: false }))
    send({ type: 'prompt', id, positions: positions.map((p, i) => (i === 0 ? { ...p, logprob: null } : p)) })
  }
  const answer =
    text === 'COUNT'
      ? [...`running:${running - 1}`]
      : text === 'PRIORITY'
        ? [...`priority:${command.priority}`]
        : [...`${adapter === null ? 'base' : `step-${adapter.digest.slice(0, 6)}`}:${text}`]
  const longest = text.includes('FOREVER') ? Infinity : Math.min(256, CONTEXT_LENGTH - promptTokenIds.length)
  const limit = sampling.maxTokens ?? longest
  for (let choice = 0; choice < sampling.n; choice += 1) await answerChoice(command, choice, answer, text, limit)
  running -= 1
  aborted.delete(id)
  send({ type: 'finished', id })
  if (text.includes('WORN')) send({ type: 'worn', id: null, residentBytes: 3e8, loadedBytes: 1e8 })
}

/** As a deadlock in native code: the thread sleeps and never wakes. */
function freeze() {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
}

/** Fails one request, and ends once that is told. */
function loseDevice(id) {
  const error = { category: 'unavailable', code: 'device_lost', message: 'webgpu was lost', param: null, hint: null }
  process.send?.([{ type: 'failed', id, error }], undefined, undefined, () => process.exit(0))
  return new Promise(() => undefined)
}

function computeForMs(durationMs) {
  const endMs = performance.now() + durationMs
  while (performance.now() < endMs);
}

async function answerChoice({ id, sampling }, choice, answer, text, limit) {
  const isEndless = text.includes('FOREVER')
  for (let t = 0; ; t += 1) {
    if (text.includes('CRASH') && t === 1) process.kill(process.pid, 'SIGKILL')
    if (text.includes('LOST') && t === 1) await loseDevice(id)
    if (text.includes('FREEZE') && t === 1) freeze()
    if (text.includes('BUSY') && t === 1) computeForMs(3000)
    if (text.includes('SLOW') || isEndless) await sleep(5)
    if (limit === 0) return send({ type: 'delta', id, choice, ...NOTHING, finishReason: 'length' })
    const isEnd = !isEndless && t >= answer.length
    const character = isEnd ? '' : answer[t % answer.length]
    const top = isEnd ? [] : ['~', '^', '_', '`', '!'].slice(0, sampling.topLogprobs).map(logprobOf)
    const position = isEnd ? { id: 2, logprob: -0.25, text: '', bytes: [], top } : { ...logprobOf(character), top }
    const finishReason = aborted.has(id) ? 'abort' : isEnd ? 'stop' : t + 1 >= limit ? 'length' : null
    const delta = { type: 'delta', id, choice, text: character, tokenIds: [position.id], logprobs: [position] }
    send({ ...delta, finishReason, stopReason: null })
    if (finishReason !== null) return
  }
}

process.on('message', (command) => {
  switch (command.type) {
    case 'load':
      send({
        type: 'loaded',
        baseModel: command.baseModel,
        family: 'stand-in',
        parameterCount: 1,
        contextLength: CONTEXT_LENGTH,
        vocabularySize: 0x110000,
        precision: 'f32',
        loadMs: 1,
        tokenizer: { bosToken: null, eosToken: '\u0002', chatTemplate: '{{ messages }}' },
        answerFormat: { toolFormat: 'hermes', hasReasoning: true },
      })
      break
    case 'generate':
      void generate(command)
      break
    case 'text':
      workOnText(command)
      break
    case 'abort':
      aborted.add(command.id)
      break
    case 'share_cores':
      send({ type: 'threads', id: null, threads: command.isShared ? 1 : null, heldUpMs: 0, error: null })
      break
    case 'ping':
      send({
        type: 'pong',
        id: command.id,
        runningSequences: running,
        waitingRequests: 0,
        kvCacheUsage: running / 8,
        preemptions: 0,
      })
      break
    case 'shutdown':
      process.exit(0)
      break
    default:
  }
})
