/**
 * One session of an OpenEnv server: a question at a time over a websocket, `{type, data}` both ways. Node 20 has no
 * websockets of its own.
 */
import { WebSocket } from 'ws'
import { isJsonObject, type JsonObject } from '#base/util/json.js'
import { EnvironmentFailure } from '../failures.js'
import type { Capacity } from './seats.js'

/** Bytes of the longest message. */
const MOST_BYTES = 16 * 1024 * 1024
/** What of its error codes leaves the session open. */
const REFUSALS: ReadonlySet<unknown> = new Set(['VALIDATION_ERROR', 'EXECUTION_ERROR'])

/** The server has no seat left. */
export class CapacityReached extends EnvironmentFailure {
  readonly capacity: Capacity

  constructor(name: string, { active_sessions: active, max_sessions: most }: JsonObject) {
    super('env_error', `${name}: all of its ${String(most ?? '')} sessions are taken`, {
      hint: 'end the other sessions, or let the server allow more',
    })
    this.capacity = { active: Number(active ?? 1), most: Number(most ?? 1) }
  }
}

export interface Socket {
  /** @throws {EnvironmentFailure} `env_error` where it refuses, and the session stays; any other, and it has ended */
  ask(type: 'reset' | 'step', data: JsonObject): Promise<JsonObject>
  close(): void
}

interface SocketOptions {
  readonly name: string
  readonly timeoutMs: number
  readonly signal: AbortSignal
}

export async function openSocket(url: URL, { name, timeoutMs, signal }: SocketOptions): Promise<Socket> {
  signal.throwIfAborted()
  const socket = new WebSocket(url, { handshakeTimeout: timeoutMs, maxPayload: MOST_BYTES, perMessageDeflate: false })
  let wasOpen = false
  let ended: EnvironmentFailure | null = null
  let answer: ((message: JsonObject | EnvironmentFailure) => void) | null = null
  const end = (failure: EnvironmentFailure): void => {
    ended ??= failure
    answer?.(ended)
    socket.terminate()
  }
  const abort = (): void => end(new EnvironmentFailure('env_error', `${name}: the episode was ended`))
  signal.addEventListener('abort', abort, { once: true })
  socket.on('message', (data) => {
    const message = parse(String(data))
    if (message === null)
      return end(
        new EnvironmentFailure('env_protocol', `${name}: a message is no JSON object: "${String(data).slice(0, 80)}"`),
      )
    const fault = faultOf(name, message)
    // said before anything was asked: the session never began
    if (fault !== null && answer === null) return end(fault)
    if (fault !== null && !(fault.kind === 'env_error' && !(fault instanceof CapacityReached))) ended ??= fault
    answer?.(fault ?? message)
  })
  socket.on('error', (error) =>
    end(new EnvironmentFailure('env_crashed', `${name}: ${error.message}`, { isStart: !wasOpen })),
  )
  socket.on('close', (code) => {
    signal.removeEventListener('abort', abort)
    end(new EnvironmentFailure('env_crashed', `${name}: the server closed the session (${code})`))
  })
  await new Promise<void>((resolve) => {
    socket.once('open', () => {
      wasOpen = true
      resolve()
    })
    socket.once('close', () => resolve())
  })
  if (!wasOpen) {
    signal.throwIfAborted()
    throw ended ?? new EnvironmentFailure('env_crashed', `${name}: no connection`, { isStart: true })
  }

  return {
    async ask(type, data) {
      if (ended !== null) throw ended
      const message = await new Promise<JsonObject | EnvironmentFailure>((resolve) => {
        const timer = setTimeout(
          () => end(new EnvironmentFailure('env_timeout', `${name}: ${type}: no answer after ${timeoutMs / 1000} s`)),
          timeoutMs,
        )
        answer = (said) => {
          clearTimeout(timer)
          answer = null
          resolve(said)
        }
        socket.send(JSON.stringify({ type, data }))
      })
      if (message instanceof EnvironmentFailure) {
        signal.throwIfAborted()
        throw message
      }
      const observed = message['data']
      if (message['type'] === 'observation' && isJsonObject(observed)) return observed
      throw new EnvironmentFailure('env_protocol', `${name}: ${type} was answered by "${String(message['type'])}"`)
    },
    close() {
      if (ended === null && socket.readyState === WebSocket.OPEN) socket.send('{"type":"close"}')
      ended ??= new EnvironmentFailure('env_error', `${name}: the session is closed`)
      socket.close()
      // one that does not say goodbye
      const timer = setTimeout(() => socket.terminate(), 1000)
      timer.unref()
      socket.once('close', () => clearTimeout(timer))
    },
  }
}

/** What a message says went wrong; null of one that says nothing of the kind. */
function faultOf(name: string, { type, data }: JsonObject): EnvironmentFailure | null {
  if (type !== 'error') return null
  const { code, message, errors } = isJsonObject(data) ? data : {}
  if (code === 'CAPACITY_REACHED') return new CapacityReached(name, isJsonObject(data) ? data : {})
  const details = errors === undefined ? '' : `: ${JSON.stringify(errors).slice(0, 500)}`
  const said = `${String(message ?? 'no reason given')}${details}`
  if (REFUSALS.has(code)) return new EnvironmentFailure('env_error', said)
  const kind = code === 'FACTORY_ERROR' || code === 'SESSION_ERROR' ? 'env_crashed' : 'env_protocol'
  return new EnvironmentFailure(kind, `${name}: ${String(code)}: ${said}`, { isStart: code === 'FACTORY_ERROR' })
}

function parse(text: string): JsonObject | null {
  try {
    const value: unknown = JSON.parse(text)
    return isJsonObject(value) ? value : null
  } catch {
    return null
  }
}
