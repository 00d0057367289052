/**
 * A server of the protocol for one caller: the tools that its key may use, resources and prompts.
 */
import { type CallToolResult, ProtocolError, Server, type ServerContext } from '@modelcontextprotocol/server'
import type { JsonObject } from '#base/util/json.js'
import { bounded } from './bounded.js'
import { listPrompts, promptOf } from './prompts.js'
import { listPages, RESOURCE_TEMPLATES, readResource } from './resources.js'
import { type Ask, type Tool, type ToolCall, ToolError } from './tool.js'
import { nextCallOf } from './tools.js'

export interface McpServerOptions {
  readonly version: string
  readonly tools: readonly Tool[]
  readonly ask: Ask
}

const INSTRUCTIONS =
  'Trains small language models on this service. The order that works: write held-out prompts and a grader; evaluate the base model; ' +
  'train_on_examples if it never gets it right; train_with_grader when it sometimes does; evaluate again on the same rows. Every job says ' +
  'in its warnings what looks wrong and what to do.'
/** JSON-RPC: what is named does not exist. */
const INVALID_PARAMS = -32602

export function createMcpServer({ version, tools, ask }: McpServerOptions): Server {
  const server = new Server(
    { name: 'trainyard', version },
    { capabilities: { tools: {}, resources: {}, prompts: {} }, instructions: INSTRUCTIONS },
  )
  const callOf = (context: ServerContext): ToolCall => ({
    ask,
    signal: context.mcpReq.signal,
    progress: async (progress, total, message) => {
      const progressToken = context.mcpReq._meta?.['progressToken'] as string | number | undefined
      if (progressToken === undefined) return
      const params = { progressToken, progress, message, ...(total === null ? {} : { total }) }
      await context.mcpReq.notify({ method: 'notifications/progress', params })
    },
  })

  server.setRequestHandler('tools/list', () => ({
    tools: tools.map(({ name, description, inputSchema, isReadOnly, isDestructive }) => ({
      name,
      description,
      inputSchema: inputSchema as JsonObject & { type: 'object' },
      annotations: { readOnlyHint: isReadOnly, destructiveHint: isDestructive, openWorldHint: false },
    })),
  }))
  server.setRequestHandler('tools/call', async ({ params }, context) => {
    const tool = tools.find(({ name }) => name === params.name)
    if (tool === undefined) {
      throw new ProtocolError(
        INVALID_PARAMS,
        `there is no tool ${params.name.slice(0, 100)} for this key; tools/list names them`,
      )
    }
    return answerOf(tool, (params.arguments ?? {}) as JsonObject, callOf(context))
  })
  server.setRequestHandler('resources/list', async () => ({ resources: await listPages() }))
  server.setRequestHandler('resources/templates/list', () => ({ resourceTemplates: RESOURCE_TEMPLATES }))
  server.setRequestHandler('resources/read', async ({ params: { uri } }, context) => {
    try {
      return { contents: [{ uri, ...(await readResource(uri, callOf(context))) }] }
    } catch (error) {
      if (!(error instanceof ToolError)) throw error
      throw new ProtocolError(INVALID_PARAMS, error.message)
    }
  })
  server.setRequestHandler('prompts/list', () => ({ prompts: listPrompts() }))
  server.setRequestHandler('prompts/get', ({ params }) => {
    const prompt = promptOf(params.name, params.arguments ?? {})
    if (prompt !== null) return prompt
    throw new ProtocolError(INVALID_PARAMS, `there is no prompt ${params.name.slice(0, 100)}; prompts/list names them`)
  })
  return server
}

const HINTS = 'ask with limit and after, or for one thing by its id'

async function answerOf(tool: Tool, given: JsonObject, call: ToolCall): Promise<CallToolResult> {
  try {
    return { content: [{ type: 'text', text: bounded(await tool.run(given, call), HINTS) }] }
  } catch (error) {
    if (!(error instanceof ToolError)) throw error
    const { message, code, hint } = error
    const next = nextCallOf(code)
    const text = bounded(
      { error: message, code, ...(hint === null ? {} : { hint }), ...(next === null ? {} : { next_call: next }) },
      HINTS,
    )
    return { content: [{ type: 'text', text }], isError: true }
  }
}
