/**
 * Behind a real nginx with TLS and a prefix, started with the lines that the documentation gives: every link in an answer leads through
 * the proxy, answers stream, large bodies pass. Skipped where there is no nginx.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startService } from '../support/service/service-process.js'
import { unassignedPort } from '../support/service/unassigned-port.js'
import { until } from '../support/until.js'

const ROOT = join(import.meta.dirname, '../..')
const TLS = join(ROOT, 'test/fixtures/tls')
const hasNginx = spawnSync('nginx', ['-v']).status === 0

const SHAPES = [
  { name: 'with --public-url', isPublicUrl: true, takesPrefixOff: true },
  { name: 'with --public-url, where the proxy leaves the prefix', isPublicUrl: true, takesPrefixOff: false },
  { name: 'with --trusted-proxy', isPublicUrl: false, takesPrefixOff: true },
]

describe.skipIf(!hasNginx).each(SHAPES)('behind nginx, $name', ({ isPublicUrl, takesPrefixOff }) => {
  let service: Awaited<ReturnType<typeof startService>>
  let nginx: ChildProcess
  let base: string
  let folder: string

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'trainyard-test-'))
    // the certificate is a test's own; only this file's process believes it
    process.env['NODE_TLS_REJECT_UNAUTHORIZED'] = '0'
    const port = await unassignedPort()
    base = `https://localhost:${port}/trainyard`
    const args = isPublicUrl ? ['--public-url', base] : ['--trusted-proxy', '127.0.0.1']
    service = await startService({ args: [...args, '--train-workers', '0'] })
    const documented =
      /```nginx\n([\s\S]+?)```/.exec(readFileSync(join(ROOT, 'src/docs/operations.md'), 'utf8'))?.[1] ?? ''
    const lines = documented
      .replace('listen 443', `listen 127.0.0.1:${port}`)
      .replace('train.example;', 'localhost;')
      .replace('/etc/ssl/train.example.pem', join(TLS, 'certificate.pem'))
      .replace('/etc/ssl/train.example.key', join(TLS, 'key.pem'))
      .replace('http://127.0.0.1:8642/', `${service.url}${takesPrefixOff ? '/' : ''}`)
    const config = join(folder, 'nginx.conf')
    const places = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((of) => `${of}_temp_path ${folder}/${of};`)
    writeFileSync(
      config,
      `daemon off; master_process off; pid ${folder}/nginx.pid; error_log ${folder}/error.log;
events {} http { access_log off; ${places.join(' ')}
${lines}
}`,
    )
    nginx = spawn('nginx', ['-e', join(folder, 'error.log'), '-p', folder, '-c', config], {
      stdio: ['ignore', 'ignore', 'inherit'],
    })
    await until(async () => (await fetch(`${base}/v1/health`).catch(() => null))?.status === 200, 'nginx answers')
  })

  afterAll(async () => {
    nginx.kill('SIGTERM')
    await service.stop()
    rmSync(folder, { recursive: true, force: true })
    delete process.env['NODE_TLS_REJECT_UNAUTHORIZED']
  })

  const authorization = () => ({ authorization: `Bearer ${service.key}` })

  test('what the server says of itself leads through the proxy', async () => {
    const about = (await (await fetch(`${base}/`)).json()) as { readonly api: string; readonly docs: string }
    expect(about).toMatchObject({ api: `${base}/v1`, docs: `${base}/docs` })
    const openApi = (await (await fetch(`${base}/openapi.json`)).json()) as { readonly servers: unknown }
    expect(openApi.servers).toEqual([{ url: base }])
    for (const page of [about.docs, `${about.docs}/operations`]) {
      const html = await (await fetch(page)).text()
      const links = [...html.matchAll(/ (?:href|src)="([^"#]+)[^"]*"/g)].map(([, link]) => new URL(link ?? '', page))
      const own = [...new Set(links.filter(({ host }) => host === new URL(base).host).map(({ href }) => href))]
      expect(own.length).toBeGreaterThan(5)
      for (const link of own) expect([link, (await fetch(link)).status]).toEqual([link, 200])
    }
  })

  test('answers stream, and events of a job that waits come at once', async () => {
    const client = new OpenAI({ apiKey: service.key, baseURL: `${base}/v1`, maxRetries: 0 })
    const request = {
      model: 'trainyard/spark',
      messages: [{ role: 'user' as const, content: 'Hi' }],
      max_tokens: 16,
      seed: 1,
    }
    const whole = await client.chat.completions.create(request)
    let text = ''
    for await (const chunk of await client.chat.completions.create({ ...request, stream: true })) {
      text += chunk.choices[0]?.delta.content ?? ''
    }
    expect(text).toBe(whole.choices[0]?.message.content)

    const row = JSON.stringify({
      messages: [
        { role: 'user', content: 'a' },
        { role: 'assistant', content: 'b' },
      ],
      // makes the body larger than what proxies let through by default
      note: 'n'.repeat(10_000),
    })
    const file = await client.files.create({
      file: new File([`${row}\n`.repeat(400)], 'rows.jsonl'),
      purpose: 'fine-tune',
    })
    expect(file.bytes).toBeGreaterThan(4_000_000)
    await client.fineTuning.jobs.create({ model: 'trainyard/spark', training_file: file.id })
    const [job] = (await service.api.call('GET', '/v1/preview/training-jobs')).data
    const events = await fetch(`${base}/v1/preview/training-jobs/${job.id}/events`, {
      headers: { ...authorization(), accept: 'text/event-stream' },
    })
    expect(events.headers.get('content-type')).toContain('text/event-stream')
    const reader = events.body?.getReader()
    // no worker runs: the stream says nothing more and does not end
    expect(new TextDecoder().decode((await reader?.read())?.value)).not.toBe('')
    await reader?.cancel()
  })

  test("the wandb client's upload address leads through the proxy", async () => {
    const basic = {
      authorization: `Basic ${Buffer.from(`api:${service.key}`).toString('base64')}`,
      'content-type': 'application/json',
    }
    const ask = async (query: string, input: object): Promise<Record<string, unknown>> => {
      const answer = await fetch(`${base}/graphql`, {
        method: 'POST',
        headers: basic,
        body: JSON.stringify({ query, variables: { input } }),
      })
      return (await answer.json()) as Record<string, unknown>
    }
    const text = 'some bytes'
    const created = await ask('mutation M($input: I!) { createArtifact(input: $input) { artifact { id } } }', {
      entityName: 'local',
      projectName: 'tests',
      artifactCollectionName: 'numbers',
      artifactTypeName: 'dataset',
      digest: 'd',
      aliases: [],
    })
    const artifactID = /"id":"([^"]+)"/.exec(JSON.stringify(created))?.[1]
    const files = await ask(
      'mutation M($input: I!) { createArtifactFiles(input: $input) { files { edges { node { uploadUrl } } } } }',
      { artifactFiles: [{ artifactID, name: 'a.txt', md5: createHash('md5').update(text).digest('base64') }] },
    )
    const address = /"uploadUrl":"([^"]+)"/.exec(JSON.stringify(files))?.[1] ?? ''
    expect(address.startsWith(`${base}/wandb/storage?token=`)).toBe(true)
    expect((await fetch(address, { method: 'PUT', body: text })).status).toBe(200)
  })

  test("pages of the proxy's address are the server's own, others are not", async () => {
    const from = (origin: string) => fetch(`${base}/v1/models`, { headers: { ...authorization(), origin } })
    expect((await from(new URL(base).origin)).status).toBe(200)
    for (const origin of ['https://evil.example', `http://${new URL(base).host}`, 'https://localhost']) {
      expect([origin, (await from(origin)).status]).toEqual([origin, 403])
    }
  })
})
