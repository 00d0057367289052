/**
 * A scripted engine host for tests of the server: speaks `inference/host/protocol.ts`, computes nothing.
 *
 * The answer repeats the last message's text, one token (= one character) per delta. Words in that text steer it:
 * `CRASH` kills the process after the first token, `FREEZE` blocks it there for ever, `BUSY` lets it compute for three
 * seconds without a word, `SLOW` waits between tokens, `FOREVER` never stops by itself, `COUNT` answers with how many other
 * requests run, `WAIT` is not started before it is aborted.
 */
import { setTimeout as sleep } from 'node:timers/promises'

const CONTEXT_LENGTH = 2048
const aborted = new Set()
let running = 0

const send = (event) => process.send?.([event])
const idOf = (character) => character.codePointAt(0) ?? 0

function logprobOf(character) {
  return { id: idOf(character), logprob: -0.5, text: character, bytes: [...Buffer.from(character)] }
}

async function generate(command) {
  const { id, messages, sampling, adapter } = command
  const text = String(messages.at(-1).content ?? '')
  const prompt = [...messages.map((message) => `${message.role}:${message.content}`).join('\n')]
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
    const nothing = { choice: 0, text: '', tokenIds: [], logprobs: [], finishReason: 'abort', stopReason: null }
    send({ type: 'delta', id, ...nothing })
    send({ type: 'finished', id })
    return
  }
  running += 1
  send({ type: 'started', id, promptTokenIds, cachedTokens: 0, isReasoningOpen: false })
  const answer =
    text === 'COUNT'
      ? [...`running:${running - 1}`]
      : [...`${adapter === null ? 'base' : `step-${adapter.digest.slice(0, 6)}`}:${text}`]
  const limit = Math.min(sampling.maxTokens ?? 256, CONTEXT_LENGTH - promptTokenIds.length)
  for (let choice = 0; choice < sampling.n; choice += 1) await answerChoice(command, choice, answer, text, limit)
  running -= 1
  aborted.delete(id)
  send({ type: 'finished', id })
}

/** As a deadlock in native code: the thread sleeps and never wakes. */
function freeze() {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
}

function computeForMs(durationMs) {
  const endMs = performance.now() + durationMs
  while (performance.now() < endMs);
}

async function answerChoice({ id, sampling }, choice, answer, text, limit) {
  const isEndless = text.includes('FOREVER')
  for (let t = 0; ; t += 1) {
    if (text.includes('CRASH') && t === 1) process.kill(process.pid, 'SIGKILL')
    if (text.includes('FREEZE') && t === 1) freeze()
    if (text.includes('BUSY') && t === 1) computeForMs(3000)
    if (text.includes('SLOW') || isEndless) await sleep(5)
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
        answerFormat: { toolFormat: 'hermes', showsTools: true, hasReasoning: true },
      })
      break
    case 'generate':
      void generate(command)
      break
    case 'abort':
      aborted.add(command.id)
      break
    case 'ping':
      send({ type: 'pong', id: command.id, runningSequences: running, waitingRequests: 0 })
      break
    case 'shutdown':
      process.exit(0)
      break
    default:
  }
})
