/**
 * A session with an MCP server: by the SDK's client over our own child (a process group a session, bounded lines, no
 * variable of ours), or over streamable HTTP. What it answers is text or a failure.
 */
import {
  Client,
  type JSONRPCMessage,
  SdkError,
  StreamableHTTPClientTransport,
  type Transport,
} from '@modelcontextprotocol/client'
import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'
import { packageVersion } from '#base/util/package-root.js'
import type { Tool } from '#sdk/rl/trajectory.js'
import { childOf, type LineChild, startLineChild } from '../child.js'
import { EnvironmentFailure } from '../failures.js'
import type { SourceSetup } from '../source.js'

/** Characters of the longest result: more than any model here reads. */
const MOST_CHARACTERS = 256 * 1024
/** Tools of a server. */
const MOST_TOOLS = 128

/** A command to start, or a server to call. */
export type McpAddress = { readonly words: readonly [string, ...string[]] } | { readonly url: URL }

interface McpResult {
  readonly text: string
  readonly isError: boolean
  /** Parts that are no text and were left out. */
  readonly dropped: number
}

export interface McpSession {
  readonly server: { readonly name: string; readonly version: string }
  readonly tools: readonly Tool[]
  call(tool: string, args: JsonObject): Promise<McpResult>
  close(): Promise<void>
}

/** @throws {EnvironmentFailure} `env_crashed`, `env_timeout`, `env_protocol` */
export async function openMcpSession(
  setup: SourceSetup,
  { address, name, signal }: { readonly address: McpAddress; readonly name: string; readonly signal: AbortSignal },
): Promise<McpSession> {
  const child = 'words' in address ? startLineChild(childOf(setup, name, address.words)) : null
  const transport =
    child === null ? new StreamableHTTPClientTransport((address as { readonly url: URL }).url) : childTransport(child)
  const client = new Client({ name: 'trainyard', version: packageVersion() })
  const options = { timeout: setup.stepTimeoutMs, signal }
  const ended = child === null ? null : endOf(child)
  /** A child that ends answers nothing any more. */
  async function within<T>(doing: string, work: Promise<T>): Promise<T> {
    try {
      return await (ended === null ? work : Promise.race([work, ended]))
    } catch (error) {
      if (signal.aborted) throw signal.reason
      work.catch(() => undefined)
      throw toMcpFailure(error, `${name}: ${doing}`, setup.stepTimeoutMs)
    }
  }
  const close = async (): Promise<void> => {
    await client.close().catch(() => undefined)
    await child?.close()
  }
  try {
    await within('connecting', client.connect(transport as Transport, options))
    const { tools } = await within('tools/list', client.listTools(undefined, options))
    if (tools.length > MOST_TOOLS)
      throw new EnvironmentFailure('env_protocol', `${name} has ${tools.length} tools, more than ${MOST_TOOLS}`)
    const { name: server = name, version = '' } = client.getServerVersion() ?? {}
    return {
      server: { name: server, version },
      tools: chosen(tools, setup.settings).map((tool) => toTool(tool as JsonObject & { readonly name: string })),
      call: async (tool, args) =>
        toResult(
          (await within(tool, client.callTool({ name: tool, arguments: args }, options))) as JsonObject,
          `${name}: ${tool}`,
        ),
      close,
    }
  } catch (error) {
    child?.kill()
    await close()
    throw error instanceof EnvironmentFailure && !error.isStart && error.kind === 'env_crashed'
      ? new EnvironmentFailure('env_crashed', error.message, { isStart: true })
      : error
  }
}

/**
 * Those that `--set tools=a,b` names: a small model has no room for many. @throws {EnvironmentFailure} for a name that no
 * tool has
 */
function chosen<T extends { readonly name: string }>(tools: readonly T[], settings: JsonObject): readonly T[] {
  if (settings['tools'] === undefined) return tools
  return String(settings['tools'])
    .split(',')
    .map((name) => {
      const tool = tools.find((each) => each.name === name.trim())
      if (tool !== undefined) return tool
      throw new EnvironmentFailure(
        'env_error',
        `there is no tool "${name}" among ${tools.map((each) => each.name).join(', ')}`,
      )
    })
}

function childTransport(child: LineChild): Transport {
  const transport: Transport = {
    async start() {
      child.onMessage = (message) => transport.onmessage?.(message as JSONRPCMessage)
    },
    async send(message) {
      child.send(message as JsonValue)
    },
    async close() {
      await child.close()
      transport.onclose?.()
    },
  }
  return transport
}

function endOf(child: LineChild): Promise<never> {
  const ended = new Promise<never>((_, reject) => {
    child.onEnd = reject
  })
  // who waits for nothing of it is not told
  ended.catch(() => undefined)
  return ended
}

function toMcpFailure(error: unknown, doing: string, timeoutMs: number): unknown {
  if (error instanceof EnvironmentFailure) return error
  const message = error instanceof Error ? error.message : String(error)
  if (error instanceof SdkError && /timed? ?out/i.test(message)) {
    return new EnvironmentFailure('env_timeout', `${doing}: no answer after ${timeoutMs / 1000} s`, { cause: error })
  }
  if (/fetch failed|ECONNREFUSED|closed/i.test(message))
    return new EnvironmentFailure('env_crashed', `${doing}: ${message}`, { cause: error })
  return new EnvironmentFailure('env_protocol', `${doing}: ${message}`, { cause: error })
}

function toTool(tool: JsonObject & { readonly name: string }): Tool {
  const parameters = isJsonObject(tool['inputSchema']) ? tool['inputSchema'] : { type: 'object', properties: {} }
  return {
    type: 'function',
    function: { name: tool.name, description: String(tool['description'] ?? ''), parameters, strict: true },
  }
}

/** Its texts; a part that is none is named and left out. */
function toResult({ content, isError }: JsonObject, doing: string): McpResult {
  const parts = (Array.isArray(content) ? content : []).filter(isJsonObject)
  const texts = parts.map((part) =>
    part['type'] === 'text' ? String(part['text'] ?? '') : `[${String(part['type'])} left out]`,
  )
  const text = texts.join('\n')
  if (text.length > MOST_CHARACTERS) {
    throw new EnvironmentFailure(
      'env_error',
      `${doing} answered with ${text.length} characters, more than the ${MOST_CHARACTERS} that are read`,
    )
  }
  return {
    text: isError === true ? `error: ${text}` : text,
    isError: isError === true,
    dropped: parts.filter((part) => part['type'] !== 'text').length,
  }
}
