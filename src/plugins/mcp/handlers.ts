/**
 * `POST /mcp`: each request by itself, so that several servers behind one address need not know each other's clients.
 */
import { createMcpHandler } from '@modelcontextprotocol/server'
import type { PluginHandlers, PluginService, PluginStart } from '#service/plugin.js'
import type { mcpEndpoints } from './endpoints.js'
import { createMcpServer } from './server.js'
import { toolsOf } from './tools.js'

/** Requests of a tool go nowhere else: the address only says their paths. */
const HERE = 'http://localhost'

export function mcpHandlers({
  app,
  started,
}: PluginService<Pick<PluginStart, 'ask'>>): PluginHandlers<typeof mcpEndpoints> {
  return {
    'POST /mcp': async ({ c, principal, body }) => {
      const parsedBody = await body()
      // Requests of tools are let in and counted by their own endpoints; the connection is this one's, and files would be sent over it.
      const ask = (path: string, init?: RequestInit) => started.ask(principal, new Request(`${HERE}${path}`, init))
      const tools = toolsOf(app.table, principal.scope)
      const handler = createMcpHandler(() => createMcpServer({ version: app.version, tools, ask }))
      return handler.fetch(c.req.raw, { parsedBody })
    },
  }
}
