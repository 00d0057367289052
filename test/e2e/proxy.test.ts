/**
 * Behind a real nginx and a real Caddy with TLS and a prefix, started with the lines that the documentation gives: every link in an answer leads
 * through the proxy, answers stream, large bodies pass, the page works. Skipped where there is no such proxy.
 */
import type { ChildProcess } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { hasProxy, startProxy } from '../deployment/proxies.js'
import { startService } from '../support/service/service-process.js'
import { unassignedPort } from '../support/service/unassigned-port.js'
import { CHROMIUM, launchBrowser } from '../ui/browser.js'

const SHAPES = [
  { name: 'nginx', how: 'with --public-url', isPublicUrl: true, takesPrefixOff: true },
  {
    name: 'nginx',
    how: 'with --public-url, where the proxy leaves the prefix',
    isPublicUrl: true,
    takesPrefixOff: false,
  },
  { name: 'nginx', how: 'with --trusted-proxy', isPublicUrl: false, takesPrefixOff: true },
  { name: 'caddy', how: 'with --public-url', isPublicUrl: true, takesPrefixOff: true },
  { name: 'caddy', how: 'with --trusted-proxy', isPublicUrl: false, takesPrefixOff: true },
].map((shape, i, shapes) => ({
  ...shape,
  isInstalled: hasProxy(shape.name),
  // takes as long as a stream may be silent, and hangs on the proxy alone
  awaitsPing: process.env['CI_HEAVY'] === '1' || shapes.findIndex(({ name }) => name === shape.name) === i,
}))

describe.each(SHAPES)('behind $name, $how', ({ name, isInstalled, isPublicUrl, takesPrefixOff, awaitsPing }) => {
  let service: Awaited<ReturnType<typeof startService>>
  let proxy: ChildProcess
  let base: string
  let folder: string

  beforeAll(async () => {
    if (!isInstalled) return
    folder = mkdtempSync(join(tmpdir(), 'trainyard-test-'))
    // the certificate is a test's own; only this file's process believes it
    process.env['NODE_TLS_REJECT_UNAUTHORIZED'] = '0'
    const port = await unassignedPort()
    base = `https://localhost:${port}/trainyard`
    const args = isPublicUrl ? ['--public-url', base] : ['--trusted-proxy', '127.0.0.1']
    service = await startService({ args: [...args, '--train-workers', '0'] })
    proxy = await startProxy({ name, port, serviceUrl: service.url, folder, takesPrefixOff })
  })

  afterAll(async () => {
    if (!isInstalled) return
    // until it has ended: the next one gets the same port, and must not be taken for ready by this one's answers
    const ended = proxy.exitCode === null && proxy.signalCode === null ? once(proxy, 'exit') : null
    // Caddy waits a minute for connections that browsers keep; nginx ends at once, and killed would leave its workers
    proxy.kill(name === 'caddy' ? 'SIGKILL' : 'SIGTERM')
    await ended
    await service.stop()
    rmSync(folder, { recursive: true, force: true })
    delete process.env['NODE_TLS_REJECT_UNAUTHORIZED']
  })

  const authorization = () => ({ authorization: `Bearer ${service.key}` })

  test.skipIf(!isInstalled)('what the server says of itself leads through the proxy', async () => {
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

  test.skipIf(!isInstalled)('answers stream, and events of a job that waits come at once', async () => {
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
    // no worker runs: the stream says nothing but that it lives, and does not end
    if (awaitsPing) expect(new TextDecoder().decode((await reader?.read())?.value)).not.toBe('')
    await reader?.cancel()
  })

  test.skipIf(!isInstalled)("the wandb client's addresses lead through the proxy", async () => {
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
    await ask('mutation M($input: I!) { commitArtifact(input: $input) { artifact { id } } }', { artifactID })
    const listed = await ask(
      'query Q { artifact(id: "ID") { files { edges { node { directUrl } } } } }'.replace('ID', artifactID ?? ''),
      {},
    )
    const download = /"directUrl":"([^"]+)"/.exec(JSON.stringify(listed))?.[1] ?? JSON.stringify(listed)
    expect(download.startsWith(`${base}/`), download).toBe(true)
    expect(await (await fetch(download, { headers: { authorization: basic.authorization } })).text()).toBe(text)
  })

  test.skipIf(!isInstalled || CHROMIUM === null)('the page works through the proxy', async () => {
    const { url } = await service.api.call('POST', '/v1/preview/sessions/codes', {})
    const made = await fetch(`${base}/v1/preview/sessions/codes`, { method: 'POST', headers: authorization() })
    const { url: signIn } = (await made.json()) as { readonly url: string }
    expect(signIn.startsWith(`${base}/ui/#code=`)).toBe(true)
    if (isPublicUrl) expect(url.startsWith(`${base}/ui/#code=`)).toBe(true)
    await service.api.createModel('seen', 'trainyard/spark')
    const browser = await launchBrowser()
    try {
      const context = await browser.newContext({ ignoreHTTPSErrors: true })
      context.setDefaultTimeout(60_000)
      const page = await context.newPage()
      const wrong: string[] = []
      page.on('response', (response) => {
        if (!response.url().startsWith(`${base}/`) || response.status() >= 400) {
          wrong.push(`${response.status()} ${response.url()}`)
        }
      })
      page.on('pageerror', (error) => wrong.push(error.message))
      await page.goto(signIn)
      await page.locator('text=seen').first().waitFor()
      await page.goto(`${base}/ui/play?m=trainyard/spark`)
      await page.locator('#message').fill('Hello')
      await page.keyboard.press('Control+Enter')
      await page.locator('.answer[aria-busy=false]').waitFor()
      await page.locator('nav a:has-text("Jobs")').click()
      await page.waitForURL(`${base}/ui/jobs`)
      await page.reload()
      await page.locator('h1').waitFor()
      expect(wrong).toEqual([])
    } finally {
      await browser.close()
    }
  })

  test.skipIf(!isInstalled)("pages of the proxy's address are the server's own, others are not", async () => {
    const from = (origin: string) => fetch(`${base}/v1/models`, { headers: { ...authorization(), origin } })
    expect((await from(new URL(base).origin)).status).toBe(200)
    for (const origin of ['https://evil.example', `http://${new URL(base).host}`, 'https://localhost']) {
      expect([origin, (await from(origin)).status]).toEqual([origin, 403])
    }
  })
})
