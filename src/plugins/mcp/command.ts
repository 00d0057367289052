/**
 * `trainyard mcp`: what `/mcp` of the server in use offers, for agents that start a program and speak with it over its standard input.
 */
import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { ProtocolError, Server, type ServerContext } from '@modelcontextprotocol/server'
import { serveStdio } from '@modelcontextprotocol/server/stdio'
import { defineCommand } from '#cli/command/define-command.js'
import { ProtocolError as NoProtocol } from '#sdk/client/errors.js'

const UPLOAD = 'upload_file'
/** A tool may wait for minutes; its progress is passed on meanwhile. */
const LONGEST_CALL_MS = 900_000

export const mcp = defineCommand({
  path: ['mcp'],
  summary: 'Offer the service to an agent as tools, over standard input',
  details:
    'Speaks the Model Context Protocol on stdin and stdout, with the server and key in use. An agent that speaks HTTP needs no program: the same is at /mcp of the server, with the key as bearer token.',
  examples: [
    ['trainyard mcp', 'as the command of an agent’s configuration'],
    ['trainyard mcp --server https://train.example', 'tools of another server'],
  ],
  args: {},
  flags: {},
  exits: [],
  async run({ config, connect, credential, signal, version }) {
    // a server that is not there, or does not take the key, is told as by every command, and not in the words of the protocol
    await (await connect()).whoami({ signal })
    const key = (await credential())?.key
    const url = new URL(`${config.get('server').replace(/\/+$/, '')}/mcp`)
    const headers: Record<string, string> = key === undefined ? {} : { authorization: `Bearer ${key}` }
    const client = new Client({ name: 'trainyard mcp', version })
    try {
      await client.connect(new StreamableHTTPClientTransport(url, { requestInit: { headers } }))
    } catch (error) {
      throw new NoProtocol(`${url.href} offers no tools`, error)
    }
    const served = serveStdio(() => createBridge(client, version))
    await new Promise<void>((end) => {
      signal.addEventListener('abort', () => end(), { once: true })
      process.stdin.once('end', () => end())
      process.stdin.once('close', () => end())
    })
    await served.close()
    await client.close()
  },
})

/** Passes everything on; a file of this machine is read here, for the server sees none of them. */
function createBridge(client: Client, version: string): Server {
  const server = new Server(
    { name: 'trainyard', version },
    {
      capabilities: { tools: {}, resources: {}, prompts: {} },
      instructions: client.getInstructions() ?? '',
    },
  )
  server.setRequestHandler('tools/list', async () => {
    const { tools } = await client.listTools()
    return { tools: tools.map((tool) => (tool.name === UPLOAD ? withPath(tool) : tool)) }
  })
  server.setRequestHandler('tools/call', async ({ params: { name, arguments: given = {} } }, context) =>
    client.callTool(
      { name, arguments: name === UPLOAD ? await withContent(given) : given },
      { signal: context.mcpReq.signal, timeout: LONGEST_CALL_MS, onprogress: passOn(context) },
    ),
  )
  server.setRequestHandler('resources/list', () => client.listResources())
  server.setRequestHandler('resources/templates/list', () => client.listResourceTemplates())
  server.setRequestHandler('resources/read', ({ params: { uri } }) => client.readResource({ uri }))
  server.setRequestHandler('prompts/list', () => client.listPrompts())
  server.setRequestHandler('prompts/get', ({ params: { name, arguments: given = {} } }) =>
    client.getPrompt({ name, arguments: given }),
  )
  return server
}

type Listed = Awaited<ReturnType<Client['listTools']>>['tools'][number]

function withPath(tool: Listed): Listed {
  const path = { type: 'string', description: 'A file of this machine, instead of content' }
  return {
    ...tool,
    inputSchema: { ...tool.inputSchema, properties: { ...tool.inputSchema.properties, path }, required: [] },
  }
}

async function withContent({ path, ...given }: Record<string, unknown>): Promise<Record<string, unknown>> {
  if (path === undefined) return given
  if (typeof path !== 'string' || given['content'] !== undefined)
    throw new ProtocolError(-32602, 'upload_file takes path, a text, or content, not both')
  try {
    return {
      filename: path.split(/[\\/]/).at(-1) ?? 'rows.jsonl',
      ...given,
      content: await readFile(resolve(path), 'utf8'),
    }
  } catch (error) {
    throw new ProtocolError(-32602, `${path} cannot be read: ${(error as NodeJS.ErrnoException).code ?? String(error)}`)
  }
}

const passOn =
  ({ mcpReq }: ServerContext) =>
  ({
    progress,
    total,
    message,
  }: {
    progress: number
    total?: number | undefined
    message?: string | undefined
  }): void => {
    const progressToken = mcpReq._meta?.['progressToken'] as string | number | undefined
    if (progressToken === undefined) return
    const params = {
      progressToken,
      progress,
      ...(total === undefined ? {} : { total }),
      ...(message === undefined ? {} : { message }),
    }
    mcpReq.notify({ method: 'notifications/progress', params }).catch(() => undefined)
  }
