/** Trials behind proxies with TLS and a prefix: links, streams, bodies. `test/e2e/proxy.test.ts` looks closer at the same. */
import path from 'node:path'
import { createApi } from '../../support/service/service-process.js'
import { chat, expect, freePort, need, startJob, useService } from '../kit.js'
import { hasProxy, startProxy } from '../proxies.js'

export const PROXY_TRIALS = [
  {
    name: 'nginx with a prefix and TLS: everything and every link through it',
    run: (kit) => useBehind(kit, 'nginx'),
  },
  {
    name: 'Caddy with a prefix and TLS: everything and every link through it',
    run: (kit) => useBehind(kit, 'caddy'),
  },
  {
    name: 'event streams through both: the first word comes before the last is made',
    async run(kit) {
      need(hasProxy('nginx') || hasProxy('caddy'), 'neither nginx nor Caddy is installed')
      for (const name of ['nginx', 'caddy'].filter(hasProxy)) {
        const { api, base, key } = await startBehind(kit, name)
        const { jobId } = await startJob(api, name)
        const stream = await fetch(`${base}/v1/preview/training-jobs/${jobId}/events`, {
          headers: { authorization: `Bearer ${key}`, accept: 'text/event-stream' },
        })
        expect(/event-stream/.test(stream.headers.get('content-type')), `${name}: no stream but ${stream.status}`)
        let events = ''
        let parts = 0
        for await (const part of stream.body.pipeThrough(new TextDecoderStream())) {
          events += part
          parts += 1
        }
        expect(/training_ended/.test(events) && parts > 1, `${name}: events came in ${parts} parts: ${events}`)
        const answer = await fetch(`${base}/v1/chat/completions`, {
          method: 'POST',
          headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
          body: JSON.stringify({
            model: 'trainyard/spark',
            messages: [{ role: 'user', content: 'Count' }],
            max_tokens: 100,
            stream: true,
            ignore_eos: true,
          }),
        })
        let pieces = 0
        for await (const _ of answer.body) pieces += 1
        expect(pieces > 1, `${name}: an answer of many tokens came in one piece`)
      }
    },
  },
  {
    name: 'a body larger than the proxy takes, and a large one where it takes any',
    async run(kit) {
      need(hasProxy('nginx'), 'nginx is not installed')
      const rows = Array.from({ length: 400 }, () => ({
        messages: [{ role: 'user', content: 'x'.repeat(10_000) }],
      }))
      const open = await startBehind(kit, 'nginx')
      await open.api.uploadRows(rows)
      const narrow = (text) => text.replace('client_max_body_size 0', 'client_max_body_size 1m')
      const { base, key } = await startBehind(kit, 'nginx', [], narrow)
      const file = path.join(kit.folder(), 'rows.jsonl')
      const row = {
        messages: [
          { role: 'user', content: 'a' },
          { role: 'assistant', content: 'b'.repeat(4000) },
        ],
      }
      await (await import('node:fs/promises')).writeFile(file, `${JSON.stringify(row)}\n`.repeat(500))
      const env = { TRAINYARD_URL: base, TRAINYARD_API_KEY: key, NODE_TLS_REJECT_UNAUTHORIZED: '0' }
      const made = await kit.command(['models', 'create', 'large', '--base-model', 'trainyard/spark'], { env })
      expect(made.code === 0, `models create says ${made.stderr}`)
      const { code, stderr } = await kit.command(['train', 'sft', 'large', '--file', file], { env })
      expect(code === 2 && /413/.test(stderr) && /proxy/.test(stderr), `the command says ${code}: ${stderr}`)
    },
  },
]

async function startBehind(kit, name, args = [], change = undefined) {
  need(hasProxy(name), `${name} is not installed`)
  const port = await freePort()
  const base = `https://localhost:${port}/trainyard`
  const server = await kit.serve({ args: ['--public-url', base, ...args] })
  // the certificate is a test's own
  process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0'
  kit.atEnd(() => {
    delete process.env.NODE_TLS_REJECT_UNAUTHORIZED
  })
  const proxy = await startProxy({ name, port, serviceUrl: server.url, folder: kit.folder(), change })
  kit.atEnd(() => new Promise((resolve) => proxy.once('close', resolve) && proxy.kill('SIGKILL')))
  return { base, key: server.key, api: createApi(base, server.key) }
}

async function useBehind(kit, name) {
  const { base, api } = await startBehind(kit, name)
  const { model } = await useService({ api }, `behind-${name}`)
  await chat(api, model)
  const about = await (await fetch(`${base}/`)).json()
  expect(about.docs === `${base}/docs` && about.api === `${base}/v1`, `GET / says ${JSON.stringify(about)}`)
  const { servers } = await (await fetch(`${base}/openapi.json`)).json()
  expect(servers[0].url === base, `servers of /openapi.json are ${JSON.stringify(servers)}`)
  for (const page of [`${base}/docs`, `${base}/ui/`]) {
    const html = await (await fetch(page)).text()
    const links = [...html.matchAll(/ (?:href|src)="([^"#]+)[^"]*"/g)].map(([, link]) => new URL(link, page))
    const own = [...new Set(links.filter(({ host }) => host === new URL(base).host).map(({ href }) => href))]
    expect(own.length > 3, `${page} has ${own.length} links`)
    for (const link of own) {
      const { status } = await fetch(link)
      expect(link.startsWith(base) && status === 200, `${page} links to ${link}: ${status}`)
    }
  }
}
