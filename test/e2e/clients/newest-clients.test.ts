/**
 * The newest major versions of clients, beside those that the package pins: each answers, streams, calls a tool and fits a schema by
 * base URL alone. `.ci/run` installs them; the documentation's table of clients names their versions.
 */
import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { seenByClient } from '../../support/clients/run-client.js'
import { startService } from '../../support/service/service-process.js'

const ROOT = path.resolve(import.meta.dirname, '../../..')
const NODE_CLIENTS = path.join(ROOT, '.cache/newest-clients')
/** Newest versions want a newer Node.js than the service does. */
const NODE = path.join(NODE_CLIENTS, 'node_modules/node/bin/node')
const PYTHON = path.join(ROOT, '.cache/newest-venv/bin/python')
const MODEL = 'trainyard/spark'
const TIMEOUT_MS = 550_000

const CLIENT = { timeoutMs: TIMEOUT_MS - 10_000 }

describe('newest clients', () => {
  let service: Awaited<ReturnType<typeof startService>>
  beforeAll(async () => {
    service = await startService()
  })
  afterAll(() => service.stop())

  test.skipIf(!existsSync(NODE))(
    'for Node.js (skipped without .cache/newest-clients, see .ci/run)',
    { timeout: TIMEOUT_MS },
    async () => {
      const script = path.join(import.meta.dirname, 'newest_node.js')
      expect(await seenByClient(NODE, [script, NODE_CLIENTS, service.url, service.key, MODEL], CLIENT)).toEqual({
        openai: { streams: true, parses: true, responds: true, calls: true },
        ai: { calls: true, streams: true, parses: true },
        langchain: { streams: true, calls: true, parses: true },
        agents: {
          chat: { calls: true, parses: true, callsByItself: true },
          responses: { calls: true, parses: true, callsByItself: true },
        },
      })
    },
  )

  test.skipIf(!existsSync(PYTHON))(
    'for Python (skipped without .cache/newest-venv, see .ci/run)',
    { timeout: TIMEOUT_MS },
    async () => {
      const script = path.join(import.meta.dirname, 'newest_python.py')
      expect(await seenByClient(PYTHON, [script, service.url, service.key, MODEL], CLIENT)).toEqual({
        openai: { streams: true, parses: true, responds: true },
        agents: {
          chat: { calls: true, parses: true, calls_by_itself: true },
          responses: { calls: true, parses: true, calls_by_itself: true },
        },
        pydantic_ai: { parses_by_tool: true, parses_by_schema: true },
        litellm: { streams: true, parses: true },
      })
    },
  )
})

test('the table of clients names the versions that are tested', () => {
  const read = (file: string): string => readFileSync(path.join(ROOT, file), 'utf8')
  const pinned = JSON.parse(read('package.json')) as Record<'dependencies' | 'devDependencies', Record<string, string>>
  const page = read('src/docs/reference/api.md')
  const section = page.slice(page.indexOf('\n## Clients'), page.indexOf('\n## Authentication'))
  const rows = [...section.matchAll(/^\| `([^`]+)` \((Node\.js|Python)\) \| ([^|]+) \|/gm)]
  expect(rows.length).toBeGreaterThan(10)
  const scripts = `${read('.ci/run')}\n${read('test/support/python-clients.txt')}`
  for (const [, name = '', language, versions = ''] of rows) {
    for (const version of versions.trim().split(', ')) {
      const isPinned = language === 'Node.js' && pinned.devDependencies[name] === version
      const named = language === 'Node.js' ? `${name}@${version}` : `==${version}`
      const isInstalled = scripts.includes(named)
      expect(isPinned || isInstalled, `${name} ${version} (${language})`).toBe(true)
    }
  }
})
