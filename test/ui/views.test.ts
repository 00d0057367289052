/**
 * Every view of the page, those of installed plugins among them, with real content: sound in both themes, wide and narrow,
 * in words of whoever reads it, with commands that a shell runs as they read. The list is the page's own table: a view
 * without a row fails.
 */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { loggedGroups } from '../support/log-answers.js'
import { createTestService, sampleGroup, type TestService } from '../support/service/create-test-service.js'
import { openTinker } from '../support/tinker/tinker-client.js'
import { until } from '../support/until.js'
import { CHROMIUM, launchBrowser, openWindow } from './browser.js'
import { expectSound } from './sound.js'

const STEPS = 3
/** Of a model, as a stranger may choose it: commands that hold it are copied into terminals. */
const NAME = 'x;touch PWNED;echo'
const NAMED = encodeURIComponent(NAME)
const LEARNER = `/models/tests/${NAMED}`
const ROWS = ['e', 'a', 'i', 'o', 't', 'n'].map((part) => ({
  messages: [{ role: 'user', content: `Say ${part}.` }],
  part,
}))
const EXAMPLE = {
  messages: [
    { role: 'user', content: 'Is it warm?' },
    { role: 'assistant', content: 'Yes, it is.' },
  ],
}
const GRADER = {
  ...{ type: 'string_check', name: 'holds', input: '{{sample.output_text}}', reference: '{{item.part}}' },
  operation: 'ilike',
}

let service: TestService
let browser: Browser
let token: string
let job: string
let loop: string
let session: string

/** Where each view is seen with content, and what says that it is there. */
const VIEWS: Readonly<Record<string, readonly [path: () => string, sign: string]>> = {
  '/': [() => '/', `text=${NAME}`],
  '/sign-in': [() => '/sign-in', 'text=Keep me signed in'],
  '/models/:project/:name': [() => LEARNER, 'canvas'],
  '/models/:project/:name/checkpoints': [() => `${LEARNER}/checkpoints`, 'text=Kept: all'],
  '/models/:project/:name/marks': [() => `${LEARNER}/marks`, 'text=should have said'],
  '/models/:project/:name/evaluations': [() => `${LEARNER}/evaluations`, '.pairs-list li'],
  '/models/:project/:name/watch': [() => `${LEARNER}/watch`, '.probe'],
  '/compare': [() => `/compare?m=tests/${NAMED}&m=tests/looped`, 'canvas'],
  '/jobs': [() => '/jobs', 'tbody tr'],
  '/jobs/:id': [() => `/jobs/${job}`, 'text=ended: step'],
  '/sessions/:id': [() => `/sessions/${session}`, 'text=trainyard/tiny-random'],
  '/jobs/:id/groups': [() => `/jobs/${job}/groups`, '.group-name'],
  '/jobs/:id/groups/:group': [() => `/jobs/${job}/groups/0`, 'text=Say yes.'],
  '/jobs/:id/groups/:group/:trajectory': [() => `/jobs/${job}/groups/0/0`, '.token'],
  '/jobs/:id/grader': [() => `/jobs/${job}/grader`, 'tbody tr'],
  '/loops': [() => '/loops', 'tbody tr'],
  '/loops/:id': [() => `/loops/${loop}`, 'canvas'],
  '/graders': [() => `/graders`, 'textarea'],
  '/data': [() => '/data', 'text=examples.jsonl'],
  '/train': [() => '/train?kind=sft', 'text=Show the plan'],
  '/play': [() => `/play?m=trainyard/tiny-random&m=tests/${NAMED}`, 'text=Send to all 2'],
  '/settings': [() => '/settings', 'text=Create a key'],
}
/** What the table has beside them: the answer to an address that shows nothing. */
const NOWHERE = '/no/such/view'

/** The page's table, as a browser has it that was given this shell. */
async function listViews(shell: string): Promise<readonly { readonly pattern: string }[]> {
  const content = /<meta name="trainyard-plugins" content="([^"]*)">/.exec(shell)?.[1]?.replaceAll('&quot;', '"')
  const storage = { getItem: () => null }
  const nothing = () => undefined
  vi.stubGlobal('location', new URL('/ui/', service.url))
  vi.stubGlobal('sessionStorage', storage)
  vi.stubGlobal('localStorage', storage)
  vi.stubGlobal('addEventListener', nothing)
  vi.stubGlobal('document', {
    addEventListener: nothing,
    querySelector: () => ({ getAttribute: () => content ?? '[]' }),
  })
  // its types are those of browsers, which tests do not have
  const table = '../../src/plugins/page/browser/views.js'
  const views = ((await import(table)) as { listViews: () => readonly { readonly pattern: string }[] }).listViews()
  vi.unstubAllGlobals()
  return views
}

async function post<T>(path: string, json: unknown): Promise<T> {
  const { status, body } = await service.json<T>(path, { json })
  expect(status, JSON.stringify(body)).toBeLessThan(300)
  return body
}

async function upload(filename: string, rows: readonly object[]): Promise<string> {
  const body = rows.map((row) => JSON.stringify(row)).join('\n')
  return (await service.json<{ id: string }>(`/v1/files?filename=${filename}`, { method: 'POST', body })).body.id
}

/** Runs what a view offers to copy, with programs that do nothing. @returns what did something else, or is no command */
async function runCommands(page: Page): Promise<readonly string[]> {
  const folder = mkdtempSync(join(tmpdir(), 'trainyard-commands-'))
  try {
    const found: string[] = []
    for (const line of await page.locator('.command code').allTextContents()) {
      const { status, stderr } = spawnSync('sh', ['-c', `trainyard() { :; }\ncurl() { :; }\n${line}`], { cwd: folder })
      if (status !== 0 || stderr.length > 0) found.push(`${line}: ${status} ${stderr}`)
    }
    return [...found, ...readdirSync(folder)]
  } finally {
    rmSync(folder, { recursive: true })
  }
}

/** A model that has learned, was evaluated, watched and marked. @returns its newest job */
async function learn(): Promise<string> {
  const model = await service.createModel(NAME)
  await post(`/v1/preview/models/${model}/probes`, {
    messages: [{ role: 'user', content: 'Is it late?' }],
    max_tokens: 8,
  })
  let id = ''
  for (let step = 0; step <= STEPS; step += 1) {
    const asked = Array.from({ length: 12 }, (_, i) => ({
      asked: `Question ${i}: is it late?`,
      answers: [[`answer ${i % 3} of step ${step}`, ((i + step * 5) % 7) / 7] as const],
    }))
    await post(`/v1/preview/models/${model}/log`, { split: 'val', trajectory_groups: loggedGroups(asked) })
    if (step === STEPS) break
    const groups = [sampleGroup([0, 1, 0.5, 0.25]), sampleGroup([1, 1]), sampleGroup([0, step / STEPS])]
    const config = { learning_rate: 1e-3 }
    id = (
      await post<{ id: string }>('/v1/preview/training-jobs', {
        model_id: model,
        trajectory_groups: groups,
        experimental_config: config,
      })
    ).id
    expect((await service.waitForJob(id)).status).toBe('completed')
  }
  const trajectory = `/v1/preview/training-jobs/${id}/groups/0/trajectories/0/mark`
  const mark = { mark: 'bad', edited: 'Yes, of course.', note: 'too short' }
  expect((await service.json(trajectory, { json: mark, method: 'PUT' })).status).toBeLessThan(300)
  return id
}

async function runLoop(): Promise<string> {
  const { id } = await post<{ id: string }>('/v1/preview/loops', {
    ...{
      model_id: await service.createModel('looped'),
      prompts_file: await upload('prompts.jsonl', ROWS),
      grader: GRADER,
    },
    ...{ steps: STEPS, prompts_per_step: 2, answers_per_prompt: 4, held_out_rows: 2, evaluate_every: 1, seed: 11 },
    sampling: { max_completion_tokens: 12 },
    config: { learning_rate: 1e-3, seed: 3 },
  })
  await until(
    async () => {
      const { body } = await service.json<{ status: string }>(`/v1/preview/loops/${id}`)
      return body.status === 'succeeded' || null
    },
    'the loop has ended',
    120_000,
  )
  return id
}

describe.skipIf(CHROMIUM === null)('every view', () => {
  beforeAll(async () => {
    service = await createTestService({ scripted: false, threads: 1, tuning: { plugins: { loops: { pollMs: 20 } } } })
    browser = await launchBrowser()
    token = (await post<{ token: string }>('/v1/preview/sessions', { name: 'test' })).token
    job = await learn()
    loop = await runLoop()
    session = (await (await openTinker(service)).createRun()).id
    await upload('examples.jsonl', [EXAMPLE])
  })
  afterAll(async () => {
    await browser?.close()
    await service?.dispose()
  })

  test('has a row here', async () => {
    const patterns = (await listViews(await (await fetch(`${service.url}/ui/`)).text())).map(({ pattern }) => pattern)
    expect([...patterns].sort()).toEqual(Object.keys(VIEWS).sort())
  })

  test.each([...Object.entries(VIEWS), ['nowhere', [() => NOWHERE, 'text=Nothing here']] as const])(
    '%s is sound, says nothing in words of the code, and shows commands that run as they read',
    async (pattern, [path, sign]) => {
      const window = await openWindow(browser, service.url, { token })
      const { page, context } = window
      await page.goto(`/ui${path()}`)
      await page.locator(sign).first().waitFor({ state: 'attached' })
      await page.locator('header summary:has-text("admin")').waitFor()
      await page.locator('[aria-busy="true"]').first().waitFor({ state: 'detached' })
      expect.soft(await page.evaluate<readonly string[]>(WORDS_OF_CODE), pattern).toEqual([])
      expect.soft(await runCommands(page), pattern).toEqual([])
      await expectSound(window, pattern.replaceAll(/[/:]+/g, '-').replace(/^-/, '') || 'models')
      await context.close()
    },
  )
})

/** Text that is seen, is no code and no line of a log, and yet is spelled as identifiers are. */
const WORDS_OF_CODE = `(() => {
  const found = []
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
  for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
    const element = node.parentElement
    if (element.closest('code, pre, .log, .token, textarea, script, style, noscript') !== null) continue
    const words = node.data.match(/\\b[a-z0-9]+(_[a-z0-9]+)+\\b|\\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{12,}\\b/g)
    if (words !== null) found.push(words.join(' ') + ' in ' + element.outerHTML.slice(0, 160))
  }
  return found
})()`
