/** The protocol's own client at a service, and what a tool answers. */
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'

export async function openClient(url: string, key: string): Promise<Client> {
  const client = new Client({ name: 'test', version: '1.0.0' })
  const requestInit = { headers: { authorization: `Bearer ${key}` } }
  await client.connect(new StreamableHTTPClientTransport(new URL(`${url}/mcp`), { requestInit }))
  return client
}

export interface Answered<T> {
  readonly isError: boolean
  readonly text: string
  readonly value: T
}

interface Progress {
  readonly progress: number
  readonly total?: number | undefined
  readonly message?: string | undefined
}

export async function call<T = Record<string, unknown>>(
  client: Client,
  name: string,
  given: Record<string, unknown> = {},
  onprogress?: (progress: Progress) => void,
): Promise<Answered<T>> {
  const options = { timeout: 600_000, ...(onprogress === undefined ? {} : { onprogress }) }
  const { content, isError } = await client.callTool({ name, arguments: given }, options)
  const [first] = content as readonly { readonly text: string }[]
  const text = first?.text ?? ''
  return { isError: isError === true, text, value: JSON.parse(text) as T }
}
