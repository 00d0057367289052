/**
 * Files by content: rows that an agent wrote go up as text, and come back a part at a time.
 */
import type { EndpointTable, Key } from '#contract/endpoints/table.js'
import { type KeyScope, scopeContains } from '#contract/wire/access/key-words.js'
import { MOST_BYTES } from './bounded.js'
import { askFor, type Tool, ToolError } from './tool.js'

/** Whether the service has all of these and the key may ask them. */
export function mayAsk(table: EndpointTable, scope: KeyScope, keys: readonly Key[]): boolean {
  return keys.every((key) => {
    const row = table.endpoints[key]
    return row !== undefined && (row.scope === 'open' || (row.scope !== 'attempt' && scopeContains(scope, row.scope)))
  })
}

export function uploadTool(table: EndpointTable, scope: KeyScope): Tool | null {
  if (!mayAsk(table, scope, ['POST /v1/files'])) return null
  return {
    name: 'upload_file',
    description:
      'Upload rows, a JSON object a line: {"messages": […]} to train on examples or as prompts, {"prompt", "chosen", "rejected"} for ' +
      'preferences. Answers the id that training tools take.',
    inputSchema: {
      type: 'object',
      properties: {
        content: { type: 'string', description: 'The rows' },
        filename: { type: 'string', maxLength: 200, description: 'Default rows.jsonl' },
      },
      required: ['content'],
      additionalProperties: false,
    },
    isReadOnly: false,
    isDestructive: false,
    run: async ({ content, filename }, call) => {
      if (typeof content !== 'string' || content === '')
        throw new ToolError('upload_file needs content, a text', 'invalid_arguments', 'a JSON object a line')
      const form = new FormData()
      form.set('purpose', 'fine-tune')
      form.set('file', new Blob([content]), typeof filename === 'string' && filename !== '' ? filename : 'rows.jsonl')
      return await askFor(call, 'POST', '/v1/files', form)
    },
  }
}

/** Characters of one answer: twice as many as JSON may need escapes still fit. */
const PART = Math.floor(MOST_BYTES / 4)

export function readFileTool(table: EndpointTable, scope: KeyScope): Tool | null {
  if (!mayAsk(table, scope, ['GET /v1/files/{file_id}/content'])) return null
  return {
    name: 'read_file',
    description: `A part of a file's text, ${PART} characters from an offset on.`,
    inputSchema: {
      type: 'object',
      properties: {
        file_id: { type: 'string', description: 'Id of a file: list_files lists it' },
        offset: { type: 'integer', minimum: 0, description: 'Characters; default 0' },
      },
      required: ['file_id'],
      additionalProperties: false,
    },
    isReadOnly: true,
    isDestructive: false,
    run: async ({ file_id: id, offset = 0 }, { ask, signal }) => {
      const from = Number(offset)
      if (!Number.isInteger(from) || from < 0)
        throw new ToolError(`offset must be a whole number from 0, got ${String(offset)}`, 'invalid_arguments', null)
      const response = await ask(`/v1/files/${encodeURIComponent(String(id))}/content`, { signal })
      if (!response.ok) {
        const { error } = (await response.json()) as { error?: { message?: string; code?: string } }
        throw new ToolError(error?.message ?? `HTTP ${response.status}`, error?.code ?? 'file_not_found', null)
      }
      return await readPart(response, from)
    },
  }
}

/** Reads no further than the part, and counts nothing behind it: a file may have gigabytes. */
async function readPart(response: Response, from: number) {
  const text = new TextDecoder()
  let passed = 0
  let part = ''
  let isCut = false
  for await (const bytes of response.body ?? []) {
    const piece = text.decode(bytes, { stream: true })
    const start = Math.max(from - passed, 0)
    passed += piece.length
    if (start >= piece.length) continue
    part += piece.slice(start)
    if (part.length <= PART) continue
    isCut = true
    break
  }
  return { offset: from, text: part.slice(0, PART), next_offset: isCut ? from + PART : null }
}
