/** A server made with the SDK: a sum, and tools that fail in the way their names say. With a port it speaks HTTP. */
import { createServer } from 'node:http'
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server'
import { serveStdio } from '@modelcontextprotocol/server/stdio'
import { z } from 'zod'

const text = (value) => ({ content: [{ type: 'text', text: value }] })

function create() {
  const server = new McpServer({ name: 'sums', version: '1.2.3' })
  const numbers = { inputSchema: z.object({ a: z.number(), b: z.number() }), description: 'adds' }
  const nothing = { inputSchema: z.object({}), description: 'fails' }
  server.registerTool('add', numbers, ({ a, b }) => text(String(a + b)))
  server.registerTool('die', nothing, () => {
    process.stderr.write('out of memory, it says\n')
    process.exit(9)
  })
  server.registerTool('hang', nothing, () => new Promise(() => undefined))
  server.registerTool('large', nothing, () => text('x'.repeat(1024 * 1024)))
  server.registerTool('picture', nothing, () => ({
    content: [
      { type: 'text', text: 'a cat' },
      { type: 'image', data: 'AAAA', mimeType: 'image/png' },
    ],
  }))
  server.registerTool('fail', nothing, () => ({ ...text('no such city'), isError: true }))
  return server
}

if (process.argv[2] !== 'http') serveStdio(create)
else {
  const handler = createMcpHandler(create)
  const http = createServer(async (incoming, outgoing) => {
    const chunks = []
    for await (const chunk of incoming) chunks.push(chunk)
    const headers = new Headers(Object.entries(incoming.headers).map(([name, value]) => [name, String(value)]))
    const body = chunks.length === 0 ? undefined : Buffer.concat(chunks)
    const response = await handler.fetch(
      new Request(`http://${incoming.headers.host}${incoming.url}`, { method: incoming.method, headers, body }),
    )
    outgoing.writeHead(response.status, Object.fromEntries(response.headers))
    for await (const part of response.body ?? []) outgoing.write(part)
    outgoing.end()
  })
  http.listen(0, '127.0.0.1', () => process.stdout.write(`${http.address().port}\n`))
}
