/**
 * What a tool is, and what it asks the service.
 */
import type { JsonObject, JsonValue } from '#base/util/json.js'

/** Asks the service for the caller. */
export type Ask = (path: string, init?: RequestInit) => Promise<Response>

export interface ToolCall {
  readonly ask: Ask
  readonly signal: AbortSignal
  /** Tells whoever waits. */
  readonly progress: (done: number, total: number | null, message: string) => Promise<void>
}

export interface Tool {
  readonly name: string
  readonly description: string
  readonly inputSchema: JsonObject
  readonly isReadOnly: boolean
  readonly isDestructive: boolean
  run(given: JsonObject, call: ToolCall): Promise<JsonValue>
}

/** A refusal of the service, as an agent reads it. */
export class ToolError extends Error {
  override readonly name = 'ToolError'
  readonly code: string
  readonly hint: string | null

  constructor(message: string, code: string, hint: string | null) {
    super(message)
    this.code = code
    this.hint = hint
  }
}

/** @throws {ToolError} for a refusal */
export async function askFor(
  { ask, signal }: ToolCall,
  method: string,
  path: string,
  body: JsonObject | FormData | null = null,
): Promise<JsonValue> {
  const json = body !== null && !(body instanceof FormData)
  const response = await ask(path, {
    method,
    signal,
    ...(json ? { headers: { 'content-type': 'application/json' } } : {}),
    ...(body === null ? {} : { body: json ? JSON.stringify(body) : (body as FormData) }),
  })
  const text = await response.text()
  const value = parsed(text)
  if (response.ok) return value ?? text
  const { error, detail } = (value ?? {}) as { error?: JsonObject; detail?: JsonValue }
  const said = error?.['message'] ?? (typeof detail === 'string' ? detail : null) ?? `HTTP ${response.status}`
  throw new ToolError(
    String(said),
    String(error?.['code'] ?? response.status),
    (error?.['hint'] as string | null) ?? null,
  )
}

function parsed(text: string): JsonValue | null {
  try {
    return JSON.parse(text) as JsonValue
  } catch {
    return null
  }
}

export function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = (): void => {
      clearTimeout(timer)
      reject(signal.reason as Error)
    }
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', stop)
      resolve()
    }, ms)
    signal.addEventListener('abort', stop, { once: true })
  })
}
